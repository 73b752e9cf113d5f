// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// message is what a publisher has to get acknowledged, by all means.
type message struct {
	id   string
	data []byte
}

// publisher publishes until the power goes and takes what has not been
// acknowledged into the next load, with the same Nats-Msg-Id.
type publisher struct {
	name    string
	subject string
	window  int // messages waiting for an acknowledgement; 1: each waits for its own
	smooth  bool
	book    *ledger
	pace    *pace
	rng     *rand.Rand
	seed    maphash.Seed
	n       int
	pending []message
}

// size is mostly small, so that a block holds many messages, and sometimes
// large, so that blocks roll.
func (p *publisher) size() int {
	switch roll := p.rng.IntN(100); {
	case p.smooth || roll < 80:
		return 16 + p.rng.IntN(500)
	case roll < 95:
		return 1<<10 + p.rng.IntN(8<<10)
	}
	return 32<<10 + p.rng.IntN(224<<10)
}

func (p *publisher) next() message {
	if len(p.pending) > 0 {
		m := p.pending[0]
		p.pending = p.pending[1:]
		return m
	}
	p.n++
	m := message{id: fmt.Sprintf("%s-%d", p.name, p.n), data: make([]byte, p.size())}
	for i := 0; i < len(m.data); i += 8 {
		v := p.rng.Uint64()
		for j := i; j < min(i+8, len(m.data)); j, v = j+1, v>>8 {
			m.data[j] = byte(v)
		}
	}
	p.book.publishing(m.id, maphash.Bytes(p.seed, m.data))
	return m
}

func (p *publisher) wire(m message) *nats.Msg {
	return &nats.Msg{Subject: p.subject, Header: nats.Header{jetstream.MsgIDHeader: {m.id}}, Data: m.data}
}

// run ends with ctx, when the connection is gone, or when the stream is full.
func (p *publisher) run(ctx context.Context, s *session) {
	if p.window > 1 {
		p.runWindow(ctx, s)
		return
	}
	for ctx.Err() == nil {
		m := p.next()
		if !p.pace.wait(ctx, len(m.data)) {
			p.pending = append(p.pending, m)
			return
		}
		ack, err := s.js.PublishMsg(ctx, p.wire(m))
		if err != nil {
			p.pending = append(p.pending, m)
			return
		}
		p.book.published(m.id, ack.Sequence, ack.Duplicate)
	}
}

// runWindow has up to window messages on their way.
func (p *publisher) runWindow(ctx context.Context, s *session) {
	type flight struct {
		message
		jetstream.PubAckFuture
	}
	flights := make(chan flight, p.window)
	var back []message // not acknowledged, in order
	var landed sync.WaitGroup
	landed.Go(func() {
		for f := range flights {
			ack, err := landing(f.PubAckFuture, s.closed)
			if err != nil {
				back = append(back, f.message)
				continue
			}
			p.book.published(f.id, ack.Sequence, ack.Duplicate)
		}
	})
	for ctx.Err() == nil {
		m := p.next()
		if !p.pace.wait(ctx, len(m.data)) {
			p.pending = append(p.pending, m)
			break
		}
		future, err := s.js.PublishMsgAsync(p.wire(m))
		if err != nil {
			p.pending = append(p.pending, m)
			break
		}
		flights <- flight{m, future}
	}
	close(flights)
	landed.Wait()
	p.pending = append(back, p.pending...)
}

// landing waits for an acknowledgement, or for the certainty that none comes.
func landing(f jetstream.PubAckFuture, closed <-chan struct{}) (*jetstream.PubAck, error) {
	select {
	case ack := <-f.Ok():
		return ack, nil
	case err := <-f.Err():
		return nil, err
	case <-closed:
	}
	// It may have come with the last bytes.
	select {
	case ack := <-f.Ok():
		return ack, nil
	default:
		return nil, nats.ErrConnectionClosed
	}
}

// pace keeps a fast node from filling its disk between two cuts.
type pace struct {
	mu    sync.Mutex
	next  time.Time
	bytes float64 // per second
	count float64 // messages per second
}

// wait is false when ctx ended first.
func (p *pace) wait(ctx context.Context, size int) bool {
	p.mu.Lock()
	now := time.Now()
	if p.next.Before(now) {
		p.next = now
	}
	at := p.next
	p.next = at.Add(time.Duration(max(float64(size)/p.bytes, 1/p.count) * float64(time.Second)))
	p.mu.Unlock()
	if at.Sub(now) <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(at.Sub(now))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// publishers are those of one node's life, over many cuts: enough that they wait for
// each other, so that what waits goes in batches.
func publishers(limits, queue *ledger, seed maphash.Seed, rng *rand.Rand) []*publisher {
	small := &pace{bytes: 5 << 20, count: 6000}
	large := &pace{bytes: 3 << 20, count: 2000}
	work := &pace{bytes: 1 << 20, count: 1200}
	var out []*publisher
	add := func(name, subject string, window int, smooth bool, book *ledger, at *pace) {
		out = append(out, &publisher{
			name: name, subject: subject, window: window, smooth: smooth, book: book, pace: at,
			rng: rand.New(rand.NewPCG(rng.Uint64(), rng.Uint64())), seed: seed,
		})
	}
	for i := range 24 {
		at := small
		if i < 3 {
			at = large
		}
		add(fmt.Sprintf("l%d", i), fmt.Sprintf("limits.sync.%d", i), 1, at == small, limits, at)
	}
	add("la0", "limits.async.0", 64, false, limits, large)
	add("la1", "limits.async.1", 64, true, limits, small)
	for i := range 12 {
		add(fmt.Sprintf("q%d", i), fmt.Sprintf("queue.sync.%d", i), 1, i > 0, queue, work)
	}
	for i := range 2 {
		add(fmt.Sprintf("qa%d", i), fmt.Sprintf("queue.async.%d", i), 16, true, queue, work)
	}
	return out
}
