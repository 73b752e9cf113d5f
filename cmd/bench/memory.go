// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-mq/holdfast/cmd/internal/child"
)

const (
	lookEvery  = 250 * time.Millisecond
	idleFor    = 3 * time.Second
	idleWithin = 20 * time.Second
	// steady is the change over idleFor that is none.
	steady = 0.01
)

// memory is what a process holds, in bytes. pss is 0 where it can't be read.
type memory struct{ rss, pss int64 }

// settle returns the memory of an idle process: when it has not changed for
// three seconds, or after twenty.
func settle(ctx context.Context, p *child.Process) (memory, error) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	begun := time.Now()
	var at int64 // what the present calm began with
	since := begun
	for {
		m, err := readMemory(p.Cmd.Process.Pid)
		if err != nil {
			return m, err
		}
		now := time.Now()
		if change := float64(m.rss - at); change > steady*float64(at) || -change > steady*float64(at) {
			at, since = m.rss, now
		}
		if now.Sub(since) >= idleFor || now.Sub(begun) >= idleWithin {
			return m, nil
		}
		select {
		case <-ctx.Done():
			return m, fmt.Errorf("wait until idle: %w", ctx.Err())
		case <-p.Ended:
			return m, fmt.Errorf("wait until idle: the process ended: %w\n%s", p.Status, p.LastWords())
		case <-tick.C:
		}
	}
}

func readMemory(pid int) (memory, error) {
	dir := "/proc/" + strconv.Itoa(pid)
	status, err := os.ReadFile(dir + "/status")
	if err != nil {
		return memory{}, fmt.Errorf("read memory: %w", err)
	}
	rss, err := procKilobytes(status, "VmRSS")
	if err != nil {
		return memory{}, err
	}
	m := memory{rss: rss}
	// Needs a newer kernel, and rights that not everybody has.
	if rollup, err := os.ReadFile(dir + "/smaps_rollup"); err == nil {
		if m.pss, err = procKilobytes(rollup, "Pss"); err != nil {
			return memory{}, err
		}
	}
	return m, nil
}

// procKilobytes returns the bytes of a `Key:   123 kB` line.
func procKilobytes(text []byte, key string) (int64, error) {
	for s := bufio.NewScanner(bytes.NewReader(text)); s.Scan(); {
		name, value, ok := strings.Cut(s.Text(), ":")
		if !ok || name != key {
			continue
		}
		kb, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(value, "kB")), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read memory: %w", err)
		}
		return kb << 10, nil
	}
	return 0, fmt.Errorf("read memory: no %s", key)
}
