// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	// askEvery is how often a node that starts is asked whether it is ready.
	askEvery = 10 * time.Millisecond
	// readyLimit is when a node counts as one that does not come back.
	readyLimit = time.Minute
	// askLimit bounds one question.
	askLimit = 10 * time.Second
)

// node is a server as it is configured, running or not.
type node interface {
	// command starts it in the foreground.
	command() (name string, args []string)
	// ready returns nil once the node serves what it holds.
	ready(ctx context.Context) error
	// login is how a client connects, with the credentials that are there now.
	login() ([]nats.Option, string, error)
	// who is what must be the same after every cut: credentials and name.
	who(ctx context.Context) (string, error)
	// fill makes what the node does not make itself, once it is ready for the first time.
	fill(ctx context.Context, js jetstream.JetStream) error
	// declares says that the node makes all of its topology itself.
	declares() bool
}

// process is a node that runs.
type process struct {
	cmd    *exec.Cmd
	log    string
	ended  chan struct{} // closed when the process is gone
	status error         // valid then
}

// start must be called on a locked thread: the child ends with the thread that
// started it.
func start(n node, log string) (*process, error) {
	name, args := n.command()
	f, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("make log file: %w", err)
	}
	defer f.Close()
	p := &process{cmd: exec.Command(name, args...), log: log, ended: make(chan struct{})}
	p.cmd.Dir, p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr = filepath.Dir(log), cleanEnvironment(os.Environ()), f, f
	tied(p.cmd)
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", filepath.Base(name), err)
	}
	go func() {
		p.status = p.cmd.Wait()
		close(p.ended)
	}()
	return p, nil
}

// await asks until the answer is nil, the process ends or time is up.
func (p *process) await(ctx context.Context, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, readyLimit)
	defer cancel()
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	for {
		err := ask(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait until ready: %w: %w\n%s", ctx.Err(), err, p.lastWords())
		case <-p.ended:
			return fmt.Errorf("wait until ready: the process ended: %w\n%s", p.status, p.lastWords())
		case <-tick.C:
		}
	}
}

// lastWords are the end of what the process wrote.
func (p *process) lastWords() string {
	const most = 2000
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(bytes.TrimSpace(text[max(0, len(text)-most):]))
}

// kill does not wait.
func (p *process) kill() { _ = p.cmd.Process.Kill() } // it may have ended already

// cleanEnvironment leaves out what would configure a node.
func cleanEnvironment(all []string) []string {
	var out []string
	for _, v := range all {
		if !strings.HasPrefix(v, "HOLDFAST_") && !strings.HasPrefix(v, "NATS_") {
			out = append(out, v)
		}
	}
	return out
}

// session is a connection that does not outlive the node it is to.
type session struct {
	nc     *nats.Conn
	js     jetstream.JetStream
	closed chan struct{}
}

func connect(n node) (*session, error) {
	opts, url, err := n.login()
	if err != nil {
		return nil, err
	}
	s := &session{closed: make(chan struct{})}
	opts = append(opts, nats.NoReconnect(), nats.Timeout(askLimit), nats.ClosedHandler(func(*nats.Conn) { close(s.closed) }),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})) // the end of the node is no news
	if s.nc, err = nats.Connect(url, opts...); err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	// The window of an asynchronous publisher is bounded where it publishes.
	s.js, err = jetstream.New(s.nc)
	if err != nil {
		s.nc.Close()
		return nil, fmt.Errorf("use JetStream: %w", err)
	}
	return s, nil
}

// freePorts returns ports that the kernel has just given out and got back.
func freePorts(n int) ([]int, error) {
	ports := make([]int, n)
	for i := range ports {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("find a free port: %w", err)
		}
		defer l.Close() // at the end: no port is given out twice
		ports[i] = l.Addr().(*net.TCPAddr).Port
	}
	return ports, nil
}

// isGone says that a stream or a consumer does not exist.
func isGone(err error) bool {
	return errors.Is(err, jetstream.ErrStreamNotFound) || errors.Is(err, jetstream.ErrConsumerNotFound)
}
