// SPDX-License-Identifier: Apache-2.0

package load

import (
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// clock is the window that is measured.
type clock struct{ zero, from, until time.Time }

func (c clock) inside(t time.Time) bool { return !t.Before(c.from) && t.Before(c.until) }

// tally is what one goroutine saw.
type tally struct {
	clock     clock
	mute      bool // counts nothing
	latencies []time.Duration
	acked     atomic.Int64 // by a worker, since the beginning
	before    time.Time    // the last one ahead of the window
	last      time.Time    // the last one in it
}

func (t *tally) add(begun time.Time) {
	now := time.Now()
	switch {
	case now.Before(t.clock.from):
		t.before = now
	case !t.mute && t.clock.inside(now):
		t.latencies, t.last = append(t.latencies, now.Sub(begun)), now
	}
}

// delivered reads when the message was begun.
func (t *tally) delivered(body []byte) {
	if len(body) >= stampBytes {
		t.add(t.clock.zero.Add(time.Duration(binary.LittleEndian.Uint64(body))))
	}
}

const stampBytes = 8

// message is a body that nothing can compress, with the time in front.
type message struct {
	clock clock
	body  []byte
}

func (r *run) message() *message {
	m := &message{r.clock, make([]byte, max(stampBytes, r.spec.Bytes))}
	for i := range m.body {
		m.body[i] = byte(rand.Uint32())
	}
	return m
}

func (m *message) stamp() time.Time {
	now := time.Now()
	binary.LittleEndian.PutUint64(m.body, uint64(now.Sub(m.clock.zero)))
	return now
}

// publish waits for each acknowledgement.
func (r *run) publish(ctx context.Context, p publisher, t *tally) error {
	m := r.message()
	for {
		begun := m.stamp()
		if !begun.Before(r.clock.until) {
			return nil
		}
		if err := p.publish(ctx, m.body); err != nil {
			return err
		}
		t.add(begun)
	}
}

// stream keeps up to Window messages unacknowledged.
func (r *run) stream(ctx context.Context, p publisher, t *tally) error {
	type sent struct {
		begun time.Time
		wait  func(context.Context) error
	}
	// One place more than the window: the oldest one is being waited for.
	places, waiting, ended := make(chan struct{}, r.spec.Window), make(chan sent, r.spec.Window), make(chan error, 1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		for s := range waiting {
			if err := s.wait(ctx); err != nil {
				cancel()
				ended <- err
				return
			}
			t.add(s.begun)
			<-places
		}
		ended <- nil
	}()
	m := r.message()
	send := func() error {
		select {
		case places <- struct{}{}:
		default:
			// Only when nothing else is to be sent: a window is written in few pieces.
			if err := p.flush(); err != nil {
				return err
			}
			select {
			case places <- struct{}{}:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		begun := m.stamp()
		wait, err := p.send(ctx, m.body)
		if err != nil {
			return err
		}
		waiting <- sent{begun, wait}
		return nil
	}
	var err error
	for err == nil && time.Now().Before(r.clock.until) {
		err = send()
	}
	err = errors.Join(err, p.flush())
	if err != nil {
		cancel()
	}
	close(waiting)
	if why := <-ended; why != nil {
		return why
	}
	return err
}
