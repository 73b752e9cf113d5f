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

	"github.com/holdfast-mq/holdfast/cmd/internal/child"
)

const (
	// askEvery is the resolution of a time to ready.
	askEvery = 2 * time.Millisecond
	// readyLimit and stopLimit are for a disk that is very slow or a node that hangs.
	readyLimit = 5 * time.Minute
	stopLimit  = 3 * time.Minute
)

// start runs the node's command and returns when it is ready, and filled when
// it is its first start, with the time that took.
func (l *lab) start(ctx context.Context, n node, first bool) (_ *child.Process, took time.Duration, err error) {
	name, args := n.command()
	log, err := os.CreateTemp(l.dir, "log-")
	if err != nil {
		return nil, 0, fmt.Errorf("make log file: %w", err)
	}
	log.Close()
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = l.dir, l.env
	child.Tied(cmd)
	begun := time.Now()
	p, err := child.Start(cmd, log.Name())
	if err != nil {
		return nil, 0, err
	}
	defer func() {
		if err != nil {
			kill(p)
		}
	}()
	if err := p.Await(ctx, readyLimit, askEvery, n.ready); err != nil {
		return nil, 0, err
	}
	if first {
		if err := n.fill(ctx); err != nil {
			return nil, 0, err
		}
	}
	return p, time.Since(begun), nil
}

// stop ends the process cleanly and returns the time it took.
func stop(p *child.Process) (time.Duration, error) {
	begun := time.Now()
	if err := p.Cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return 0, fmt.Errorf("stop process %d: %w", p.Cmd.Process.Pid, err)
	}
	select {
	case <-p.Ended:
	case <-time.After(stopLimit):
		kill(p)
		return 0, fmt.Errorf("stop process %d: still running after %s", p.Cmd.Process.Pid, stopLimit)
	}
	// Stock nats-server exits with 1 after SIGTERM.
	if exit, ok := errors.AsType[*exec.ExitError](p.Status); ok && !exit.Exited() {
		return 0, fmt.Errorf("stop process %d: %w\n%s", p.Cmd.Process.Pid, p.Status, p.LastWords())
	}
	return time.Since(begun), nil
}

// kill ends the process, if it still runs, and waits for it.
func kill(p *child.Process) {
	p.Kill()
	<-p.Ended
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
