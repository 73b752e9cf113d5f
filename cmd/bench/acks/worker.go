// SPDX-License-Identifier: Apache-2.0

package acks

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// worker is a client with a connection of its own.
type worker struct {
	nc *nats.Conn
	c  jetstream.Consumer
}

func (r *run) hire(ctx context.Context) (_ *worker, err error) {
	nc, err := nats.Connect(r.url)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	defer func() {
		if err != nil {
			nc.Close()
		}
	}()
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, fmt.Errorf("use JetStream: %w", err)
	}
	c, err := js.Consumer(ctx, stream, consumer)
	if err != nil {
		return nil, fmt.Errorf("open consumer: %w", err)
	}
	return &worker{nc, c}, nil
}

// work fetches and acknowledges until everybody together has all messages.
func (w *worker) work(ctx context.Context, r *run) error {
	for r.count.Load() < int64(r.n) {
		if err := context.Cause(ctx); err != nil {
			return fmt.Errorf("work: %d of %d messages: %w", r.count.Load(), r.n, err)
		}
		got, err := w.c.Fetch(batch, jetstream.FetchMaxWait(fetchWait))
		if err != nil {
			return fmt.Errorf("fetch: %w", err)
		}
		for m := range got.Messages() {
			if err := r.one(m); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *run) one(m jetstream.Msg) error {
	at, err := m.Metadata()
	if err != nil {
		return fmt.Errorf("read message: %w", err)
	}
	if seq := at.Sequence.Stream; seq == 0 || seq > uint64(r.n) {
		return fmt.Errorf("read message: got sequence %d of %d", seq, r.n)
	}
	if err := m.Ack(); err != nil {
		return fmt.Errorf("acknowledge: %w", err)
	}
	r.done(at.Sequence.Stream)
	return nil
}
