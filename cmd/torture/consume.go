// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// worker is one subscriber of a durable consumer.
type worker struct {
	stream  string
	durable string
	batch   int
	book    *ledger
	rng     *rand.Rand
	seed    maphash.Seed
}

func workers(limits, queue *ledger, seed maphash.Seed, rng *rand.Rand) []*worker {
	var out []*worker
	add := func(stream, durable string, batch int, book *ledger) {
		out = append(out, &worker{stream, durable, batch, book, rand.New(rand.NewPCG(rng.Uint64(), rng.Uint64())), seed})
	}
	for range 3 {
		add(limitsStream, limitsDurable, 256, limits)
	}
	for range 16 {
		add(queueStream, queueDurable, 32, queue)
	}
	return out
}

// run takes messages until ctx or the connection ends. An error is the
// connection's end: what it kept from being delivered is found by the judge.
func (w *worker) run(ctx context.Context, s *session) {
	c, err := s.js.Consumer(ctx, w.stream, w.durable)
	if err != nil {
		return
	}
	for ctx.Err() == nil && !s.nc.IsClosed() {
		got, err := c.Fetch(w.batch, jetstream.FetchMaxWait(time.Second))
		if err != nil {
			return
		}
		for m := range got.Messages() {
			w.take(ctx, m)
		}
	}
}

// take records a message and then mostly acknowledges it.
func (w *worker) take(ctx context.Context, m jetstream.Msg) {
	meta, err := m.Metadata()
	if err != nil {
		return
	}
	seq := meta.Sequence.Stream
	w.book.delivered(delivery{consumer: meta.Sequence.Consumer, stream: seq, num: meta.NumDelivered},
		m.Headers().Get(jetstream.MsgIDHeader), maphash.Bytes(w.seed, m.Data()))
	if inBatch(m.Headers()) {
		w.book.batched(seq)
	}
	switch roll := w.rng.IntN(100); {
	case roll < 5: // forgotten: comes again after ack_wait
	case roll < 8:
		_ = m.Nak() // or the connection is gone, and it comes again anyway
	case roll < 40:
		w.book.acknowledging(seq)
		// Without an end of its own it waits for ever for what a node has swallowed.
		ctx, cancel := context.WithTimeout(ctx, requestLimit)
		if m.DoubleAck(ctx) == nil {
			w.book.acknowledged(seq)
		}
		cancel()
	default:
		w.book.acknowledging(seq)
		_ = m.Ack() // or the connection is gone, and it comes again
	}
}

// crew are goroutines on one session.
type crew struct {
	stop    context.CancelFunc
	running sync.WaitGroup
}

func (c *crew) add(ctx context.Context, s *session, run func(context.Context, *session)) {
	c.running.Go(func() { run(ctx, s) })
}

// dismiss waits: whoever asks the books afterwards asks complete ones.
func (c *crew) dismiss(s *session) {
	c.stop()
	s.nc.Close()
	<-s.closed
	c.running.Wait()
}

// topology asks for the streams and consumers and says when they were made.
func topology(ctx context.Context, s *session) (map[string]time.Time, error) {
	made := map[string]time.Time{}
	for stream, durable := range map[string]string{limitsStream: limitsDurable, queueStream: queueDurable} {
		st, err := s.js.Stream(ctx, stream)
		if isGone(err) {
			continue
		} else if err != nil {
			return nil, fmt.Errorf("ask for stream %q: %w", stream, err)
		}
		made[stream] = st.CachedInfo().Created
		c, err := st.Consumer(ctx, durable)
		if isGone(err) {
			continue
		} else if err != nil {
			return nil, fmt.Errorf("ask for consumer %q of stream %q: %w", durable, stream, err)
		}
		made[stream+"/"+durable] = c.CachedInfo().Created
	}
	return made, nil
}
