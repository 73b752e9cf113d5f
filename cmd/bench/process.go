// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	// askEvery is the resolution of a time to ready.
	askEvery = 2 * time.Millisecond
	// readyLimit and stopLimit are for a disk that is very slow or a node that hangs.
	readyLimit = 5 * time.Minute
	stopLimit  = 3 * time.Minute
)

// process is a node that runs.
type process struct {
	cmd    *exec.Cmd
	log    string
	ended  chan struct{} // closed when the process is gone
	status error         // valid then
}

// start runs the node's command and returns when it is ready, and filled when
// it is its first start, with the time that took.
func (l *lab) start(ctx context.Context, n node, first bool) (_ *process, took time.Duration, err error) {
	name, args := n.command()
	log, err := os.CreateTemp(l.dir, "log-")
	if err != nil {
		return nil, 0, fmt.Errorf("make log file: %w", err)
	}
	defer log.Close()
	p := &process{cmd: exec.Command(name, args...), log: log.Name(), ended: make(chan struct{})}
	p.cmd.Dir, p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr = l.dir, l.env, log, log
	begun := time.Now()
	if err := p.cmd.Start(); err != nil {
		return nil, 0, fmt.Errorf("start %s: %w", filepath.Base(name), err)
	}
	go func() {
		p.status = p.cmd.Wait()
		close(p.ended)
	}()
	defer func() {
		if err != nil {
			p.kill()
		}
	}()
	if err := p.await(ctx, n.ready); err != nil {
		return nil, 0, err
	}
	if first {
		if err := n.fill(ctx); err != nil {
			return nil, 0, err
		}
	}
	return p, time.Since(begun), nil
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
			return fmt.Errorf("wait until ready: %w: %w", ctx.Err(), err)
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

// stop ends the process cleanly and returns the time it took.
func (p *process) stop() (time.Duration, error) {
	begun := time.Now()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return 0, fmt.Errorf("stop process %d: %w", p.cmd.Process.Pid, err)
	}
	select {
	case <-p.ended:
	case <-time.After(stopLimit):
		p.kill()
		return 0, fmt.Errorf("stop process %d: still running after %s", p.cmd.Process.Pid, stopLimit)
	}
	// Stock nats-server exits with 1 after SIGTERM.
	if exit, ok := errors.AsType[*exec.ExitError](p.status); ok && !exit.Exited() {
		return 0, fmt.Errorf("stop process %d: %w\n%s", p.cmd.Process.Pid, p.status, p.lastWords())
	}
	return time.Since(begun), nil
}

// kill ends the process, if it still runs, and waits for it.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended already
	<-p.ended
}

// output runs a command to its end.
func (l *lab) output(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = l.env
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("run %s %s: %w\n%s", filepath.Base(name), strings.Join(args, " "), err, bytes.TrimSpace(stderr.Bytes()))
	}
	return strings.TrimSpace(string(out)), nil
}
