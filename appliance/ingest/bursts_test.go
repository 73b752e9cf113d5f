// SPDX-License-Identifier: Apache-2.0

package ingest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// soon is a time within which publishers that were answered come back.
func soon(takes time.Duration) func(int) time.Duration {
	r := rand.New(rand.NewPCG(1, 2))
	return func(int) time.Duration { return takes/20 + time.Duration(r.Int64N(int64(takes/4))) }
}

func TestPublishersThatWaitShareABurst(t *testing.T) {
	whole := func(n int) int { return n }
	quarter := func(n int) int { return (n + 3) / 4 }
	for _, publishers := range []int{2, 3, 4, 16, 64} {
		for _, takes := range []time.Duration{time.Millisecond, 50 * time.Millisecond} {
			for name, parts := range map[string]func(int) int{"whole": whole, "split": quarter} {
				t.Run(fmt.Sprint(publishers, " ", takes, " ", name), func(t *testing.T) {
					c := newCircle(t, publishers, takes)
					c.parts, c.thinks = parts, soon(takes)
					c.rounds(200)
					alone, grouped, batches := c.b.stats.Alone.Load(), c.b.stats.Grouped.Load(), c.b.stats.Batches.Load()
					c.rounds(20)
					alone, grouped, batches = c.b.stats.Alone.Load()-alone, c.b.stats.Grouped.Load()-grouped, c.b.stats.Batches.Load()-batches
					if alone > 0 || batches == 0 || grouped != batches*uint64(publishers) {
						t.Errorf("got %d messages in %d bursts and %d alone, want %d in each burst", grouped, batches, alone, publishers)
					}
					c.ordered()
				})
			}
		}
	}
}

func TestOnePublisherIsNeverHeld(t *testing.T) {
	for _, takes := range []time.Duration{time.Millisecond, 50 * time.Millisecond} {
		c := newCircle(t, 1, takes)
		c.thinks = soon(takes)
		c.rounds(500)
		if c.longest > 0 || c.b.stats.Grouped.Load() > 0 {
			t.Errorf("a message of one publisher waited, %d were put together", c.b.stats.Grouped.Load())
		}
		if got, want := marksOf(c.m.stored), len(c.m.stored)/probeEvery; got != want {
			t.Errorf("got %d marks of %d messages, want %d", got, len(c.m.stored), want)
		}
		c.ordered()
	}
}

// Who comes back when it likes is not worth to wait for.
func TestPublishersThatThinkAreSeldomWaitedFor(t *testing.T) {
	const takes = firstCycle
	for busy, most := range map[int]time.Duration{1: takes / 6, 2: takes / 4, 4: takes / 2} { // messages while one burst is under way
		c := newCircle(t, 32, takes)
		r := rand.New(rand.NewPCG(1, 2))
		c.thinks = func(int) time.Duration {
			return time.Duration(r.ExpFloat64() * float64(len(c.sent)/busy) * float64(takes))
		}
		c.rounds(10)
		bursts := func() time.Duration { return time.Duration(marksOf(c.m.stored)) }
		had, before := c.held, bursts()
		c.rounds(100)
		// The more there are, the more often there are enough by chance.
		if got := (c.held - had) / (bursts() - before); got > most {
			t.Errorf("%d messages at a time: held for %s a burst with nothing under way, want at most %s", busy, got, most)
		}
		c.ordered()
	}
}

func TestAMarkWithoutAnswerHoldsForALimitedTime(t *testing.T) {
	b := newBurstBench(t)
	b.gather()
	b.push("", "one", "two")
	b.pump()
	b.waits("nothing under way", 0)
	sent, holds := b.now, b.b.holdsFor()
	if holds < leastHeldFor || holds > mostHeldFor {
		t.Errorf("a burst holds for %s", holds)
	}
	b.push("", "three")
	b.now = sent.Add(holds - time.Microsecond)
	b.pump()
	b.waits("a burst under way", 1)
	if got := b.b.next(); !got.Equal(sent.Add(holds)) {
		t.Errorf("next: got %s after it was sent, want %s", got.Sub(sent), holds)
	}
	b.now = b.b.next()
	b.pump()
	b.waits("a burst that is overdue", 0)
	b.serve(time.Second) // long after it was given up
	for _, p := range []string{"one", "two", "three"} {
		if got := b.answers(p); len(got) != 1 {
			t.Errorf("message %s: got answers %v, want one", p, got)
		}
	}
	b.now = b.now.Add(patience + time.Second)
	if b.pump(); b.b.busy() || b.b.stats.Unanswered.Load() > 0 {
		t.Errorf("got %d unanswered, want none; still busy: %v", b.b.stats.Unanswered.Load(), b.b.busy())
	}
}

