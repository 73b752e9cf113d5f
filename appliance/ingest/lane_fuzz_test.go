// SPDX-License-Identifier: Apache-2.0

package ingest

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// tape is where a run takes its decisions from.
type tape []byte

// next returns a number below n; zeros when the tape has ended.
func (t *tape) next(n int) int {
	if len(*t) == 0 {
		return 0
	}
	b := (*t)[0]
	*t = (*t)[1:]
	return int(b) % n
}

// run is a lane with its model and what is known of what was sent.
type run struct {
	t    testing.TB
	m    *model
	l    *lane
	now  time.Time
	sent []frame
	// excused are messages that need no answer, because the server gave none in time.
	excused map[string]bool
	given   map[string]asked // batches that the lane waited for too long, by reply
	counts  [4]int           // of each publisher
}

func (r *run) push(publisher int, subject, header string, wantsAnswer bool) {
	payload := fmt.Sprintf("%d-%d", publisher, r.counts[publisher])
	r.counts[publisher]++
	to := ""
	if wantsAnswer {
		to = "_INBOX." + payload
	}
	f := laneMessage(subject, to, header, payload)
	if strings.HasPrefix(header, "Big") {
		f.header = laneMessage("", "", "Big: "+strings.Repeat("x", r.m.maxSize), "").header
	}
	r.sent = append(r.sent, f)
	r.m.sent[payload] = f
	r.l.push(f, r.now)
}

// pump does what the session does after each read.
func (r *run) pump() {
	if !r.l.busy() {
		return
	}
	if b := r.l.batch; b != nil && r.now.Sub(b.at) > patience {
		r.excuse(b.group)
		r.given[string(r.l.replyTo(b.token))] = *b
	}
	for _, a := range r.l.late {
		if a.group == nil && r.now.Sub(a.at) > memory {
			r.excused[string(a.msg.payload)] = true
		}
	}
	r.l.pump(r.now)
	if got, want := r.l.bytes, bytesOf(r.l); got != want {
		r.t.Fatalf("bytes of the queue: got %d, want %d", got, want)
	}
}

func (r *run) excuse(group []waiting) {
	for _, w := range group {
		r.excused[string(w.payload)] = true
	}
}

// deliver gives the lane one of the answers that wait for it.
func (r *run) deliver(i int) {
	answer := r.m.replies[i]
	late, isLate := r.given[answer.to]
	switch {
	case answer.lost:
		for _, a := range []*asked{r.l.probe, r.l.batch} {
			if a != nil && string(r.l.replyTo(a.token)) == answer.to {
				r.excuse(append(a.group, a.msg))
			}
		}
		for _, a := range r.l.late {
			if string(r.l.replyTo(a.token)) == answer.to {
				r.excuse(append(a.group, a.msg))
			}
		}
	case isLate && r.now.Sub(late.at) <= memory && strings.Contains(answer.payload, `"count":`):
		for _, w := range late.group { // what comes late is an answer nevertheless
			delete(r.excused, string(w.payload))
		}
	}
	r.m.deliver(r.l, i, r.now)
}

var (
	fuzzSubjects = []string{"a", "b", "c"}
	fuzzHeaders  = []string{"", "", "", "", "", "X: y", "Nats-Expected-Stream: S", "Nats-Batch-Id: _hf-old-1\r\nX: z\r\nNats-Batch-Sequence: 3", "Big"}
)

