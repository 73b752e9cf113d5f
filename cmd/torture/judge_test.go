// SPDX-License-Identifier: Apache-2.0

package main

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// kept are four acknowledged messages, all of them there; a worker has
// confirmed 1, sent an acknowledgement for 2, and been given 3.
func kept(queue bool) (*ledger, holding) {
	l := newLedger("S", queue)
	h := holding{last: 4, count: 4, messages: map[uint64]stored{}}
	for i, id := range []string{"a", "b", "c", "d"} {
		seq, sum := uint64(i+1), uint64(100+i)
		l.publishing(id, sum)
		l.published(id, seq, false)
		h.messages[seq] = stored{id, sum}
		if seq < 4 {
			l.delivered(delivery{consumer: seq, stream: seq, num: 1}, id, sum)
		}
		if seq < 3 {
			l.acknowledging(seq)
		}
	}
	l.acknowledged(1)
	return l, h
}

// without is a holding that has lost a message and does not know it.
func without(h holding, seqs ...uint64) holding {
	h.messages = maps.Clone(h.messages)
	for _, seq := range seqs {
		delete(h.messages, seq)
		h.count--
	}
	return h
}

func with(h holding, seq uint64, m stored) holding {
	h.messages = maps.Clone(h.messages)
	if _, ok := h.messages[seq]; !ok {
		h.count++
	}
	h.messages[seq] = m
	return h
}

// at is a finding without its words.
type at struct {
	Kind kind
	Seq  uint64
}

func places(found []finding) []at {
	var out []at
	for _, f := range found {
		out = append(out, at{f.kind, f.seq})
	}
	return out
}

func same(t *testing.T, found []finding, want ...at) {
	t.Helper()
	if d := cmp.Diff(want, places(found)); d != "" {
		t.Errorf("findings (-want +got):\n%s%v", d, found)
	}
}

func TestJudgeStored(t *testing.T) {
	for name, test := range map[string]struct {
		queue bool
		after func(*ledger, holding) holding
		want  []at
	}{
		"all there":                  {after: func(_ *ledger, h holding) holding { return h }},
		"one lost":                   {after: func(_ *ledger, h holding) holding { return without(h, 4) }, want: []at{{lost, 4}}},
		"acknowledged by a worker":   {after: func(_ *ledger, h holding) holding { return without(h, 1, 2) }, want: []at{{lost, 1}, {lost, 2}}},
		"in a queue that is no loss": {queue: true, after: func(_ *ledger, h holding) holding { return without(h, 1, 2) }},
		"delivered only is one":      {queue: true, after: func(_ *ledger, h holding) holding { return without(h, 3) }, want: []at{{lost, 3}}},
		"confirmed, and there again": {queue: true, after: func(_ *ledger, h holding) holding { return h }},
		"stream gone":                {after: func(*ledger, holding) holding { return holding{} }, want: []at{{backwards, 0}, {lost, 1}, {lost, 2}, {lost, 3}, {lost, 4}}},
		"content changed":            {after: func(_ *ledger, h holding) holding { return with(h, 2, stored{"b", 7}) }, want: []at{{changed, 2}}},
		"message that nobody sent":   {after: func(_ *ledger, h holding) holding { h.last = 5; return with(h, 5, stored{"x", 7}) }, want: []at{{changed, 5}}},
		"sequence of another":        {after: func(l *ledger, h holding) holding { l.publishing("e", 9); return with(h, 4, stored{"e", 9}) }, want: []at{{reused, 4}}},
		"delivered as another": {after: func(l *ledger, h holding) holding {
			delete(l.acked, 3)
			l.publishing("e", 9)
			return with(h, 3, stored{"e", 9})
		}, want: []at{{reused, 3}}},
		"one message twice":            {after: func(_ *ledger, h holding) holding { h.last = 5; return with(h, 5, stored{"a", 100}) }, want: []at{{twice, 5}}},
		"last sequence below an ack":   {queue: true, after: func(l *ledger, h holding) holding { l.acknowledging(4); h.last = 3; return without(h, 4) }, want: []at{{backwards, 0}}},
		"last sequence below a worker": {after: func(l *ledger, h holding) holding { l.delivered(delivery{4, 5, 1}, "a", 100); return h }, want: []at{{backwards, 0}}},
		"stream that miscounts":        {after: func(_ *ledger, h holding) holding { h.count++; return h }, want: []at{{miscounted, 0}}},
		"not acknowledged, but there": {after: func(l *ledger, h holding) holding {
			l.publishing("e", 9)
			h.last = 5
			return with(h, 5, stored{"e", 9})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			l, h := kept(test.queue)
			same(t, l.judgeStored(test.after(l, h)), test.want...)
		})
	}
}

func TestRemovalsThatACutTookBackAreCounted(t *testing.T) {
	for queue, want := range map[bool]int{true: 1, false: 0} { // 1 was confirmed
		l, h := kept(queue)
		if got := l.undone(h); got != want {
			t.Errorf("queue %t: got %d undone, want %d", queue, got, want)
		}
		if got := l.undone(without(h, 1)); got != 0 {
			t.Errorf("queue %t: got %d undone with the message removed, want 0", queue, got)
		}
	}
}