// However slow the stream was, it holds for no longer than a second.
func TestBurstsHoldForASecondAtTheMost(t *testing.T) {
	b := newBurstBench(t)
	b.gather()
	for i := range 200 {
		b.push("", strconv.Itoa(i))
		sent := b.now
		for b.pump(); len(b.b.queue) > 0; b.pump() {
			b.now = b.b.next()
		}
		if got := b.now.Sub(sent); got > mostHeldFor {
			t.Fatalf("message %d was held for %s, want at most %s", i, got, mostHeldFor)
		}
	}
}

func TestUnansweredIsWhatGotNoAnswerInTime(t *testing.T) {
	b := newBurstBench(t)
	b.gather()
	b.push("", "never")
	b.pump()
	lost := b.m.inbox
	b.m.inbox = nil
	at := b.now
	b.now = at.Add(patience)
	b.pump()
	if got := b.b.stats.Unanswered.Load(); got != 0 {
		t.Errorf("unanswered within patience: got %d, want 0", got)
	}
	b.now = at.Add(patience + time.Millisecond)
	b.pump()
	if got := b.b.stats.Unanswered.Load(); got != 1 || b.b.busy() {
		t.Errorf("unanswered: got %d, want 1; busy: %v", got, b.b.busy())
	}
	b.m.inbox = lost
	if b.serve(0); len(b.answers("never")) > 0 {
		t.Errorf("an answer after %s was passed on", patience)
	}
}

// A mark that waits for its first answer is not forgotten for those that have one.
func TestAnAnswerComesThroughAfterManyOthers(t *testing.T) {
	b := newBurstBench(t)
	b.gather()
	b.push("", "slow")
	b.pump()
	slow := b.m.inbox
	b.m.inbox = nil
	b.now = b.b.under[0].at.Add(b.b.holdsFor())
	for i := range 2 * mostLate {
		b.push("", fmt.Sprint(i), fmt.Sprint(i, " more")) // of one message they would not go on
		b.pump()
		b.serve(time.Millisecond)
		b.now = b.now.Add(b.b.cycle)
		b.pump()
	}
	if got := len(b.b.late); got != mostLate {
		t.Errorf("%d marks are remembered, want %d", got, mostLate)
	}
	if got := b.b.stats.Unanswered.Load(); got != 0 {
		t.Errorf("unanswered: got %d, want 0", got)
	}
	b.m.inbox = slow
	if b.serve(0); len(b.answers("slow")) != 1 {
		t.Errorf("an answer that came in time: got %v", b.answers("slow"))
	}
}

func TestEveryAnswerToAMarkIsPassedOn(t *testing.T) {
	b := newBurstBench(t)
	b.gather()
	b.push("", "one")
	b.pump()
	token := b.b.under[0].token
	for i, text := range []string{"service", "stream", "another"} {
		b.b.answered(token, frame{payload: []byte(text)}, b.now.Add(time.Duration(i)*time.Second))
	}
	b.b.answered(token+1, frame{payload: []byte("forged")}, b.now)
	if diff := cmp.Diff([]string{"service", "stream", "another"}, b.answers("one")); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
}

func TestNobodyRespondsToAMark(t *testing.T) {
	want := []string{string(noResponders([]byte("a")))}
	b := newBurstBench(t)
	b.gather()
	b.m.unknown["a"] = true
	b.push("", "one", "two")
	b.pump()
	b.waits("nobody listens", 0)
	if len(b.b.under)+len(b.m.inbox) > 0 {
		t.Errorf("got %d marks and %d messages for a stream that is not there", len(b.b.under), len(b.m.inbox))
	}
	// It went away meanwhile; the server names the subject that leads to it.
	delete(b.m.unknown, "a")
	b.push("", "three")
	b.pump()
	b.b.answered(b.b.under[0].token, frame{header: []byte("NATS/1.0 503\r\nNats-Subject: _hf.out.s.a\r\n\r\n")}, b.now)
	for _, p := range []string{"one", "two", "three"} {
		if diff := cmp.Diff(want, b.answers(p)); diff != "" {
			t.Errorf("message %s (-want +got):\n%s", p, diff)
		}
	}
	b.push("", "four")
	b.now = b.now.Add(firstCycle)
	b.pump()
	b.waits("the stream is there again", 0)
}

func TestMessagesWithoutMarksAreNotHeld(t *testing.T) {
	for name, f := range map[string]frame{
		"no reply":         laneMessage("a", "", "", ""),
		"of a batch":       laneMessage("a", "_INBOX.x", "Nats-Batch-Id: mine\r\nNats-Batch-Sequence: 1", ""),
		"of a fast ingest": laneMessage("a", "_INBOX.x.1.$FI", "", ""),
	} {
		b := newBurstBench(t)
		b.gather()
		before := len(b.m.stored)
		for i := range 5 * probeEvery {
			f.payload = fmt.Append(nil, name, i)
			b.pushFrame(f)
			b.pump()
			b.waits(name, 0)
		}
		sent := b.m.inbox
		if len(sent) != 5*probeEvery || marksOf(sent) > 0 || before == 0 {
			t.Errorf("%s: got %d messages and %d marks, want %d and none", name, len(sent), marksOf(sent), 5*probeEvery)
		}
		for _, got := range sent {
			if got.header != string(f.header) || got.reply != string(f.reply) {
				t.Errorf("%s: got %q, want it as it came", name, got)
			}
		}
	}
}

