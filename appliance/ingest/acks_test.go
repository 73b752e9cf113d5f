// SPDX-License-Identifier: Apache-2.0

package ingest

import (
	"slices"
	"testing"
	"time"
)

// newHoldingWorld has 200 messages, of which 100 are delivered and the first 20
// acknowledged, so that the next acknowledgements are held.
func newHoldingWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, 1000, "")
	w.publish(200)
	w.deliver(100)
	w.ack(20, false)
	w.settle()
	if !w.acks.holding || w.acks.next == 0 {
		t.Fatalf("after 20 acknowledgements: got holding %v, next %d, want them held", w.acks.holding, w.acks.next)
	}
	return w
}

// ack acknowledges the next n messages in the workers' hands at once.
func (w *world) ack(n int, double bool) {
	w.Helper()
	for range n {
		w.send(w.take(0), "", "", double, true)
	}
	w.pump()
}

// A session that sets a deadline in the past reads nothing: pump looks at each due.
func TestAcksBehindAGapAreDueWhenTheyGoAlone(t *testing.T) {
	w := newHoldingWorld(t)
	w.take(0)
	w.ack(30, false)
	w.elapse(stragglerAfter)
	if got := len(w.acks.held); got != 30 {
		t.Errorf("after %s: got %d held, want 30", stragglerAfter, got)
	}
	w.elapse(2 * holdFor)
	if w.settle(); len(w.acks.held) > 0 {
		t.Errorf("%s later: got %d held, want none", 2*holdFor, len(w.acks.held))
	}
}

func TestAcksAnswerEachOfTwoForAMessage(t *testing.T) {
	w := newHoldingWorld(t)
	m := w.take(0)
	w.send(m, "", "", true, true)
	w.send(m, "", "", true, true)
	w.ack(10, false)
	w.settle()
	w.answered()
}

func TestAcksOfMessagesThatOthersRemovedAreAnswered(t *testing.T) {
	w := newHoldingWorld(t)
	w.take(0)
	w.ack(10, true)
	for w.first < 40 {
		w.remove(w.first)
	}
	w.elapse(time.Second)
	w.settle()
	w.answered()
}

// The model fails when a message goes that nobody acknowledged.
func TestAcksOfAnEarlierStreamRemoveNothing(t *testing.T) {
	again := func(w *world, deliver int) {
		w.hands = nil
		w.recreate()
		w.publish(200)
		w.deliver(deliver)
	}
	for name, play := range map[string]func(w *world){
		"forwarded before any were held": func(w *world) {
			w.publish(100)
			w.deliver(30)
			for len(w.hands) > 0 {
				w.ack(1, false)
				w.elapse(2 * time.Millisecond)
			}
			w.settle()
			again(w, 100)
			w.hands = w.hands[30:]
			w.ack(20, false)
			w.settle()
			w.ack(50, false)
		},
		"held before the first purge": func(w *world) {
			w.publish(100)
			w.deliver(80)
			w.ack(20, false)
			w.settle()
			w.ack(60, false)
			again(w, 100)
		},
		"sent for what is delivered later": func(w *world) {
			w.publish(100)
			w.deliver(100)
			old := w.hands
			again(w, 80)
			w.ack(30, false)
			w.settle()
			for _, m := range old[80:90] {
				w.send(m, "", "", false, true)
			}
			w.elapse(100 * time.Millisecond)
			w.settle()
			w.deliver(30)
			w.hands = slices.Delete(w.hands, 50, 60)
			w.ack(70, false)
			w.settle()
			w.deliver(50)
			w.ack(20, false)
			w.settle()
			w.ack(30, false)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1000, "")
			play(w)
			for range 20 {
				w.elapse(holdFor)
				w.settle()
			}
			w.answered()
		})
	}
}

func TestAcksAreHeldAgainAfterAnyNumberThatCameSlowly(t *testing.T) {
	for name, w := range map[string]*world{"from the start": newWorld(t, 1000, ""), "after some were held": newHoldingWorld(t)} {
		t.Run(name, func(t *testing.T) {
			w.TB = t
			w.hands = nil // some never come
			for i := 0; i < mostHeld; i += 10 {
				w.publish(10)
				w.deliver(1000)
				w.ack(len(w.hands), false)
				w.elapse(holdFor)
				w.settle()
			}
			w.publish(100)
			w.deliver(100)
			w.ack(20, false)
			w.settle()
			if !w.acks.holding || w.acks.next == 0 {
				t.Errorf("got holding %v, next %d, want acknowledgements held", w.acks.holding, w.acks.next)
			}
		})
	}
}

