// SPDX-License-Identifier: Apache-2.0

package loadtest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	// pullSize is how many messages a worker has at hand at most.
	pullSize = 50
	// askEvery is how often it is asked whether the acknowledgements have taken effect.
	askEvery = 5 * time.Millisecond
	// idleAfter is how long nothing moves until it is asked whether there is anything left:
	// what was lost never comes. stuckAfter is how long nothing may move.
	idleAfter  = time.Second
	stuckAfter = answerLimit
)

// workers are those of one phase.
type workers struct {
	run  *run
	crew *crew
	all  []*worker
	done atomic.Int64
}

type worker struct {
	nc       *nats.Conn
	messages jetstream.MessagesContext
	took     []time.Duration
	got      []receipt
}

func (r *run) newWorkers(c *crew) (_ *workers, err error) {
	if err := r.unattended(c.ctx); err != nil {
		return nil, err
	}
	w := &workers{run: r, crew: c}
	defer func() {
		if err != nil {
			w.close()
		}
	}()
	for range r.load.Workers {
		nc, js, err := r.target.connect()
		if err != nil {
			return nil, err
		}
		one := &worker{nc: nc}
		w.all = append(w.all, one)
		from, err := js.Consumer(c.ctx, r.place.Stream, r.place.Consumer)
		if err == nil {
			one.messages, err = from.Messages(jetstream.PullMaxMessages(pullSize))
		}
		if err != nil {
			return nil, fmt.Errorf("consume from stream %q: %w", r.place.Stream, err)
		}
	}
	return w, nil
}

// unattended returns when nobody pulls from the consumer. The node may still have
// requests of workers that have gone, and what it sends them comes again only after
// ackWait.
func (r *run) unattended(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	for {
		from, err := r.js.Consumer(ctx, r.place.Stream, r.place.Consumer)
		if err != nil {
			return fmt.Errorf("read consumer of stream %q: %w", r.place.Stream, err)
		}
		waiting := from.CachedInfo().NumWaiting
		if waiting == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait until nobody pulls from stream %q: %d requests are left: %w", r.place.Stream, waiting, context.Cause(ctx))
		case <-tick.C:
		}
	}
}

func (w *workers) close() {
	for _, one := range w.all {
		if one.messages != nil {
			one.messages.Stop()
		}
		one.nc.Close()
	}
}

func (w *workers) start() {
	for _, one := range w.all {
		w.crew.run(func(ctx context.Context) error { return w.work(ctx, one) })
	}
}

// work takes messages until the crew is stopped.
func (w *workers) work(ctx context.Context, one *worker) error {
	defer context.AfterFunc(ctx, one.messages.Stop)()
	for {
		m, err := one.messages.Next()
		if ctx.Err() != nil && errors.Is(err, jetstream.ErrMsgIteratorClosed) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("take a message: %w", err)
		}
		now := time.Since(w.run.begun)
		meta, err := m.Metadata()
		if err != nil {
			return fmt.Errorf("read a message: %w", err)
		}
		if len(m.Data()) != w.run.load.Size {
			return fmt.Errorf("read message %d: got %d bytes, want %d", meta.Sequence.Stream, len(m.Data()), w.run.load.Size)
		}
		one.took = append(one.took, now-time.Duration(binary.BigEndian.Uint64(m.Data())))
		one.got = append(one.got, receipt{seq: meta.Sequence.Stream, id: binary.BigEndian.Uint64(m.Data()[8:])})
		if err := m.Ack(); err != nil {
			return fmt.Errorf("acknowledge message %d: %w", meta.Sequence.Stream, err)
		}
		w.done.Add(1)
	}
}

// settle returns when want messages are delivered, or no more are left, their
// acknowledgements have taken effect, and the workers have ended.
func (w *workers) settle(c *crew, want int) error {
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	var last standing
	for since := time.Now(); ; {
		now := standing{consumed: w.messages()}
		if now.consumed >= want || time.Since(since) > idleAfter {
			if err := w.ask(c.ctx, &now); err != nil {
				return errors.Join(context.Cause(c.ctx), err)
			}
			if now.settled() {
				c.stop()
				return nil
			}
		}
		if now.consumed != last.consumed || now.asked && now != last {
			last, since = now, time.Now()
		}
		if time.Since(since) > stuckAfter {
			return fmt.Errorf("nothing moved for %v: of %d messages %d are consumed; the node says: %d not delivered, %d not acknowledged, %d not removed",
				stuckAfter, want, now.consumed, now.undelivered, now.unacknowledged, now.unremoved)
		}
		select {
		case <-c.ctx.Done():
			return context.Cause(c.ctx)
		case <-tick.C:
		}
	}
}

// standing is how far the workers are, by their count and by that of the node.
type standing struct {
	consumed                               int
	asked                                  bool
	undelivered, unacknowledged, unremoved uint64
}

func (s standing) settled() bool { return s.asked && s.undelivered+s.unacknowledged+s.unremoved == 0 }

// ask has the node say what is left to do.
func (w *workers) ask(ctx context.Context, s *standing) error {
	from, err := w.run.js.Consumer(ctx, w.run.place.Stream, w.run.place.Consumer)
	if err != nil {
		return fmt.Errorf("read consumer of stream %q: %w", w.run.place.Stream, err)
	}
	info := from.CachedInfo()
	s.asked, s.undelivered, s.unacknowledged = true, info.NumPending, uint64(info.NumAckPending)
	if w.run.load.WorkQueue {
		state, err := w.run.state(ctx)
		if err != nil {
			return err
		}
		s.unremoved = state.Msgs
	}
	return nil
}

func (w *workers) messages() int { return int(w.done.Load()) }

func (w *workers) latencies() []time.Duration {
	var all []time.Duration
	for _, one := range w.all {
		all = append(all, one.took...)
	}
	return all
}

func (w *workers) receipts() []receipt {
	var all []receipt
	for _, one := range w.all {
		all = append(all, one.got...)
	}
	return all
}