// step takes one decision.
func (r *run) step(tp *tape) {
	switch tp.next(16) {
	case 0, 1, 2, 3:
		for range 1 + tp.next(48) {
			r.push(tp.next(4), "a", "", true)
		}
		if r.l.batch != nil && tp.next(64) == 1 {
			// Only of so many are some put into a batch behind the one under way.
			for i := range mostGrouped {
				r.push(i%4, "a", "", true)
			}
		}
	case 4, 5:
		for range 1 + tp.next(12) {
			header := fuzzHeaders[tp.next(len(fuzzHeaders))]
			if id := tp.next(8); header == "" && id < 4 {
				header = fmt.Sprintf("Nats-Msg-Id: %d", tp.next(200))
			}
			r.push(tp.next(4), fuzzSubjects[tp.next(3)], header, tp.next(5) > 0)
		}
	case 6, 7, 8:
		r.m.process(1 + tp.next(64))
	case 9, 10:
		if n := len(r.m.replies); n > 0 {
			r.deliver(tp.next(n))
		}
	case 11:
		r.now = r.now.Add(time.Duration(tp.next(256)) * 20 * time.Microsecond)
	case 12:
		r.forge(tp)
	case 13:
		s := fuzzSubjects[tp.next(3)]
		switch which := []map[string]bool{r.m.heard, r.m.unknown}[tp.next(2)]; {
		case which[s]:
			delete(which, s)
		default:
			which[s] = true
			r.m.wasHeard[s] = r.m.wasHeard[s] || r.m.heard[s]
		}
	case 14:
		switch tp.next(6) {
		case 0:
			r.now = r.now.Add(patience + time.Millisecond)
		case 1:
			r.now = r.now.Add(memory / 2)
		default:
			r.now = r.now.Add(tickEvery)
		}
	case 15:
		switch tp.next(4) {
		case 0:
			r.m.maxMsgs = r.m.live + tp.next(30)
		case 1:
			r.m.live -= min(r.m.live, tp.next(64)) // removed
		case 2:
			r.m.mute = true
		default:
			r.m.mute, r.m.maxMsgs = false, 0
		}
	}
	if tp.next(4) > 0 {
		r.pump()
	}
}

// forge sends what is no answer of the stream.
func (r *run) forge(tp *tape) {
	f := frame{payload: []byte([]string{"", "{}", "null", `{"stream":"T","seq":9,"batch":"x","count":4}`, `{"stream":"S"}`, "x"}[tp.next(6)])}
	token := r.l.token + 1 + uint64(tp.next(4))
	if b := r.l.batch; b != nil && tp.next(2) == 0 {
		token = b.token
	}
	for _, a := range r.l.late {
		if a.group != nil && tp.next(2) == 0 {
			token = a.token
		}
	}
	r.l.answered(token, f, r.now)
}

// settle lets everything come to its end.
func (r *run) settle() {
	r.m.mute = false
	for range 2*len(r.sent) + 100 {
		r.m.process(len(r.m.inbox))
		for len(r.m.replies) > 0 {
			r.deliver(0)
		}
		if r.pump(); len(r.m.inbox)+len(r.m.replies) > 0 {
			continue
		}
		if len(r.l.queue)+len(r.l.open.msgs) == 0 && r.l.batch == nil && r.l.probe == nil {
			break
		}
		wait := tickEvery
		if t := r.l.next(); !t.IsZero() && t.Sub(r.now) < wait {
			wait = max(t.Sub(r.now), 0)
		}
		r.now = r.now.Add(wait)
	}
	if len(r.l.queue)+len(r.l.open.msgs) > 0 {
		r.t.Errorf("the lane stands still with %d messages in its queue and %d in the open batch", len(r.l.queue), len(r.l.open.msgs))
	}
	// What the server never answered is forgotten in the end.
	for range 2 {
		r.now = r.now.Add(memory + time.Second)
		r.pump()
	}
	if r.l.busy() || r.l.bytes != 0 {
		r.t.Errorf("the lane keeps %d bytes and %d late answers, busy: %v", r.l.bytes, len(r.l.late), r.l.busy())
	}
	for id, msgs := range r.m.staged {
		// An end that clients would hear need not be sent: the server forgets in time.
		unheard := slices.ContainsFunc(msgs, func(f forwarded) bool { return !r.m.wasHeard[f.subject] })
		if !r.m.stuck[id] && unheard {
			r.t.Errorf("batch %s was neither committed nor aborted", id)
		}
	}
}

