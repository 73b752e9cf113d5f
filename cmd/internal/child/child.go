// SPDX-License-Identifier: Apache-2.0

// Package child runs nodes as processes of their own, for the programs and the verb that
// measure and torture them. It owns the start, the wait until a node is ready, its last words
// and its end; what a node is and when it is ready its callers know.
package child

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Process is a node that runs.
type Process struct {
	Cmd *exec.Cmd
	// Ended is closed when the process is gone; Status is valid then.
	Ended  chan struct{}
	Status error

	log string
}

// Start starts the command, with stdout and stderr at the end of a file.
func Start(cmd *exec.Cmd, log string) (*Process, error) {
	f, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("make log file: %w", err)
	}
	defer f.Close()
	cmd.Stdout, cmd.Stderr = f, f
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", filepath.Base(cmd.Path), err)
	}
	p := &Process{Cmd: cmd, Ended: make(chan struct{}), log: log}
	go func() {
		p.Status = cmd.Wait()
		close(p.Ended)
	}()
	return p, nil
}

// Await asks every so often until the answer is nil, the process ends or the limit is
// reached.
func (p *Process) Await(ctx context.Context, limit, every time.Duration, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		err := ask(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait until ready: %w: %w\n%s", ctx.Err(), err, p.LastWords())
		case <-p.Ended:
			return fmt.Errorf("wait until ready: the process ended: %w\n%s", p.Status, p.LastWords())
		case <-tick.C:
		}
	}
}

// LastWords are the end of what the process wrote.
func (p *Process) LastWords() string {
	const most = 2000
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(bytes.TrimSpace(text[max(0, len(text)-most):]))
}

// Kill ends the process, if it still runs, and does not wait.
func (p *Process) Kill() { _ = p.Cmd.Process.Kill() } // it may have ended already

// Environment leaves out what would configure a node.
func Environment(all []string) []string {
	var out []string
	for _, v := range all {
		if !strings.HasPrefix(v, "HOLDFAST_") && !strings.HasPrefix(v, "NATS_") {
			out = append(out, v)
		}
	}
	return out
}

// FreePorts returns ports that the kernel has just given out and got back. A node is
// told its ports beforehand, so that asking for them costs no time.
func FreePorts(n int) ([]int, error) {
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