// The mark is the last that may be one, and nothing changes places with it.
func TestMessagesThatAreNoMarksKeepTheirPlace(t *testing.T) {
	b := newBurstBench(t)
	b.gather()
	b.push("", "one", "two")
	b.push("Nats-Batch-Id: mine\r\nNats-Batch-Sequence: 1", "three")
	b.pushFrame(laneMessage("a", "", "X: y", "four"))
	b.pump()
	var got []string
	for _, f := range b.m.inbox {
		got = append(got, f.payload)
	}
	if want := []string{"one", "two", "three", "four"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if !strings.HasPrefix(b.m.inbox[1].reply, modelReplies) || marksOf(b.m.inbox) != 1 {
		t.Errorf("got %+v, want message two as the only mark", b.m.inbox)
	}
}

func TestCopiedBatchHeadersAreTakenOffInBursts(t *testing.T) {
	b := newBurstBench(t)
	b.gather()
	b.push("X: y\r\nNats-Batch-Id: _hf-old-1\r\nNats-Batch-Sequence: 3", "one")
	b.push("Nats-Batch-Id: _hf-old-1\r\nNats-Batch-Sequence: 4\r\nNats-Batch-Commit: 1", "two")
	b.pump()
	if got, want := b.m.inbox[0].header, headerStart+"X: y\r\n\r\n"; got != want {
		t.Errorf("got header %q, want %q", got, want)
	}
	if got := b.m.inbox[1].header; got != "" || marksOf(b.m.inbox) != 1 {
		t.Errorf("got header %q and %d marks, want none and one", got, marksOf(b.m.inbox))
	}
}

func TestBurstsAreLimited(t *testing.T) {
	t.Run("messages", func(t *testing.T) {
		b := newBurstBench(t)
		b.gather()
		b.push("", numbered("m", mostGrouped*mostUnderWay+mostGrouped/2)...)
		b.pump()
		if got := marksOf(b.m.inbox); got != mostUnderWay || len(b.m.inbox) != mostGrouped*mostUnderWay {
			t.Errorf("got %d messages in %d bursts, want %d in each of %d", len(b.m.inbox), got, mostGrouped, mostUnderWay)
		}
		b.push("", numbered("n", mostGrouped)...)
		b.pump()
		b.waits("as many bursts as there may be", mostGrouped+mostGrouped/2)
		b.m.process(mostGrouped)
		b.m.deliver(b.b, 0, b.now.Add(firstCycle))
		b.pump()
		b.waits("one burst less", mostGrouped/2)
	})
	t.Run("bytes", func(t *testing.T) {
		b := newBurstBench(t)
		b.gather()
		for i := range 4 { // each is in its reply, too
			b.push("", fmt.Sprint(i, strings.Repeat("x", mostBytes/4)))
		}
		b.push("", "small")
		b.pump()
		if got := marksOf(b.m.inbox); got != 2 || len(b.m.inbox) != 4 {
			t.Errorf("got %d messages in %d bursts, want 4 in 2", len(b.m.inbox), got)
		}
		b.waits("bursts under way", 1)
	})
	t.Run("room", func(t *testing.T) {
		b := newBurstBench(t)
		b.gather()
		b.push("", "mark")
		b.pump()
		b.b.Room = 1000
		b.push("", numbered("m", 100)...)
		n := len(b.b.queue)
		for i, p := range numbered("m", 100) {
			switch got := b.answers(p); {
			case i < n && len(got) > 0, i >= n && !slices.Equal(got, []string{string(b.b.tooMany())}):
				t.Errorf("message %d, with %d in the queue: got %v", i, n, got)
			}
		}
		if got := b.b.stats.Refused.Load(); n == 0 || b.b.bytes > 1000 || got != uint64(100-n) {
			t.Errorf("got %d bytes, %d messages and %d refused of 100", b.b.bytes, n, got)
		}
		b.serve(firstCycle)
		b.now = b.now.Add(firstCycle)
		if b.pump(); len(b.m.inbox) != n || b.b.bytes != 0 {
			t.Errorf("got %d messages and %d bytes left, want %d and none", len(b.m.inbox), b.b.bytes, n)
		}
	})
}

func TestReleasePassesOnWhatWaits(t *testing.T) {
	b := newBurstBench(t)
	b.gather()
	b.push("", "mark")
	b.pump()
	b.push("", "one", "two")
	b.waits("a burst under way", 2)
	b.b.release()
	b.waits("released", 0)
	b.serve(time.Millisecond)
	for _, p := range []string{"mark", "one", "two"} {
		if got := b.answers(p); len(got) != 1 {
			t.Errorf("message %s: got answers %v, want one", p, got)
		}
	}
	if b.b.bytes != 0 {
		t.Errorf("%d bytes are left", b.b.bytes)
	}
}