// check holds what happened against what was promised.
func (r *run) check() {
	at := map[string]int{}
	var last [4]int
	for i, f := range r.m.stored {
		if have := at[f.payload]; have > 0 {
			r.t.Errorf("message %s was stored at %d and at %d", f.payload, have, i+1)
		}
		at[f.payload] = i + 1
		var publisher, n int
		if _, err := fmt.Sscanf(f.payload, "%d-%d", &publisher, &n); err != nil {
			r.t.Fatal(err)
		}
		if n++; n <= last[publisher] {
			r.t.Errorf("publisher %d: message %d was stored after message %d", publisher, n-1, last[publisher]-1)
		}
		last[publisher] = n
	}
	for _, s := range r.sent {
		if len(s.reply) > 0 {
			r.checkAnswers(s, at[string(s.payload)])
		}
	}
	for to, answers := range r.m.answers {
		if s := r.m.sent[strings.TrimPrefix(to, "_INBOX.")]; string(s.reply) != to {
			r.t.Errorf("nobody waits on %q for %v", to, answers)
		}
	}
}

func (r *run) checkAnswers(s frame, at int) {
	answers := r.m.answers[string(s.reply)]
	if len(answers) != 1 {
		if len(answers) > 1 || !r.excused[string(s.payload)] && !r.m.lost[string(s.reply)] {
			r.t.Errorf("message %s: got answers %v, want one", s.payload, answers)
		}
		return
	}
	if strings.HasPrefix(answers[0].header, "NATS/1.0 503") {
		if want := string(noResponders(s.subject)); answers[0].header != want || at > 0 {
			r.t.Errorf("message %s: got %q, stored at %d, want %q and not stored", s.payload, answers[0].header, at, want)
		}
		return
	}
	var ack struct {
		Stream    string
		Seq       int
		Duplicate bool
		Error     *struct{}
	}
	if err := json.Unmarshal([]byte(answers[0].payload), &ack); err != nil || ack.Stream != modelStream {
		r.t.Errorf("message %s: got %q, error %v", s.payload, answers[0].payload, err)
		return
	}
	switch {
	case ack.Error != nil:
		if at > 0 {
			r.t.Errorf("message %s: refused with %s and stored at %d", s.payload, answers[0].payload, at)
		}
	case ack.Duplicate:
		id := field(string(s.header), msgIDHeader)
		if id == "" || r.m.ids[id] != ack.Seq || at == ack.Seq {
			r.t.Errorf("message %s with ID %q: got %s, stored at %d", s.payload, id, answers[0].payload, at)
		}
	case ack.Seq != at:
		r.t.Errorf("message %s: got sequence %d, stored at %d", s.payload, ack.Seq, at)
	}
}

// play has a lane go through what is on the tape.
func playLane(t testing.TB, tp tape, total *Stats) {
	m := newModel(t)
	m.maxSize = 1000
	r := &run{t: t, m: m, l: laneOf(m), now: time.Unix(1_000_000, 0), excused: map[string]bool{}, given: map[string]asked{}}
	for len(tp) > 0 && !t.Failed() {
		r.step(&tp)
	}
	r.settle()
	r.check()
	total.Alone.Add(r.l.stats.Alone.Load())
	total.Grouped.Add(r.l.stats.Grouped.Load())
	total.Batches.Add(r.l.stats.Batches.Load())
	total.Fallbacks.Add(r.l.stats.Fallbacks.Load())
	total.Unanswered.Add(r.l.stats.Unanswered.Load())
}

func FuzzLane(f *testing.F) {
	for seed := range uint64(20) {
		f.Add([]byte(tapeOf(seed)))
	}
	f.Fuzz(func(t *testing.T, b []byte) { playLane(t, b, &Stats{}) })
}

func tapeOf(seed uint64) tape {
	r := rand.New(rand.NewPCG(seed, 1))
	tp := make(tape, 40+r.IntN(250))
	for i := range tp {
		tp[i] = byte(r.Uint32())
	}
	return tp
}

func TestLaneKeepsItsPromisesWhateverTheServerDoes(t *testing.T) {
	var total Stats
	for seed := range uint64(2000) {
		if playLane(t, tapeOf(seed), &total); t.Failed() {
			t.Fatalf("with seed %d", seed)
		}
	}
	for what, n := range map[string]*atomic.Uint64{
		"alone": &total.Alone, "grouped": &total.Grouped, "refused batches": &total.Fallbacks, "unanswered": &total.Unanswered,
	} {
		if n.Load() < 100 {
			t.Errorf("%s: got %d, so nothing is known of them", what, n.Load())
		}
	}
}
