// SPDX-License-Identifier: Apache-2.0

package ingest

import (
	"testing"
	"time"
)

func TestLeastIsWhereABatchIsFaster(t *testing.T) {
	us := time.Microsecond
	for _, c := range []struct {
		alone, fixed time.Duration
		want         int
	}{
		{200 * us, 800 * us, 6},
		{200 * us, 0, fewest},
		{us, time.Second, most},
		{time.Second, us, fewest},
		{100 * us, 700 * us, 11},
	} {
		got := cost{alone: c.alone, fixed: c.fixed}
		if got := got.least(); got != c.want {
			t.Errorf("alone %s, batch %s: got %d, want %d", c.alone, c.fixed, got, c.want)
		}
	}
}

func TestCostFollowsWhatIsSeenAndNoStall(t *testing.T) {
	c := newCost()
	c.one(time.Hour)
	if c.alone > 2*firstAlone {
		t.Errorf("after one stall: got %s for a message, want about %s", c.alone, firstAlone)
	}
	for range 10 * weight {
		c.one(time.Millisecond)
		c.batched(100, 5*time.Millisecond)
	}
	if got := c.alone; got < 900*time.Microsecond || got > time.Millisecond {
		t.Errorf("messages of 1 ms: got %s", got)
	}
	for range 10 * weight {
		c.one(0)
	}
	if got := c.alone; got < time.Microsecond || got > 2*time.Microsecond {
		t.Errorf("messages that take no time: got %s, want at least a microsecond", got)
	}
}

func TestABadOpinionOfBatchesFades(t *testing.T) {
	c := newCost()
	for range 10 * weight {
		c.batched(10, 20*time.Millisecond)
	}
	if got := c.least(); got != most {
		t.Fatalf("batches of 20 ms: got least %d, want %d", got, most)
	}
	for range 6 * doubt {
		c.passedOver()
	}
	if got := c.least(); got > 10 {
		t.Errorf("least long after that: got %d, want a batch of 10 to be tried", got)
	}
}
