// SPDX-License-Identifier: Apache-2.0

package acks

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	workers   = 16
	batch     = 100
	body      = 256
	ackWait   = time.Minute // longer than a workload: nothing is delivered twice
	fetchWait = 250 * time.Millisecond
	pollEvery = 2 * time.Millisecond
	// tooLong is for a design that stopped.
	tooLong = time.Minute
)

// Workload is what a design is put through.
type Workload struct {
	Key, Name string
	// publishers send the messages while the workers work; 0: before they begin.
	publishers int
	// stuck leaves the first message unacknowledged until the others are gone.
	stuck bool
}

// Workloads are all of them.
func Workloads() []Workload {
	return []Workload{
		{Key: "drain", Name: "16 workers drain"},
		{Key: "64+16", Name: "64 publishers, 16 workers", publishers: 64},
		{Key: "16+16", Name: "16 publishers, 16 workers", publishers: 16},
		{Key: "stuck", Name: "16 workers drain, the first message is never acked", stuck: true},
	}
}

// Run puts the design through the workload on an empty server and returns how many of n
// messages were published, where that belongs to it, fetched and removed in a second.
func Run(ctx context.Context, d Design, w Workload, url string, n int) (perSecond float64, err error) {
	ctx, cancel := context.WithTimeout(ctx, tooLong)
	defer cancel()
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	r, err := prepare(ctx, d, url, n)
	if err != nil {
		return 0, err
	}
	defer r.nc.Close()
	if d.beside != nil {
		// A connection of its own, as a client in the server's process would have.
		nc, err := nats.Connect(url)
		if err != nil {
			return 0, fmt.Errorf("connect: %w", err)
		}
		defer nc.Close()
		aside, end := context.WithCancel(ctx)
		wait, err := d.beside(aside, nc, d.filter, fail)
		if err != nil {
			end()
			return 0, err
		}
		defer wait()
		defer end()
	}
	took, err := r.work(ctx, w)
	if err != nil {
		return 0, err
	}
	return float64(n) / took.Seconds(), nil
}

// run is one workload on one server.
type run struct {
	url string
	nc  *nats.Conn
	js  jetstream.JetStream
	n   int
	// acked are the messages, by sequence, that a worker has acknowledged.
	acked []atomic.Bool
	count atomic.Int64
	all   chan struct{} // closed when count is n
}

func prepare(ctx context.Context, d Design, url string, n int) (_ *run, err error) {
	nc, err := nats.Connect(url)
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
	s, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: stream, Subjects: []string{subjects}, Retention: d.retention})
	if err != nil {
		return nil, fmt.Errorf("create stream: %w", err)
	}
	_, err = s.CreateConsumer(ctx, jetstream.ConsumerConfig{Durable: consumer, AckPolicy: jetstream.AckExplicitPolicy, AckWait: ackWait, MaxAckPending: maxAckPending})
	if err != nil {
		return nil, fmt.Errorf("create consumer: %w", err)
	}
	return &run{url: url, nc: nc, js: js, n: n, acked: make([]atomic.Bool, n+1), all: make(chan struct{})}, nil
}

// work returns the time from the first message, or the first fetch, until nothing is left
// to deliver or to acknowledge.
func (r *run) work(ctx context.Context, w Workload) (time.Duration, error) {
	if w.publishers == 0 {
		if err := r.publish(ctx, workers); err != nil {
			return 0, err
		}
	}
	var stuck jetstream.Msg
	left := 0
	if w.stuck {
		c, err := r.js.Consumer(ctx, stream, consumer)
		if err != nil {
			return 0, fmt.Errorf("open consumer: %w", err)
		}
		if stuck, err = c.Next(); err != nil {
			return 0, fmt.Errorf("fetch the message that stays: %w", err)
		}
		r.done(1)
		left = 1
	}
	staff := make([]*worker, workers)
	for i := range staff {
		var err error
		if staff[i], err = r.hire(ctx); err != nil {
			return 0, err
		}
		defer staff[i].nc.Close()
	}
	begun := time.Now()
	var all sync.WaitGroup
	errs := make(chan error, workers+1)
	for _, one := range staff {
		all.Go(func() { errs <- one.work(ctx, r) })
	}
	if w.publishers > 0 {
		all.Go(func() { errs <- r.publish(ctx, w.publishers) })
	}
	// Not with the workers' end: the last fetch of each takes its time in vain.
	err := r.settled(ctx, left)
	took := time.Since(begun)
	all.Wait()
	close(errs)
	for e := range errs {
		err = errors.Join(err, e)
	}
	if err != nil {
		return 0, err
	}
	return took, r.verify(ctx, stuck)
}

// done counts a message that a worker has, once.
func (r *run) done(seq uint64) {
	if r.acked[seq].CompareAndSwap(false, true) && r.count.Add(1) == int64(r.n) {
		close(r.all)
	}
}

// publish sends all messages, each publisher waiting for its answer.
func (r *run) publish(ctx context.Context, publishers int) error {
	var sent atomic.Int64
	var all sync.WaitGroup
	errs := make(chan error, publishers)
	for range publishers {
		all.Go(func() {
			for sent.Add(1) <= int64(r.n) {
				if _, err := r.js.Publish(ctx, subject, make([]byte, body)); err != nil {
					errs <- fmt.Errorf("publish: %w", err)
					return
				}
			}
		})
	}
	all.Wait()
	close(errs)
	return <-errs
}

// settled waits until the server has nothing to deliver and left to be acknowledged.
func (r *run) settled(ctx context.Context, left int) error {
	select {
	case <-r.all:
	case <-ctx.Done():
		return fmt.Errorf("wait for the workers: %d of %d messages: %w", r.count.Load(), r.n, context.Cause(ctx))
	}
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		p, err := askPosition(ctx, r.nc)
		if err != nil {
			return err
		}
		if p.Pending == 0 && p.AckPending == left {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for acknowledgements: %d not delivered, %d not acknowledged: %w", p.Pending, p.AckPending, context.Cause(ctx))
		case <-tick.C:
		}
	}
}

// verify wants the message that nobody acknowledged, and then an empty stream.
func (r *run) verify(ctx context.Context, stuck jetstream.Msg) error {
	s, err := r.js.Stream(ctx, stream)
	if err != nil {
		return fmt.Errorf("verify: %w", err)
	}
	if stuck != nil {
		if _, err := s.GetMsg(ctx, 1); err != nil {
			return fmt.Errorf("verify: the message that nobody acknowledged: %w", err)
		}
		if err := stuck.DoubleAck(ctx); err != nil {
			return fmt.Errorf("verify: acknowledge the last message: %w", err)
		}
	}
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		info, err := s.Info(ctx)
		if err != nil {
			return fmt.Errorf("verify: %w", err)
		}
		if info.State.Msgs == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("verify: %d messages stay: %w", info.State.Msgs, context.Cause(ctx))
		case <-tick.C:
		}
	}
}
