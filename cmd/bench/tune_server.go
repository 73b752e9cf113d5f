// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/holdfast-mq/holdfast/appliance/tune"
	"github.com/holdfast-mq/holdfast/cmd/internal/child"
)

const (
	// publishers wait for their acknowledgements, and messages are this large, in bytes.
	tunePublishers = 16
	tuneMessage    = 1 << 10
)

// blocksTrial compares two streams of one node that differ in what they may take: the
// server makes files of a quarter of it, of 8 MiB at most.
func blocksTrial(from, to int64) func(context.Context, *tuneLab) (tune.Trial, func() error, string, error) {
	return func(ctx context.Context, l *tuneLab) (t tune.Trial, end func() error, lacks string, err error) {
		dir, remove, err := l.scratch("blocks")
		if err != nil {
			return t, nil, "", err
		}
		ports, err := child.FreePorts(2)
		if err != nil {
			return t, nil, "", errors.Join(err, remove())
		}
		data := filepath.Join(dir, "data")
		n := &holdfastNode{
			binary: l.holdfast, file: filepath.Join(dir, "holdfast.yaml"), creds: filepath.Join(data, "creds", account, "admin.creds"),
			client: ports[0], http: ports[1],
		}
		text := fmt.Sprintf(`node: {name: bench, data_dir: %s}
listen: {client: "127.0.0.1:%d", http: "127.0.0.1:%d"}
storage: {durability: strict, limit: %d}
accounts:
  %s:
    users: {admin: {role: admin}}
    streams:
      FROM: {subjects: ["from.>"], discard: old, max_bytes: %d}
      TO: {subjects: ["to.>"], discard: old, max_bytes: %d}
`, quote(data), n.client, n.http, int64(storeLimit), account, from, to)
		if err := writeFile(n.file, text); err != nil {
			return t, nil, "", errors.Join(err, remove())
		}
		p, _, err := l.start(ctx, n, false)
		if err != nil {
			return t, nil, "", errors.Join(err, remove())
		}
		nc, js, err := connect(n.client, nats.UserCredentials(n.creds))
		if err != nil {
			kill(p)
			return t, nil, "", errors.Join(err, remove())
		}
		end = func() error {
			nc.Close()
			kill(p)
			return remove()
		}
		var subject atomic.Value
		put := func(to string) func() error {
			return func() error { subject.Store(to); return nil }
		}
		// Full streams are what is compared.
		for _, s := range []string{"from.x", "to.x"} {
			if err := fillWith(ctx, js, s, max(from, to)+(1<<20)); err != nil {
				return t, nil, "", errors.Join(err, end())
			}
		}
		t = tune.Trial{
			Dir: l.dir, Figure: fmt.Sprintf("messages, %d publishers", tunePublishers), Unit: "msg/s", More: true, Before: put("from.x"), After: put("to.x"),
			Do: func(ctx context.Context) (float64, error) {
				return publishFor(ctx, js, l.each, subject.Load().(string))
			},
		}
		return t, end, "", nil
	}
}

// fillWith publishes bytes without waiting for each message.
func fillWith(ctx context.Context, js jetstream.JetStream, subject string, size int64) error {
	payload := make([]byte, 16<<10)
	for sent := int64(0); sent < size; sent += int64(len(payload)) {
		if _, err := js.PublishAsync(subject, payload); err != nil {
			return fmt.Errorf("fill the stream: %w", err)
		}
		if js.PublishAsyncPending() < 256 {
			continue
		}
		select {
		case <-js.PublishAsyncComplete():
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// publishFor returns how many messages a second publishers get acknowledged that wait for
// each. They share the subjects.
func publishFor(ctx context.Context, js jetstream.JetStream, each time.Duration, subjects ...string) (float64, error) {
	var done atomic.Int64
	var running sync.WaitGroup
	errs := make([]error, tunePublishers)
	begun := time.Now()
	for i := range tunePublishers {
		running.Go(func() {
			payload, subject := make([]byte, tuneMessage), subjects[i%len(subjects)]
			for time.Since(begun) < each && errs[i] == nil {
				if _, errs[i] = js.Publish(ctx, subject, payload); errs[i] == nil {
					done.Add(1)
				}
			}
		})
	}
	running.Wait()
	if err := errors.Join(errs...); err != nil {
		return 0, fmt.Errorf("publish: %w", err)
	}
	return float64(done.Load()) / time.Since(begun).Seconds(), nil
}

// concurrentTrial compares two stock servers that differ in max_concurrent_io.
func concurrentTrial(from, to int) func(context.Context, *tuneLab) (tune.Trial, func() error, string, error) {
	return func(ctx context.Context, l *tuneLab) (t tune.Trial, end func() error, lacks string, err error) {
		dir, remove, err := l.scratch("concurrent")
		if err != nil {
			return t, nil, "", err
		}
		ends := []func() error{remove}
		end = func() error {
			var errs []error
			for i := len(ends) - 1; i >= 0; i-- {
				errs = append(errs, ends[i]())
			}
			return errors.Join(errs...)
		}
		var servers [2]jetstream.JetStream
		for i, n := range []int{from, to} {
			js, stop, err := l.startConcurrent(ctx, filepath.Join(dir, fmt.Sprint(i)), n)
			if err != nil {
				return t, nil, "", errors.Join(err, end())
			}
			servers[i], ends = js, append(ends, stop)
		}
		var which atomic.Int64
		put := func(i int64) func() error {
			return func() error { which.Store(i); return nil }
		}
		t = tune.Trial{
			Dir: l.dir, Figure: fmt.Sprintf("messages, %d publishers in 4 streams", tunePublishers), Unit: "msg/s", More: true, Before: put(0), After: put(1),
			Do: func(ctx context.Context) (float64, error) {
				return publishFor(ctx, servers[which.Load()], l.each, "s0", "s1", "s2", "s3")
			},
		}
		return t, end, "", nil
	}
}

func (l *tuneLab) startConcurrent(ctx context.Context, dir string, limit int) (jetstream.JetStream, func() error, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, nil, fmt.Errorf("make directory: %w", err)
	}
	ports, err := child.FreePorts(2)
	if err != nil {
		return nil, nil, err
	}
	n := &stockNode{binary: l.stock, file: filepath.Join(dir, "nats-server.conf"), port: ports[0]}
	text := strings.Replace(stockText(filepath.Join(dir, "data"), n.port, ports[1], storeLimit, "always"), "jetstream {\n", fmt.Sprintf("jetstream {\n    max_concurrent_io: %d\n", limit), 1)
	if err := writeFile(n.file, text); err != nil {
		return nil, nil, err
	}
	p, _, err := l.start(ctx, n, false)
	if err != nil {
		return nil, nil, err
	}
	nc, js, err := connect(n.port)
	if err != nil {
		kill(p)
		return nil, nil, err
	}
	stop := func() error {
		nc.Close()
		kill(p)
		return nil
	}
	for i := range 4 {
		_, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: fmt.Sprintf("S%d", i), Subjects: []string{fmt.Sprintf("s%d", i)}, MaxBytes: 64 << 20})
		if err != nil {
			return nil, nil, errors.Join(fmt.Errorf("create stream: %w", err), stop())
		}
	}
	return js, stop, nil
}
