// SPDX-License-Identifier: Apache-2.0

package ingest

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// copied starts carrying a stream with copies; open says whether the server leads messages
// back to the streams.
func (l *lab) copied(lanes []Lane, open func() bool) *Ingest {
	l.t.Helper()
	for i := range lanes {
		lanes[i].Replicated = true
	}
	return l.ingestOnce(func(_, from string) bool { return from == WayBack(labSecret).From && open() }, lanes)
}

func TestPublishersOfANodeThatStopsAreAnsweredBefore(t *testing.T) {
	lanes := lanesOf("S", "s.>")
	l := newLab(t, true, lanes)
	l.stream(jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}})
	for range 3 {
		i := l.copied(lanes, func() bool { return true })
		eventually(t, 10*time.Second, func() error {
			_, err := l.js().Publish(context.Background(), "s.first", nil)
			return err
		})
		ld := l.publish(t, 16, "s", 10*time.Second)
		ld.more(20)
		i.Close()
		ld.end()
		// Who comes later is told that nobody responds, and nobody waits in vain.
		if n := ld.failed[nats.ErrTimeout.Error()]; n > 0 {
			t.Errorf("got %d publishers without an answer (%v), want none", n, ld.failed)
		}
	}
}

func TestWhatComesBeforeTheWayBackIsOpenWaits(t *testing.T) {
	lanes := lanesOf("S", "s.>")
	l := newLab(t, true, lanes)
	l.stream(jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}})
	var open atomic.Bool
	var asked atomic.Int64
	l.copied(lanes, func() bool { asked.Add(1); return open.Load() })
	eventually(t, 10*time.Second, func() error {
		if l.Interest("", inPrefix+"S.any") {
			return nil
		}
		return nats.ErrNoResponders
	})
	js := l.js()
	ack, err := js.PublishAsync("s.a", nil)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, 10*time.Second, func() error {
		if asked.Load() < 3 {
			return context.DeadlineExceeded
		}
		return nil
	})
	select {
	case <-ack.Ok():
		t.Error("got it stored, want it to wait")
	case err := <-ack.Err():
		t.Errorf("got %v, want it to wait", err)
	default:
	}
	open.Store(true)
	select {
	case <-ack.Ok():
	case err := <-ack.Err():
		t.Errorf("got %v, want it stored when the way is open", err)
	case <-time.After(10 * time.Second):
		t.Error("got no answer")
	}
}
