// SPDX-License-Identifier: Apache-2.0

package ingest

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// bench is a lane with a model of its stream, and a clock.
type bench struct {
	t   *testing.T
	m   *model
	l   *lane
	now time.Time
}

func newBench(t *testing.T) *bench {
	t.Helper()
	m := newModel(t)
	return &bench{t: t, m: m, l: laneOf(m), now: time.Unix(1_000_000, 0)}
}

// push takes in messages of one subject, named by their payloads.
func (b *bench) push(header string, payloads ...string) {
	for _, p := range payloads {
		f := laneMessage("a", "_INBOX."+p, header, p)
		b.m.sent[p] = f
		b.l.push(f, b.now)
	}
}

func (b *bench) pump() { b.l.pump(b.now) }

// serve lets the server do everything, after a while.
func (b *bench) serve(after time.Duration) {
	b.now = b.now.Add(after)
	b.m.serve(b.l, b.now)
}

// group has the lane group from now on: n messages were just answered as one batch.
func (b *bench) group(n int) {
	b.t.Helper()
	b.push("", numbered("first", n)...)
	b.pump()
	if b.l.batch == nil || len(b.l.batch.group) != n {
		b.t.Fatalf("%d messages at once make no batch", n)
	}
	b.serve(time.Millisecond)
	if !b.l.grouping {
		b.t.Fatalf("nothing is grouped after a batch of %d", n)
	}
}

// answer is what a publisher got; "" for nothing.
func (b *bench) answer(payload string) string {
	b.t.Helper()
	answers := b.m.answers["_INBOX."+payload]
	if len(answers) == 0 {
		return ""
	}
	if len(answers) > 1 {
		b.t.Errorf("message %s: got answers %v, want one", payload, answers)
	}
	return answers[0].header + answers[0].payload
}

func numbered(name string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("%s-%d", name, i)
	}
	return out
}

func (b *bench) same(what string, got, want any) {
	b.t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		b.t.Errorf("%s (-want +got):\n%.3000s", what, diff)
	}
}

// loop has publishers send one message after the other, each when it has the answer to
// the one before, to a server that takes a while for each.
func (b *bench) loop(publishers, rounds int, takes time.Duration) {
	waits := make(map[string]bool)
	n := 0
	send := func() {
		name := fmt.Sprint("loop-", n)
		n++
		waits[name] = true
		b.push("", name)
	}
	for range publishers {
		send()
		b.pump()
	}
	for range rounds {
		b.now = b.now.Add(takes)
		b.m.process(1)
		for len(b.m.replies) > 0 {
			b.m.deliver(b.l, 0, b.now)
		}
		for name := range waits {
			if b.answer(name) != "" {
				delete(waits, name)
				send()
			}
		}
		b.pump()
	}
}

func TestFewPublishersAreNeverGrouped(t *testing.T) {
	for publishers := range fewest {
		b := newBench(t)
		b.loop(publishers, 2000, firstAlone)
		if got := b.l.stats.Grouped.Load(); got != 0 {
			t.Errorf("%d publishers: got %d messages in batches, want none", publishers, got)
		}
		if got := len(b.m.stored); publishers > 0 && got < 1999 {
			t.Errorf("%d publishers: got %d messages, want one per round", publishers, got)
		}
	}
}

func TestAProbeFindsThePublishersThatWait(t *testing.T) {
	b := newBench(t)
	b.loop(32, 32+3*probeEvery, firstAlone)
	if got := b.l.stats.Grouped.Load(); got == 0 {
		t.Errorf("32 publishers of one message at a time: got none in batches")
	}
	before := b.l.stats.Batches.Load()
	b.loop(0, 2000, 20*time.Microsecond)
	batches, grouped := b.l.stats.Batches.Load()-before, b.l.stats.Grouped.Load()
	if batches == 0 || grouped/b.l.stats.Batches.Load() < 20 {
		t.Errorf("32 publishers: got %d messages in %d batches, want about 32 in each", grouped, b.l.stats.Batches.Load())
	}
}

