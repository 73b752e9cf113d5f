// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/holdfast-mq/holdfast/cmd/bench/load"
	"github.com/holdfast-mq/holdfast/cmd/internal/child"
	"github.com/holdfast-mq/holdfast/cmd/internal/trio"
)

// growMessages is what the single node has, of 256 bytes.
const growMessages = 1_000_000

// growth is one time that a single node grew.
type growth struct {
	// Copied is from the start of the other two nodes until every message had three copies,
	// and Cut the longest time between two acknowledgements meanwhile, in seconds.
	Copied float64 `json:"copied_seconds"`
	Cut    float64 `json:"cut_seconds"`
	// Limit is how long it takes to write what is copied twice to the same volume, with an
	// fsync at the end, in seconds.
	Limit float64 `json:"limit_seconds"`
	Bytes int64   `json:"bytes"`
}

// measureGrowth takes single nodes into clusters.
func (g *gapRun) measureGrowth(ctx context.Context, times int) ([]growth, error) {
	var out []growth
	for i := range times {
		got, err := g.grow(ctx)
		if err != nil {
			return out, fmt.Errorf("measure growing: %w", err)
		}
		out = append(out, got)
		fmt.Fprintf(g.out, "%d of %d: growing: %s, of which nothing acknowledged for %s; writing as much twice: %s\n", i+1, times,
			quantity(got.Copied, seconds), quantity(got.Cut, seconds), quantity(got.Limit, seconds))
	}
	return out, nil
}

func (g *gapRun) grow(ctx context.Context) (out growth, err error) {
	dir, err := os.MkdirTemp(g.place.dir, "grow-")
	if err != nil {
		return out, fmt.Errorf("make data directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	t := &trio3{gapRun: g, processes: make([]*child.Process, len(g.hosts))}
	defer func() {
		for i := range t.processes {
			t.end(i)
		}
	}()
	if err := t.fillAlone(ctx, dir); err != nil {
		return out, err
	}
	defer t.nc.Close()
	if out.Bytes, out.Limit, err = writeTwice(t.nodes[0].Data, dir); err != nil {
		return out, err
	}
	if err := t.start(0); err != nil {
		return out, err
	}
	publishing, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	running.Go(func() { t.publish(publishing, t.js, "grows") })
	if err := t.goingOn(ctx); err != nil {
		return out, err
	}
	t.begin()
	begun := time.Now()
	if err := errors.Join(t.start(1), t.start(2)); err != nil {
		return out, err
	}
	for err = trio.ErrNotYet; err != nil; { // until bounds each wait; a copy may take several
		err = t.until(ctx, func(ctx context.Context) error {
			_, err := t.leader(ctx)
			return err
		})
		if err != nil && time.Since(begun) > 10*gapLimit {
			return out, err
		}
	}
	out.Copied, out.Cut = time.Since(begun).Seconds(), t.longest().Seconds()
	return out, nil
}

// fillAlone has the first node store its messages as a single one, and ends it. What it is
// started with next is the file of one of three.
func (t *trio3) fillAlone(ctx context.Context, dir string) error {
	var places []trio.Place
	for i, h := range t.hosts {
		home := filepath.Join(dir, fmt.Sprintf("n%d", i+1))
		places = append(places, trio.Place{Host: h.Addr, Client: 4222, HTTP: 8222, Routes: 6222, Dir: home, Data: filepath.Join(home, "data"), Dial: h.DialContext})
	}
	var err error
	if t.nodes, err = trio.Holdfast(t.holdfast, fmt.Sprintf("durability: strict, limit: %d", queueLimit), clusterQueue(), places); err != nil {
		return err
	}
	file := filepath.Join(t.nodes[0].Dir, "holdfast.yaml")
	whole, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("read configuration: %w", err)
	}
	var alone bytes.Buffer
	for line := range strings.Lines(string(whole)) {
		if !strings.HasPrefix(line, "cluster:") {
			alone.WriteString(line)
		}
	}
	if err := os.WriteFile(file, alone.Bytes(), 0o600); err != nil {
		return fmt.Errorf("write configuration: %w", err)
	}
	if err := t.start(0); err != nil {
		return err
	}
	if err := t.until(ctx, t.nodes[0].Ready); err != nil {
		return err
	}
	if t.access, err = t.nodes[0].Access(); err != nil {
		return err
	}
	if t.nc, t.js, err = t.access.Connect(t.nodes[:1]); err != nil {
		return err
	}
	if err := t.publishMany(ctx); err != nil {
		return err
	}
	t.end(0)
	return os.WriteFile(file, whole, 0o600)
}

// publishMany publishes with many acknowledgements under way.
func (t *trio3) publishMany(ctx context.Context) error {
	js, err := jetstream.New(t.nc, jetstream.WithPublishAsyncMaxPending(512))
	if err != nil {
		return fmt.Errorf("use JetStream: %w", err)
	}
	subject := load.Spec{Queue: queueName}.Subjects()
	subject = subject[:len(subject)-1] + "before"
	body := make([]byte, 256)
	for range growMessages {
		if _, err := js.PublishAsync(subject, body, jetstream.WithStallWait(gapLimit)); err != nil {
			return fmt.Errorf("publish: %w", err)
		}
	}
	select {
	case <-js.PublishAsyncComplete():
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// writeTwice writes all blocks below a directory to two files, as two nodes do that get
// their copies, and removes them.
func writeTwice(data, dir string) (size int64, took float64, err error) {
	var blocks []string
	err = filepath.WalkDir(data, func(path string, _ fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(path) == ".blk" {
			blocks = append(blocks, path)
		}
		return err
	})
	if err != nil {
		return 0, 0, fmt.Errorf("list blocks: %w", err)
	}
	begun := time.Now()
	for i := range 2 {
		n, err := writeOut(blocks, filepath.Join(dir, fmt.Sprintf("copy-%d", i)))
		if err != nil {
			return 0, 0, fmt.Errorf("write a copy: %w", err)
		}
		size = n
	}
	return size, time.Since(begun).Seconds(), nil
}

func writeOut(blocks []string, to string) (n int64, err error) {
	f, err := os.Create(to)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(to)) }()
	for _, path := range blocks {
		b, err := os.Open(path)
		if err != nil {
			return n, err
		}
		m, err := io.Copy(f, b)
		if n += m; errors.Join(err, b.Close()) != nil {
			return n, err
		}
	}
	return n, f.Sync()
}
