// SPDX-License-Identifier: Apache-2.0

package acks

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

func TestPrefixNeverTakesWhatIsNotAcknowledged(t *testing.T) {
	h := &holder{next: 3, held: map[uint64]ack{3: {}, 4: {}, 6: {}, 7: {}}, passed: map[uint64]bool{5: true}}
	if end, own := h.prefix(); end != 8 || own != 4 {
		t.Errorf("got end %d with %d held, want 8 and 4", end, own)
	}
	delete(h.held, 4)
	if end, own := h.prefix(); end != 4 || own != 1 {
		t.Errorf("gap at 4: got end %d with %d held, want 4 and 1", end, own)
	}
	h.advance(8)
	if len(h.held) != 0 || len(h.passed) != 0 {
		t.Errorf("after the end: got %v and %v, want nothing", h.held, h.passed)
	}
}

func TestDesignsLoseNothingAndLeaveNothing(t *testing.T) {
	for _, d := range append(Others(), Stock()) {
		for _, w := range Workloads() {
			if w.publishers == 64 {
				continue // as 16, but slower
			}
			t.Run(d.Key+"/"+w.Key, func(t *testing.T) {
				url := serve(t, nil, func(store string) string { return d.ServerFile(store, -1) })
				rate, err := Run(t.Context(), d, w, url, 200)
				if err != nil || rate <= 0 {
					t.Errorf("got %.0f messages a second, %v, want all of them", rate, err)
				}
			})
		}
	}
}

// A nakked message comes at once, not after ack_wait, and nothing removes it before it is
// acknowledged; what was acknowledged twice, terminated or answered goes.
func TestHolderKeepsTheMeaningOfEveryAcknowledgement(t *testing.T) {
	q := newQueue(t, fmt.Sprintf("%q: %q, %q: \">\"", "$JS.ACK.S.C.>", held+"S.C.>", forward+">"), nil, jetstream.ConsumerConfig{AckWait: time.Hour})
	ctx, end := context.WithCancelCause(t.Context())
	wait, err := hold(ctx, connect(t, q.nc.ConnectedUrl()), subjects, end)
	if err != nil {
		t.Fatal(err)
	}
	q.publish(40)
	ms := q.fetch(40)
	// Before the others: their removal must not make these two wait.
	for _, i := range []int{21, 35} {
		if err := ms[i-1].Nak(); err != nil {
			t.Fatalf("message %d: %v", i, err)
		}
	}
	for i, m := range ms {
		send := m.Ack
		switch i + 1 {
		case 21, 35:
			continue
		case 20:
			send = func() error { return m.DoubleAck(t.Context()) }
		case 22:
			send = m.Term
		case 23:
			send = m.InProgress
		}
		if err := send(); err != nil {
			t.Fatalf("message %d: %v", i+1, err)
		}
	}
	q.storedIs(40, 21, 23, 35)
	for _, m := range q.fetch(2) {
		if err := m.DoubleAck(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	q.storedIs(40, 23)
	if err := ms[22].Ack(); err != nil {
		t.Fatal(err)
	}
	q.storedIs(40)
	if err := context.Cause(ctx); err != nil {
		t.Errorf("holder: %v", err)
	}
	end(nil)
	wait()
}