func TestAProbeIsOneMessageInSoMany(t *testing.T) {
	b := newBench(t)
	probes := 0
	for i := range 10 * probeEvery {
		b.push("", fmt.Sprint("m", i))
		b.pump()
		if b.l.probe != nil {
			probes++
		}
		b.serve(firstAlone)
	}
	b.same("probes", probes, 10)
	b.same("stored", len(b.m.stored), 10*probeEvery)
}

func TestABatchWaitsForPublishersThatWereJustAnswered(t *testing.T) {
	b := newBench(t)
	b.group(32)
	b.push("", numbered("second", 31)...)
	b.pump()
	if b.l.batch != nil {
		t.Fatalf("a batch of %d was committed before the last of 32 publishers was back", len(b.l.batch.group))
	}
	b.push("", "last")
	b.pump()
	if b.l.batch == nil || len(b.l.batch.group) != 32 {
		t.Fatalf("no batch was committed when all 32 publishers were back")
	}
	b.serve(time.Millisecond)
	b.same("stored", len(b.m.stored), 64)
}

func TestABatchWaitsNoLongerThanALull(t *testing.T) {
	b := newBench(t)
	b.group(32)
	b.push("", numbered("second", 10)...)
	b.pump()
	next := b.l.next()
	if wait := next.Sub(b.now); wait <= 0 || wait > b.l.cost.fixed {
		t.Fatalf("the lane looks again in %s, want at most %s", wait, b.l.cost.fixed)
	}
	b.now = next
	b.pump()
	if b.l.batch == nil || len(b.l.batch.group) != 10 {
		t.Fatal("the ten messages that came were not committed after the lull")
	}
}

func TestMessagesThatTrickleDoNotKeepABatchOpen(t *testing.T) {
	b := newBench(t)
	b.group(500)
	begun, step := b.now, b.l.cost.fixed/2
	for i := 0; b.l.batch == nil; i++ {
		if b.now.Sub(begun) > 2*longestReunion*b.l.cost.fixed {
			t.Fatalf("the batch is open after %s", b.now.Sub(begun))
		}
		b.push("", fmt.Sprint("drip", i))
		b.pump()
		b.now = b.now.Add(step)
	}
	if got := b.now.Sub(begun); got < (longestReunion-1)*b.l.cost.fixed {
		t.Errorf("the batch was committed after %s although messages came all the time", got)
	}
}

func TestFewMessagesEndGrouping(t *testing.T) {
	b := newBench(t)
	b.group(32)
	b.push("", "single")
	b.now = b.l.next()
	b.pump()
	b.serve(time.Millisecond)
	if b.l.grouping {
		t.Error("after a batch of one: got grouping, want none")
	}
}

func TestBackoffGrowsAndHeals(t *testing.T) {
	b := newBench(t)
	b.m.maxMsgs = 1
	b.push("", "full")
	b.pump()
	b.serve(0)
	var got []time.Duration
	for i := range 11 {
		b.push("", numbered(fmt.Sprint("round", i), 32)...)
		if b.now = b.now.Add(time.Microsecond); b.now.Before(b.l.until) {
			b.pump()
			if b.l.batch != nil {
				t.Fatalf("round %d: a batch was sent within the backoff", i)
			}
			b.serve(0)
			b.now = b.l.until
			b.push("", numbered(fmt.Sprint("again", i), 32)...)
		}
		b.pump()
		if b.l.batch == nil {
			t.Fatalf("round %d: no batch was sent after the backoff", i)
		}
		b.serve(0)
		got = append(got, b.l.until.Sub(b.now))
	}
	ms := time.Millisecond
	b.same("backoff", got, []time.Duration{ms, 2 * ms, 4 * ms, 8 * ms, 16 * ms, 32 * ms, 64 * ms, 128 * ms, 256 * ms, 256 * ms, 256 * ms})
	b.m.maxMsgs = 0
	b.now = b.l.until
	b.push("", numbered("healed", 32)...)
	b.pump()
	b.serve(ms)
	b.same("backoff after a batch that was stored", b.l.backoff, time.Duration(0))
}

