// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/holdfast-mq/holdfast/cmd/internal/child"
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
	// configure writes what it starts with, before each start.
	configure() error
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

// start must be called on a locked thread: the child ends with the thread that
// started it.
func start(n node, log string) (*child.Process, error) {
	if err := n.configure(); err != nil {
		return nil, err
	}
	name, args := n.command()
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = filepath.Dir(log), child.Environment(os.Environ())
	child.Tied(cmd)
	return child.Start(cmd, log)
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

// isGone says that a stream or a consumer does not exist.
func isGone(err error) bool {
	return errors.Is(err, jetstream.ErrStreamNotFound) || errors.Is(err, jetstream.ErrConsumerNotFound)
}
