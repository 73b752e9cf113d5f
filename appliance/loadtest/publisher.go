// SPDX-License-Identifier: Apache-2.0

package loadtest

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// publishers are those of one phase, each with a connection of its own, as
// applications have.
type publishers struct {
	run  *run
	crew *crew
	all  []*publisher
	left atomic.Int64 // messages that still fit
	done atomic.Int64
}

type publisher struct {
	nc   *nats.Conn
	js   jetstream.JetStream
	own  int // its number
	took []time.Duration
	acks []receipt
}

func (r *run) newPublishers(c *crew) (*publishers, error) {
	p := &publishers{run: r, crew: c}
	p.left.Store(r.load.most(r.place.Subject))
	for i := range r.load.Publishers {
		nc, js, err := r.target.connect()
		if err != nil {
			p.close()
			return nil, err
		}
		p.all = append(p.all, &publisher{nc: nc, js: js, own: i})
	}
	return p, nil
}

func (p *publishers) close() {
	for _, one := range p.all {
		one.nc.Close()
	}
}

// start has all publish until the time is over or the stream is full.
func (p *publishers) start(begun time.Time) {
	until := begun.Add(p.run.load.For)
	for _, one := range p.all {
		p.crew.run(func(ctx context.Context) error { return p.publish(ctx, one, until) })
	}
}

func (p *publishers) publish(ctx context.Context, one *publisher, until time.Time) error {
	subject := fmt.Sprintf("%s.%d", p.run.place.Subject, one.own)
	text := append([]byte(nil), p.run.block...)
	for n := 0; time.Now().Before(until) && p.left.Add(-1) >= 0; n++ {
		id := uint64(one.own)<<40 | uint64(n)
		sent := time.Now()
		binary.BigEndian.PutUint64(text, uint64(sent.Sub(p.run.begun)))
		binary.BigEndian.PutUint64(text[8:], id)
		// The default time limit of the connection does not apply to a context that has one.
		ctx, cancel := context.WithTimeout(ctx, answerLimit)
		ack, err := one.js.Publish(ctx, subject, text)
		cancel()
		if err != nil {
			return fmt.Errorf("publish message %d of publisher %d: %w", n, one.own, err)
		}
		if ack.Stream != p.run.place.Stream {
			return fmt.Errorf("publish to %q: stream %q acknowledged it, want %q", subject, ack.Stream, p.run.place.Stream)
		}
		one.took = append(one.took, time.Since(sent))
		one.acks = append(one.acks, receipt{seq: ack.Sequence, id: id})
		p.done.Add(1)
	}
	return nil
}

func (p *publishers) messages() int { return int(p.done.Load()) }

// full is true when a message had no more room.
func (p *publishers) full() bool { return p.left.Load() < 0 }

func (p *publishers) latencies() []time.Duration {
	var all []time.Duration
	for _, one := range p.all {
		all = append(all, one.took...)
	}
	return all
}

func (p *publishers) receipts() []receipt {
	var all []receipt
	for _, one := range p.all {
		all = append(all, one.acks...)
	}
	return all
}

// filling is a payload that no compression makes smaller.
func filling(size int) []byte {
	b := make([]byte, size)
	source := rand.New(rand.NewPCG(1, 2))
	for i := range b {
		b[i] = byte(source.Uint32())
	}
	return b
}