func TestAProbeDoesNotEndABackoff(t *testing.T) {
	b := newBench(t)
	b.m.maxMsgs = 1
	b.push("", numbered("refused", 32)...)
	b.pump()
	b.serve(0)
	for i := 0; b.l.probe == nil; i++ {
		b.push("", fmt.Sprint("m", i))
		b.pump()
	}
	for i := range most {
		b.push("", fmt.Sprint("came", i))
		b.pump()
	}
	b.serve(firstBackoff / 2)
	b.push("", numbered("more", 32)...)
	if b.pump(); b.l.grouping || b.l.batch != nil {
		t.Error("messages were grouped within the backoff")
	}
}

func TestARefusedBatchGoesAloneBeforeWhatCameSince(t *testing.T) {
	b := newBench(t)
	b.push("Nats-Msg-Id: 1", "known")
	b.pump()
	b.serve(0)
	b.group(32)
	first := numbered("batch", 31)
	b.push("", first...)
	b.push("Nats-Msg-Id: 1", "double")
	b.pump()
	if b.l.batch == nil {
		t.Fatal("no batch is under way")
	}
	open := numbered("open", mostGrouped+1) // so many that the next batch is begun
	b.push("", open...)
	b.pump()
	if len(b.l.open.msgs) == 0 {
		t.Fatal("no batch is open")
	}
	before := len(b.m.stored)
	b.serve(0)
	b.pump()
	b.serve(0)
	b.same("stored", b.m.storedPayloads()[before:], slices.Concat(first, open))
	if got := b.answer("double"); !strings.Contains(got, `"duplicate": true`) {
		t.Errorf("duplicate: got %q", got)
	}
	b.same("batches left with the server", len(b.m.staged), 0)
	b.same("bytes that wait when nothing does", b.l.bytes, 0)
	b.same("refused batches", b.l.stats.Fallbacks.Load(), uint64(1))
}

func TestTheNextBatchIsFilledAndWaitsForTheOneUnderWay(t *testing.T) {
	b := newBench(t)
	b.group(32)
	first, next := numbered("under way", 32), numbered("next", 3*mostGrouped)
	b.push("", first...)
	b.pump()
	token := b.l.batch.token
	b.push("", next...)
	b.pump()
	if got := len(b.l.open.msgs); b.l.batch.token != token || got != mostGrouped {
		t.Errorf("got batch %d under way and %d messages in the next, want %d and %d", b.l.batch.token, got, token, mostGrouped)
	}
	for len(b.m.stored) < 64+len(next) && b.l.busy() {
		b.serve(longestReunion * b.l.cost.fixed)
		b.pump()
	}
	b.same("stored", b.m.storedPayloads()[32:], slices.Concat(first, next))
}

func TestADuplicateGoesIntoTheNextBatch(t *testing.T) {
	b := newBench(t)
	b.group(8)
	b.push("Nats-Msg-Id: 1", "one", "two")
	b.push("", numbered("more", 8)...)
	b.now = b.now.Add(b.l.cost.fixed)
	b.pump()
	if b.l.batch == nil {
		t.Fatal("no batch is under way")
	}
	b.same("messages of the batch before the duplicate", len(b.l.batch.group), 1)
	b.serve(time.Millisecond)
	b.same("refused batches", b.l.stats.Fallbacks.Load(), uint64(0))
}