func TestOnlyAcknowledgedMessagesCountAsGrouped(t *testing.T) {
	l, _ := kept(false)
	l.batched(2, 3, 3, 9)
	if got := l.grouped(); got != 2 {
		t.Errorf("got %d acknowledged messages in batches, want 2", got)
	}
}

func TestNewDeliveriesDoNotRunBackwards(t *testing.T) {
	for name, test := range map[string]struct {
		deliveries []delivery
		want       []at
	}{
		"rising":                          {[]delivery{{1, 5, 1}, {2, 6, 1}, {3, 9, 1}}, nil},
		"seen by two workers out of turn": {[]delivery{{2, 6, 1}, {1, 5, 1}}, nil},
		"redelivery of an earlier one":    {[]delivery{{1, 5, 1}, {2, 6, 1}, {3, 5, 2}, {4, 7, 1}}, nil},
		"new below a new one":             {[]delivery{{1, 5, 1}, {2, 8, 1}, {3, 6, 1}, {4, 7, 1}, {5, 9, 1}}, []at{{backwards, 6}, {backwards, 7}}},
		"new once more":                   {[]delivery{{1, 5, 1}, {2, 5, 1}}, []at{{backwards, 5}}},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLedger("S", false)
			l.publishing("a", 1)
			for _, d := range test.deliveries {
				l.delivered(d, "a", 1)
			}
			same(t, l.judgeOrder(), test.want...)
		})
	}
}

// A consumer that lost its position in a cut begins again: at least once.
func TestARestartMayDeliverFromTheBeginning(t *testing.T) {
	l, h := kept(false)
	l.restarted(h.last)
	for seq := range uint64(4) {
		l.delivered(delivery{consumer: seq + 1, stream: seq + 1, num: 1}, h.messages[seq+1].id, h.messages[seq+1].sum)
	}
	same(t, l.judgeOrder())
	if _, _, again := l.counts(); again != 1 {
		t.Errorf("got %d confirmed messages again, want 1", again)
	}
	// A worker that acknowledges it once more takes nothing back.
	l.restarted(h.last)
	l.acknowledging(1)
	l.delivered(delivery{consumer: 1, stream: 1, num: 1}, "a", 100)
	if _, _, again := l.counts(); again != 1 {
		t.Errorf("got %d confirmed messages again after the second restart, want 1", again)
	}
}

func TestAFindingBelongsToOneStart(t *testing.T) {
	l, h := kept(false)
	l.published("e", 4, false)
	l.acknowledged(3)
	l.delivered(delivery{4, 3, 2}, "c", 102)
	l.restarted(h.last)
	same(t, l.judgeOrder())
	if _, _, again := l.counts(); again != 0 {
		t.Errorf("got %d confirmed messages again, want 0", again)
	}
}

func TestLedgerFindsWhileItRecords(t *testing.T) {
	for name, test := range map[string]struct {
		does func(*ledger)
		want []at
	}{
		"sequence acknowledged to two":    {func(l *ledger) { l.published("e", 4, false) }, []at{{reused, 4}}},
		"a duplicate of another":          {func(l *ledger) { l.published("e", 4, true) }, []at{{reused, 4}}},
		"a duplicate of itself":           {func(l *ledger) { l.published("d", 4, true) }, nil},
		"new below the last of the start": {func(l *ledger) { l.restarted(9); l.published("e", 7, false) }, []at{{reused, 7}}},
		"duplicate below it":              {func(l *ledger) { l.restarted(9); l.published("e", 7, true) }, nil},
		"new above it":                    {func(l *ledger) { l.restarted(9); l.published("e", 10, false) }, nil},
		"delivered with another content":  {func(l *ledger) { l.delivered(delivery{4, 4, 1}, "d", 7) }, []at{{changed, 4}}},
		"delivered as another":            {func(l *ledger) { l.delivered(delivery{4, 3, 2}, "d", 103) }, []at{{reused, 3}}},
		"delivered, nobody sent it":       {func(l *ledger) { l.delivered(delivery{4, 5, 1}, "x", 7) }, []at{{changed, 5}}},
	} {
		t.Run(name, func(t *testing.T) {
			l, _ := kept(false)
			l.publishing("e", 104)
			test.does(l)
			same(t, l.judgeOrder(), test.want...)
		})
	}
}

// After a cut each message there has to be delivered once more, except to a
// worker that has sent its acknowledgement.
func TestWhatIsOwedToAWorkerAfterACut(t *testing.T) {
	l, h := kept(true)
	l.restarted(h.last)
	same(t, l.undelivered(h), at{stuck, 3}, at{stuck, 4})
	l.delivered(delivery{1, 3, 2}, "c", 102)
	same(t, l.undelivered(h), at{stuck, 4})
	l.delivered(delivery{2, 4, 1}, "d", 103)
	same(t, l.undelivered(h))
}
