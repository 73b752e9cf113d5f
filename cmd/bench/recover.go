// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/holdfast-mq/holdfast/cmd/internal/child"
)

// shape is what a store of messages looks like.
type shape struct {
	name    string
	streams int
	bytes   int   // of a message
	size    int64 // of the messages together
}

func (s shape) String() string {
	streams := "one stream"
	if s.streams > 1 {
		streams = fmt.Sprintf("%d streams", s.streams)
	}
	return fmt.Sprintf("%s in messages of %s in %s", quantity(float64(s.size)/(1<<30), gib), quantity(float64(s.bytes)/(1<<10), kib), streams)
}

const (
	gib = "GiB"
	kib = "KiB"
)

// shapes are the stores to recover. Of small messages there is less: their number
// counts, and to write them takes long.
func shapes(size int64) []shape {
	return []shape{
		{"recover-one", 1, 64 << 10, size},
		{"recover-many", 8, 64 << 10, size},
		{"recover-small", 8, 1 << 10, size / 5},
	}
}

// recovering sets the start after a kill -9 against reading the same files, both with
// nothing of them in the page cache.
func (l *lab) recovering() []measurement {
	var out []measurement
	for _, s := range shapes(l.store) {
		out = append(out, measurement{
			name: s.name,
			figures: []figure{
				{"ready", "start after kill -9 until ready, " + s.String(), seconds},
				{"checked", "until all is checked", seconds},
				{"told", "lines of progress told to systemd", "lines"},
			},
			ours: side{"holdfast", func(ctx context.Context) (sample, error) { return l.timeRecovery(ctx, s) }},
			peer: side{"reading the files once", func(ctx context.Context) (sample, error) { return l.timeReading(ctx, s) }},
		})
	}
	return out
}

// crashed is a store that a node was killed on.
type crashed struct {
	shape shape
	dir   string
	node  *crashedNode
	files []string
}

// crashedStore returns the store of a shape, and removes the one of another.
func (l *lab) crashedStore(ctx context.Context, s shape) (_ *crashed, err error) {
	if l.crashed != nil {
		if l.crashed.shape == s {
			return l.crashed, nil
		}
		if err := os.RemoveAll(l.crashed.dir); err != nil {
			return nil, fmt.Errorf("remove data: %w", err)
		}
		l.crashed = nil
	}
	c := &crashed{shape: s}
	if c.dir, err = os.MkdirTemp(l.dir, "store-"); err != nil {
		return nil, fmt.Errorf("make data directory: %w", err)
	}
	if c.node, err = l.newCrashed(c.dir, s); err != nil {
		return nil, err
	}
	begun := time.Now()
	p, _, err := l.start(ctx, c.node, true)
	if err != nil {
		return nil, err
	}
	kill(p)
	if c.files, err = blocksBelow(c.dir); err != nil {
		return nil, err
	}
	fmt.Fprintf(l.told, "%s: written in %s, %d files\n", s.name, time.Since(begun).Round(time.Second), len(c.files))
	l.crashed = c
	return c, nil
}

// crashedNode has streams of messages.
type crashedNode struct {
	holdfastNode
	shape shape
	seen  func(why string) // what /readyz said
}

func (l *lab) newCrashed(dir string, s shape) (*crashedNode, error) {
	ports, err := child.FreePorts(2)
	if err != nil {
		return nil, err
	}
	data := filepath.Join(dir, "data")
	n := &crashedNode{shape: s, holdfastNode: holdfastNode{
		binary: l.holdfast, file: filepath.Join(dir, "holdfast.yaml"), creds: filepath.Join(data, "creds", account, "admin.creds"),
		client: ports[0], http: ports[1],
	}}
	var b strings.Builder
	fmt.Fprintf(&b, "node: {name: bench, data_dir: %s}\n", quote(data))
	fmt.Fprintf(&b, "listen: {client: \"127.0.0.1:%d\", http: \"127.0.0.1:%d\"}\n", n.client, n.http)
	fmt.Fprintf(&b, "storage: {durability: interval, sync_interval: 1s, limit: %d}\n", 2*s.size)
	fmt.Fprintf(&b, "accounts:\n  %s:\n    users:\n      admin: {role: admin}\n    streams:\n", account)
	for i := range s.streams {
		fmt.Fprintf(&b, "      %s: {subjects: [\"%s.>\"], max_bytes: %d}\n", s.stream(i), s.stream(i), 2*s.size/int64(s.streams))
	}
	return n, writeFile(n.file, b.String())
}