func TestOnlyAnAnswerForAllOfABatchIsSuccess(t *testing.T) {
	for _, payload := range []string{
		`{"stream":"S","seq":100,"batch":"x","count":31}`,
		`{"stream":"S","seq":31,"batch":"x","count":32}`,
		`{"stream":"S","seq":100}`,
		`{"error":{"code":400},"stream":"S","seq":100,"count":32}`,
	} {
		b := newBench(t)
		b.push("", numbered("m", 32)...)
		b.pump()
		b.l.answered(b.l.batch.token, frame{payload: []byte(payload)}, b.now)
		if got := b.l.stats.Fallbacks.Load(); got != 1 || len(b.m.answers) > 0 {
			t.Errorf("%s: got %d batches refused and answers to %d publishers, want 1 and 0", payload, got, len(b.m.answers))
		}
	}
}

func TestAStallPutsTheOpenBatchBack(t *testing.T) {
	b := newBench(t)
	b.group(32)
	late := numbered("late", 32)
	b.push("", late...)
	b.pump()
	open := numbered("open", mostGrouped+1)
	b.push("", open...)
	b.pump()
	b.now = b.now.Add(patience + 1)
	b.pump()
	b.same("unanswered", b.l.stats.Unanswered.Load(), uint64(1))
	// The server forgets a batch to which nothing is added for that long.
	if aborted := slices.ContainsFunc(b.m.inbox, func(f forwarded) bool { return f.end == noEnd }); !aborted {
		t.Error("the open batch was not aborted")
	}
	before := len(b.m.stored)
	for range 5 {
		b.serve(b.l.cost.fixed)
		b.pump()
	}
	b.same("stored", b.m.storedPayloads()[before:], slices.Concat(late, open))
	for _, p := range slices.Concat(late, open) {
		if b.answer(p) == "" {
			t.Errorf("message %s got no answer although the server came back", p)
		}
	}
	b.same("batches left with the server", len(b.m.staged), 0)
	b.same("bytes that wait when nothing does", b.l.bytes, 0)
}

func TestALateRefusalIsNotSentAgain(t *testing.T) {
	b := newBench(t)
	b.m.maxMsgs = 8
	b.push("", numbered("late", 32)...)
	b.pump()
	b.now = b.now.Add(patience + 1)
	b.pump()
	b.serve(0)
	b.pump()
	b.serve(0)
	b.same("stored", len(b.m.stored), 0)
	b.same("busy", b.l.busy(), false)
}

func TestOneWaitsForAProbeNoLongerThanPatience(t *testing.T) {
	b := newBench(t)
	for i := 0; b.l.probe == nil; i++ {
		b.push("", fmt.Sprint("m", i))
		b.pump()
	}
	last := string(b.l.probe.msg.payload)
	b.now = b.now.Add(patience + 1)
	b.pump()
	if b.l.probe != nil {
		t.Fatal("the lane still waits for its probe")
	}
	b.serve(0)
	if got := b.answer(last); !strings.Contains(got, `"seq":16`) {
		t.Errorf("answer to a late probe: got %q", got)
	}
}

func TestClientsSendBatchesOnlyWhereTheyMay(t *testing.T) {
	const header = "Nats-Batch-Id: mine\r\nNats-Batch-Sequence: 1\r\nNats-Batch-Commit: 1"
	for _, may := range []bool{false, true} {
		b := newBench(t)
		b.l.OwnBatches = may
		b.group(32)
		before := len(b.m.stored)
		b.push(header, "mine")
		b.l.push(laneMessage("a", "", header, "silent"), b.now)
		b.now = b.l.next()
		b.pump()
		b.serve(0)
		got, stored := b.answer("mine"), b.m.storedPayloads()[before:]
		if may {
			b.same("stored", stored, []string{"mine", "silent"})
			continue
		}
		if !strings.Contains(got, `"err_code":10174`) || !strings.Contains(got, `"stream":"S"`) || len(stored) > 0 || len(b.m.answers[""]) > 0 {
			t.Errorf("a batch that is not allowed: got %q and %v in the stream", got, stored)
		}
	}
}

