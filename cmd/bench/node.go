// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	// account and storeLimit are the same on both sides.
	account    = "bench"
	storeLimit = 4 << 30
	// streamBytes is what each stream may take.
	streamBytes = 1 << 20
	// askLimit bounds one question to a node that may not be up yet.
	askLimit = 5 * time.Second
)

// node is one of the two sides, with the files it runs from.
type node interface {
	// command is what starts it in the foreground.
	command() (name string, args []string)
	// ready returns nil once the node serves what it holds.
	ready(ctx context.Context) error
	// fill makes the streams and consumers after the first start, on a side
	// that does not do it itself.
	fill(ctx context.Context) error
	// verify fails unless exactly the streams and consumers exist.
	verify(ctx context.Context) error
}

// size is how many streams a node has, and consumers each of them. note describes
// each stream, if it is not empty.
type size struct {
	streams, consumers int
	note               string
}

func (s size) total() int { return s.streams * s.consumers }

func (s size) stream(i int) string         { return fmt.Sprintf("S%04d", i) }
func (s size) subject(i int) string        { return fmt.Sprintf("bench.s%04d.>", i) }
func (s size) consumer(i int) string       { return fmt.Sprintf("c%d", i) }
func (s size) filter(stream, i int) string { return fmt.Sprintf("bench.s%04d.c%d.>", stream, i) }
func (s size) verify(got *jetstream.AccountInfo) error {
	if got.Streams != s.streams || got.Consumers != s.total() {
		return fmt.Errorf("verify node: got %d streams and %d consumers, want %d and %d", got.Streams, got.Consumers, s.streams, s.total())
	}
	return nil
}

// verifyAt asks for what an account holds.
func verifyAt(ctx context.Context, port int, s size, opts ...nats.Option) error {
	nc, js, err := connect(port, opts...)
	if err != nil {
		return err
	}
	defer nc.Close()
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	info, err := js.AccountInfo(ctx)
	if err != nil {
		return fmt.Errorf("verify node: %w", err)
	}
	return s.verify(info)
}

func connect(port int, opts ...nats.Option) (*nats.Conn, jetstream.JetStream, error) {
	nc, err := nats.Connect(fmt.Sprintf("nats://127.0.0.1:%d", port), append(opts, nats.NoReconnect(), nats.Timeout(askLimit))...)
	if err != nil {
		return nil, nil, fmt.Errorf("connect: %w", err)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		nc.Close()
		return nil, nil, fmt.Errorf("use JetStream: %w", err)
	}
	return nc, js, nil
}

// quote writes a path for YAML and for the NATS configuration language.
func quote(path string) string {
	return `"` + strings.ReplaceAll(filepath.ToSlash(path), `"`, `\"`) + `"`
}
