// SPDX-License-Identifier: Apache-2.0

//go:build process && linux

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// crashSession is a connection that does not outlive its node.
type crashSession struct {
	js     jetstream.JetStream
	closed chan struct{}
}

func newCrashSession(c *crash) *crashSession {
	s := &crashSession{closed: make(chan struct{})}
	nc := c.connect(nats.ClosedHandler(func(*nats.Conn) { close(s.closed) }),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	var err error
	if s.js, err = jetstream.New(nc, jetstream.WithDefaultTimeout(patience)); err != nil {
		c.t.Fatal(err)
	}
	return s
}

// crashMessage carries its own checksum.
type crashMessage struct{ id, text string }

// crashPublisher publishes until the node is gone and then repeats, under the same id,
// what was not acknowledged.
type crashPublisher struct {
	no      int
	subject string
	window  int // messages on their way; 1: each waits for its own acknowledgement
	large   int // so many in a hundred, so that blocks of 8 MiB fill
	n       int
	pending []crashMessage
}

// crashPublishers are 48, a quarter of them to the work queue, a quarter asynchronous.
func crashPublishers() []*crashPublisher {
	var out []*crashPublisher
	for i := range 48 {
		p := &crashPublisher{no: i, subject: fmt.Sprintf("orders.%d", i), window: 1, large: 4}
		if i%4 == 3 {
			p.subject, p.large = fmt.Sprintf("jobs.%d", i), 8
		}
		if i/4%4 == 3 {
			p.window = 16
		}
		out = append(out, p)
	}
	return out
}

func (p *crashPublisher) next(b *crashBook) crashMessage {
	if len(p.pending) > 0 {
		m := p.pending[0]
		p.pending = p.pending[1:]
		return m
	}
	p.n++
	m := crashMessage{fmt.Sprintf("%d-%d", p.no, p.n), message(p.no, p.n)}
	if rand.IntN(100) < p.large {
		m.text += strings.Repeat(" large", rand.IntN(20_000))
	}
	b.publishing(m)
	return m
}

func (p *crashPublisher) wire(m crashMessage) *nats.Msg {
	return &nats.Msg{Subject: p.subject, Header: nats.Header{jetstream.MsgIDHeader: {m.id}}, Data: []byte(m.text)}
}

// retryAfter is how long a publisher waits when its stream is full.
const retryAfter = 5 * time.Millisecond

func (p *crashPublisher) run(ctx context.Context, s *crashSession, b *crashBook) {
	type flight struct {
		crashMessage
		jetstream.PubAckFuture
	}
	var flights []flight
	for ctx.Err() == nil && !s.js.Conn().IsClosed() {
		for len(flights) < p.window {
			m := p.next(b)
			f, err := s.js.PublishMsgAsync(p.wire(m), jetstream.WithRetryAttempts(0))
			if err != nil {
				p.pending = append(p.pending, m)
				break
			}
			flights = append(flights, flight{m, f})
		}
		if len(flights) == 0 {
			break
		}
		f := flights[0]
		flights = flights[1:]
		if !land(ctx, s, f.PubAckFuture, func(ack *jetstream.PubAck) { b.published(ack, f.id) }) {
			p.pending = append(p.pending, f.crashMessage)
			select {
			case <-time.After(retryAfter):
			case <-s.closed:
			}
		}
	}
	for _, f := range flights {
		if !land(ctx, s, f.PubAckFuture, func(ack *jetstream.PubAck) { b.published(ack, f.id) }) {
			p.pending = append(p.pending, f.crashMessage)
		}
	}
}

// land waits for an acknowledgement, or for the certainty that none comes.
func land(ctx context.Context, s *crashSession, f jetstream.PubAckFuture, acked func(*jetstream.PubAck)) bool {
	select {
	case ack := <-f.Ok():
		acked(ack)
		return true
	case <-f.Err(): //nolint:errcheck // whatever it is, the message is sent again
		return false
	case <-s.closed:
	case <-ctx.Done():
	}
	select {
	case ack := <-f.Ok(): // it came with the last bytes
		acked(ack)
		return true
	default:
		return false
	}
}

// work takes messages and acknowledges most of them, out of order; without rng all.
func (b *crashBook) work(ctx context.Context, js jetstream.JetStream, stream, durable string, rng *rand.Rand) {
	c, err := js.Consumer(ctx, stream, durable)
	if err != nil {
		return
	}
	for ctx.Err() == nil && !js.Conn().IsClosed() {
		batch, err := c.Fetch(20, jetstream.FetchMaxWait(500*time.Millisecond))
		if err != nil {
			continue
		}
		var got []jetstream.Msg
		for m := range batch.Messages() {
			if b.delivered(stream, m) {
				got = append(got, m)
			}
		}
		if rng != nil {
			rng.Shuffle(len(got), func(i, j int) { got[i], got[j] = got[j], got[i] })
		}
		for _, m := range got {
			switch {
			case rng != nil && rng.IntN(20) == 0: // forgotten
			case rng == nil || rng.IntN(3) == 0:
				b.acking(stream, m)
				if m.DoubleAck(ctx) == nil {
					b.acknowledged(stream, m)
				}
			default:
				b.acking(stream, m)
				_ = m.Ack() // or the node is gone, and it comes again
			}
		}
	}
}
