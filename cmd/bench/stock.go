// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/holdfast-mq/holdfast/cmd/internal/child"
)

// stockNode is a nats-server with the same JetStream settings, filled by a
// client over TCP, one request after the other, as a script does it.
type stockNode struct {
	binary string
	file   string
	port   int
	size   size
	filled bool
}

func (l *lab) newStock(dir string, s size) (node, error) {
	ports, err := child.FreePorts(2)
	if err != nil {
		return nil, err
	}
	n := &stockNode{binary: l.stock, file: filepath.Join(dir, "nats-server.conf"), port: ports[0], size: s}
	return n, writeFile(n.file, stockText(filepath.Join(dir, "data"), n.port, ports[1], storeLimit, "always"))
}

func stockText(data string, client, http int, limit int64, sync string) string {
	return fmt.Sprintf(`server_name: bench
listen: "127.0.0.1:%d"
http: "127.0.0.1:%d"
jetstream {
    store_dir: %s
    max_file: %d
    sync_interval: %s
}
`, client, http, quote(data), limit, sync)
}

func (n *stockNode) command() (string, []string) { return n.binary, []string{"--config", n.file} }

// ready asks for the names of all streams: the port opens when they are there.
func (n *stockNode) ready(ctx context.Context) error {
	nc, js, err := connect(n.port)
	if err != nil {
		return err
	}
	defer nc.Close()
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	names := js.StreamNames(ctx)
	got := 0
	for range names.Name() {
		got++
	}
	if err := names.Err(); err != nil {
		return fmt.Errorf("list streams: %w", err)
	}
	if n.filled && got != n.size.streams {
		return fmt.Errorf("list streams: got %d, want %d", got, n.size.streams)
	}
	return nil
}

func (n *stockNode) fill(ctx context.Context) error {
	nc, js, err := connect(n.port)
	if err != nil {
		return err
	}
	defer nc.Close()
	for i := range n.size.streams {
		_, err := js.CreateStream(ctx, jetstream.StreamConfig{
			Name: n.size.stream(i), Subjects: []string{n.size.subject(i)}, MaxBytes: streamBytes, Discard: jetstream.DiscardNew,
		})
		if err != nil {
			return fmt.Errorf("create stream %q: %w", n.size.stream(i), err)
		}
		for j := range n.size.consumers {
			_, err := js.CreateConsumer(ctx, n.size.stream(i), jetstream.ConsumerConfig{
				Durable: n.size.consumer(j), AckPolicy: jetstream.AckExplicitPolicy, AckWait: 30 * time.Second,
				FilterSubject: n.size.filter(i, j),
			})
			if err != nil {
				return fmt.Errorf("create consumer %q of stream %q: %w", n.size.consumer(j), n.size.stream(i), err)
			}
		}
	}
	n.filled = true
	return nil
}

func (n *stockNode) verify(ctx context.Context) error { return verifyAt(ctx, n.port, n.size) }