func TestAcksKeepNothingBehindAMessageThatNeverComes(t *testing.T) {
	w := newHoldingWorld(t)
	w.take(0)
	w.ack(50, false)
	for range 20 {
		w.elapse(100 * time.Millisecond)
		w.settle()
	}
	if a := w.acks; a.busy() || len(a.passed) > 0 {
		t.Errorf("got busy %v, stuck %v, passed %d, want nothing left", a.busy(), a.stuck, len(a.passed))
	}
}

func TestAcksAreHeldForAConsumerWithoutALimit(t *testing.T) {
	w := newWorld(t, -1, "")
	for range 50 {
		w.publish(40)
		w.deliver(40)
		w.ack(40, false)
		w.elapse(holdFor)
		w.settle()
	}
	if s := w.acks.stats; s.AcksGrouped.Load() < 1000 {
		t.Errorf("got %d acknowledgements of 2000 removed together, want most", s.AcksGrouped.Load())
	}
}

// A worker alone that has to acknowledge before it gets more would wait holdFor for
// each of its few messages.
func TestAcksOfALoneWorkerWithAFewMessagesDontWait(t *testing.T) {
	for most := 1; most <= 20; most++ {
		w := newWorld(t, most, "")
		w.publish(500)
		var longest time.Duration
		for i := 0; len(w.stored) > 0; i++ {
			w.deliver(most)
			w.send(w.take(0), "", "", i%3 == 0, true)
			w.pump()
			for begun := w.now; len(w.acks.held) > 0 && w.now.Sub(begun) < time.Second; {
				w.elapse(100 * time.Microsecond)
				w.settle()
				longest = max(longest, w.now.Sub(begun))
			}
			// Fast enough for holdFor to look worth it.
			w.elapse(20 * time.Microsecond)
			w.settle()
		}
		if longest >= holdFor/2 {
			t.Errorf("max_ack_pending %d: an acknowledgement waited %s, want none to", most, longest)
		}
	}
}

// A purge makes room that a stopped consumer does not see; no other acknowledgement,
// message or request need come.
func TestAcksWakeAConsumerThatStoppedMeanwhile(t *testing.T) {
	for name, mode := range map[string]apiMode{"answered": works, "not answered": mute} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 100, "")
			w.publish(1000)
			w.deliver(20)
			w.ack(20, false)
			w.settle()
			w.deliver(30)
			w.ack(30, false)
			w.elapse(holdFor)
			w.serveAPI()
			if w.mode = mode; w.acks.asks != consumer {
				t.Fatalf("got question %d, want that for the consumer", w.acks.asks)
			}
			w.serveAnswer()
			if w.deliver(1000); !w.asleep {
				t.Fatal("got a consumer awake with 100 pending, want it stopped")
			}
			w.settle()
			w.elapse(2 * patience)
			if w.settle(); w.asleep {
				t.Errorf("got the consumer asleep with %d of 100 pending, want it awake", len(w.pending))
			}
		})
	}
}

func TestAcksDontWaitLongAfterASlowPurge(t *testing.T) {
	w := newHoldingWorld(t)
	w.ack(20, false)
	w.elapse(holdFor)
	w.serveAPI()
	w.serveAnswer()
	w.elapse(time.Second)
	w.settle()
	if w.acks.stats.Purges.Load() != 1 {
		t.Fatal("got no purge, want one that took a second")
	}
	w.ack(20, false)
	w.elapse(holdLongest)
	if w.settle(); len(w.acks.held) > 0 {
		t.Errorf("%s after a slow purge: got %d acknowledgements held, want none", holdLongest, len(w.acks.held))
	}
}

func TestAcksAreHeldAgainWhenAStreamBeginsAnew(t *testing.T) {
	w := newWorld(t, 1000, "")
	work := func() (grouped uint64) {
		before := w.acks.stats.AcksGrouped.Load()
		for range 50 {
			w.publish(40)
			w.deliver(40)
			w.ack(40, false)
			w.elapse(holdFor)
			w.settle()
		}
		return w.acks.stats.AcksGrouped.Load() - before
	}
	if got := work(); got < 1000 {
		t.Errorf("first stream: got %d acknowledgements of 2000 removed together, want most", got)
	}
	w.recreate()
	if got := work(); got < 1000 {
		t.Errorf("second stream: got %d acknowledgements of 2000 removed together, want most", got)
	}
}