func TestWhatMeansMoreThanItsTextGoesAlone(t *testing.T) {
	for name, f := range map[string]frame{
		"fast ingest": laneMessage("a", "_INBOX.x.1.$FI", "", "odd"),
		"expectation": laneMessage("a", "_INBOX.odd", "Nats-Expected-Stream: S", "odd"),
		"a listener":  laneMessage("heard", "_INBOX.odd", "", "odd"),
		"own batch":   laneMessage("a", "_INBOX.odd", "Nats-Batch-Id: mine\r\nNats-Batch-Sequence: 1\r\nNats-Batch-Commit: 1", "odd"),
	} {
		b := newBench(t)
		b.m.heard["heard"] = true
		b.l.OwnBatches = true
		b.group(32)
		b.m.sent["odd"] = f
		b.push("", "before")
		b.l.push(f, b.now)
		b.push("", "after")
		for range 4 {
			b.now = b.now.Add(b.l.cost.fixed)
			b.pump()
			b.serve(0)
		}
		odd := b.m.stored[33]
		if odd.payload != "odd" || odd.reply != string(f.reply) || odd.header != string(f.header) {
			t.Errorf("%s: got %+v at its place", name, odd)
		}
	}
}

func TestACopyOfAGroupedMessageIsGroupedAnew(t *testing.T) {
	b := newBench(t)
	b.push("Nats-Batch-Id: _hf-0-1\r\nA: b\r\nNats-Batch-Sequence: 3\r\nNats-Batch-Commit: 1", numbered("copy", 32)...)
	if got, want := b.l.bytes, bytesOf(b.l); got != want {
		t.Errorf("bytes of the queue: got %d, want %d", got, want)
	}
	b.pump()
	b.serve(time.Millisecond)
	b.same("batches", b.l.stats.Batches.Load(), uint64(1))
	for i, f := range b.m.stored {
		if strings.Contains(f.header, "_hf-0-1") || !strings.Contains(f.header, "\r\nA: b\r\n") || strings.Contains(f.header, batchEndHeader) {
			t.Errorf("copy %d: got header %q", i, f.header)
		}
	}
	b.same("bytes that wait when nothing does", b.l.bytes, 0)
}

func TestAMessageThatABatchMakesTooBigGoesAlone(t *testing.T) {
	for _, c := range []struct {
		size                int
		maxSize, maxPayload int
		grouped             bool
	}{
		{1000 - headroom, 1000, 1 << 20, true},
		{1000 - headroom + 1, 1000, 1 << 20, false},
		{1000 - headroom, 1 << 20, 1000, true},
		{1000 - headroom + 1, 1 << 20, 1000, false},
	} {
		b := newBench(t)
		b.m.maxSize = min(c.maxSize, c.maxPayload)
		b.l.MaxMsgSize, b.l.MaxPayload = c.maxSize, c.maxPayload
		b.push("", numbered(strings.Repeat("x", c.size-len("-00")), 64)[10:]...)
		b.pump()
		b.serve(time.Millisecond)
		b.pump()
		b.serve(time.Millisecond)
		if got := b.l.stats.Grouped.Load() > 0; got != c.grouped || b.l.stats.Fallbacks.Load() > 0 {
			t.Errorf("%+v: got grouped %v and %d batches refused", c, got, b.l.stats.Fallbacks.Load())
		}
		b.same("stored", len(b.m.stored), 54)
	}
}

func TestHeadroomCoversTheFieldsOfABatch(t *testing.T) {
	g := group{id: batchPrefix + strings.Repeat("f", 12) + "-" + strings.Repeat("z", 13)}
	if got := len(headerStart) + len(g.fields(mostGrouped+1, endOfBatch)) + len(crlf); got > headroom {
		t.Errorf("fields of a batch take %d bytes, want at most %d", got, headroom)
	}
}

