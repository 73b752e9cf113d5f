// SPDX-License-Identifier: Apache-2.0

package ingest

import (
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