func (s shape) stream(i int) string { return fmt.Sprintf("S%d", i) }

// each is how many messages a stream has.
func (s shape) each() int { return int(s.size / int64(s.streams) / int64(s.bytes)) }

func (n *crashedNode) ready(ctx context.Context) error {
	err := n.holdfastNode.ready(ctx)
	if err != nil && n.seen != nil {
		n.seen(err.Error())
	}
	return err
}

// fill publishes with many messages on their way; durability is not what is measured.
func (n *crashedNode) fill(ctx context.Context) error {
	const underway, subjects = 256, 100
	nc, err := nats.Connect(fmt.Sprintf("nats://127.0.0.1:%d", n.client), nats.UserCredentials(n.creds), nats.NoReconnect(), nats.Timeout(askLimit))
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(underway))
	if err != nil {
		return fmt.Errorf("use JetStream: %w", err)
	}
	data := make([]byte, n.shape.bytes)
	for i := range data {
		data[i] = byte(i * 31) // nothing that a disk could leave out
	}
	for i := range n.shape.each() * n.shape.streams {
		subject := fmt.Sprintf("%s.%d", n.shape.stream(i%n.shape.streams), i%subjects)
		if _, err := js.PublishAsync(subject, data, jetstream.WithStallWait(time.Minute)); err != nil {
			return fmt.Errorf("publish: %w", err)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	select {
	case <-js.PublishAsyncComplete():
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return n.verify(ctx)
}

// verify fails unless every message is there.
func (n *crashedNode) verify(ctx context.Context) error {
	nc, js, err := connect(n.client, nats.UserCredentials(n.creds))
	if err != nil {
		return err
	}
	defer nc.Close()
	for i := range n.shape.streams {
		s, err := js.Stream(ctx, n.shape.stream(i))
		if err != nil {
			return fmt.Errorf("verify node: %w", err)
		}
		if got, want := s.CachedInfo().State.Msgs, uint64(n.shape.each()); got != want {
			return fmt.Errorf("verify node: got %d messages in %s, want %d", got, n.shape.stream(i), want)
		}
	}
	return nil
}

// timeRecovery starts the node on a store that nothing of is in memory, and kills it
// again, so that the next start finds the same.
func (l *lab) timeRecovery(ctx context.Context, s shape) (_ sample, err error) {
	c, err := l.crashedStore(ctx, s)
	if err != nil {
		return nil, err
	}
	if err := forget(c.files); err != nil {
		return nil, err
	}
	told, err := listenAsSystemd(filepath.Join(c.dir, "notify"))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, told.close()) }()
	with := *l
	with.env = append(slices.Clone(l.env), "NOTIFY_SOCKET="+told.path)
	begun := time.Now()
	var checked time.Duration
	c.node.seen = func(why string) {
		if strings.Contains(why, "checking stored messages") {
			checked = time.Since(begun)
		}
	}
	p, took, err := with.start(ctx, c.node, false)
	if err != nil {
		return nil, err
	}
	defer kill(p)
	lines := 0
	for _, line := range told.lines() {
		if strings.Contains(line.text, "stored messages:") || strings.Contains(line.text, "streams:") {
			lines++
			fmt.Fprintf(l.told, "  %5.1f s  %s\n", line.at.Sub(begun).Seconds(), line.text)
		}
	}
	return sample{"ready": took.Seconds(), "checked": checked.Seconds(), "told": float64(lines)}, c.node.verify(ctx)
}

// timeReading reads the files from the disk, one after the other, as fast as it goes.
func (l *lab) timeReading(ctx context.Context, s shape) (sample, error) {
	c, err := l.crashedStore(ctx, s)
	if err != nil {
		return nil, err
	}
	if err := forget(c.files); err != nil {
		return nil, err
	}
	buf := make([]byte, 1<<20)
	begun := time.Now()
	for _, path := range c.files {
		if err := readAll(path, buf); err != nil {
			return nil, err
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
	return sample{"ready": time.Since(begun).Seconds()}, nil
}

func readAll(path string, buf []byte) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("read the store: %w", err)
	}
	defer f.Close()
	for {
		if _, err := f.Read(buf); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("read the store: %w", err)
		}
	}
}

// blocksBelow are the files with messages.
func blocksBelow(dir string) ([]string, error) {
	var files []string
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err == nil && filepath.Ext(path) == ".blk" {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("find the store: %w", err)
	}
	return files, nil
}