func TestABatchStaysWithinItsLimits(t *testing.T) {
	for _, c := range []struct {
		name        string
		n, size     int
		count, most int
	}{
		{"many", 2500, 8, mostGrouped, math.MaxInt},
		{"big", 120, 100_000, math.MaxInt, mostBytes},
	} {
		b := newBench(t)
		var want []string
		for i := range c.n {
			p := fmt.Sprintf("%0*d", c.size, i)
			want = append(want, p)
			b.push("", p)
		}
		reached := false
		for len(b.m.stored) < c.n {
			b.pump()
			if b.l.batch == nil {
				t.Fatalf("%s: no batch is under way with %d stored", c.name, len(b.m.stored))
			}
			bytes := 0
			for _, m := range b.l.batch.group {
				bytes += m.size()
			}
			if n := len(b.l.batch.group); n > c.count || bytes > c.most {
				t.Fatalf("%s: got a batch of %d messages and %d bytes", c.name, n, bytes)
			} else if n == c.count || bytes > c.most-2*c.size {
				reached = true
			}
			b.serve(b.l.cost.fixed)
			b.now = b.now.Add(longestReunion * b.l.cost.fixed)
		}
		b.same(c.name, b.m.storedPayloads(), want)
		if !reached || b.l.stats.Fallbacks.Load() > 0 {
			t.Errorf("%s: got a batch at the limit: %v, %d refused", c.name, reached, b.l.stats.Fallbacks.Load())
		}
	}
}

func TestTooManyThatWaitAreRefused(t *testing.T) {
	for _, c := range []struct {
		name    string
		payload string
		room    int
	}{
		{"by number", "x", mostWaiting},
		{"by bytes", strings.Repeat("x", 1<<20), 63},
	} {
		b := newBench(t)
		b.group(32)
		b.push("", numbered("stalled", 32)...)
		b.pump() // nothing is answered from here on
		for range c.room {
			b.l.push(laneMessage("a", "_INBOX.w", "", c.payload), b.now)
		}
		if got := b.answer("w"); got != "" || len(b.l.queue) != c.room {
			t.Fatalf("%s: got answer %q and %d that wait, want %d", c.name, got, len(b.l.queue), c.room)
		}
		b.l.push(laneMessage("a", "_INBOX.over", "", c.payload), b.now)
		b.l.push(laneMessage("a", "", "", c.payload), b.now)
		if got, want := b.answer("over"), `"err_code":10167`; !strings.Contains(got, want) || !strings.Contains(got, `"stream":"S"`) {
			t.Errorf("%s: got %q, want %s", c.name, got, want)
		}
		b.same("answers to nobody", len(b.m.answers[""]), 0)
		b.same("refused", b.l.stats.Refused.Load(), uint64(2))
		for b.l.busy() {
			b.pump()
			b.serve(longestReunion * b.l.cost.fixed)
		}
		b.same("stored", len(b.m.stored), 64+c.room)
		for b.push("", "healed"); b.l.busy(); b.serve(longestReunion * b.l.cost.fixed) {
			b.pump()
		}
		if got := b.answer("healed"); !strings.Contains(got, `"seq":`) {
			t.Errorf("%s: got %q when nothing waits any more", c.name, got)
		}
	}
}

func TestNobodyRespondsForASubjectWithoutStream(t *testing.T) {
	const want = "NATS/1.0 503\r\nNats-Subject: a\r\n\r\n"
	b := newBench(t)
	b.m.unknown["a"] = true
	names := numbered("alone", 2*probeEvery)
	for _, p := range names {
		b.push("", p)
		b.pump()
		b.serve(0)
	}
	batch := numbered("batch", 32)
	b.push("", batch...)
	b.pump()
	b.serve(time.Millisecond)
	b.same("refused batches", b.l.stats.Fallbacks.Load(), uint64(1))
	for _, p := range slices.Concat(names, batch) {
		b.same(p, b.answer(p), want)
	}
}
