// SPDX-License-Identifier: Apache-2.0

package ingest

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"
)

// burstRun is bursts on a tape. It is their outlet, too, and plays the stream.
type burstRun struct {
	t   testing.TB
	b   *bursts
	now time.Time

	sent     []frame // that were taken in
	went     int     // of them, forwarded or answered with what nobody responds
	unknown  map[string]bool
	marks    []burstMark
	expected map[string][]string // answers, by reply
	got      map[string][]string
	marked   int
	late     int
}

// burstMark is a mark as the stream knows it.
type burstMark struct {
	token uint64
	at    time.Time
	reply string
	times int // answered
}

func (r *burstRun) forward(subject, reply, fields, header, payload []byte) {
	want := r.sent[r.went]
	r.went++
	if !bytes.Equal(payload, want.payload) {
		r.t.Fatalf("got message %q, want %q", payload, want.payload)
	}
	if len(fields) > 0 || !bytes.Equal(subject, want.subject) || !bytes.Equal(header, bareFrame(want)) {
		r.t.Fatalf("message %q: got subject %q, fields %q and header %q", payload, subject, fields, header)
	}
	if bytes.Equal(reply, want.reply) {
		return
	}
	rest, ours := strings.CutPrefix(string(reply), modelReplies)
	token, err := strconv.ParseUint(rest, 10, 64)
	if !ours || err != nil || len(want.reply) == 0 || bytes.HasSuffix(want.reply, []byte(".$FI")) || bytes.Contains(header, []byte(batchIDHeader)) {
		r.t.Fatalf("message %q: got reply %q, want %q", payload, reply, want.reply)
	}
	r.marked++
	r.marks = append(r.marks, burstMark{token: token, at: r.now, reply: string(want.reply)})
}

// bareFrame is the header of a message without what was copied.
func bareFrame(f frame) []byte {
	if !bytes.Contains(f.header, []byte(batchPrefix)) {
		return f.header
	}
	return withoutBatch(f.header)
}

func (r *burstRun) answer(reply, header, payload []byte) {
	text := string(header) + string(payload)
	r.got[string(reply)] = append(r.got[string(reply)], text)
	if r.went < len(r.sent) && bytes.Equal(reply, r.sent[r.went].reply) && r.unknown[string(r.sent[r.went].subject)] && len(payload) == 0 {
		r.expected[string(reply)] = append(r.expected[string(reply)], string(noResponders(r.sent[r.went].subject)))
		r.went++
	}
}

func (r *burstRun) request(api string, _, _ []byte)    { r.t.Fatalf("bursts asked %s", api) }
func (r *burstRun) interest(subject []byte) bool       { return !r.unknown[string(subject)] }
func (r *burstRun) unheard(_ []byte, _ time.Time) bool { return false }
func (r *burstRun) expect(reply string, texts ...string) {
	r.expected[reply] = append(r.expected[reply], texts...)
}
func (r *burstRun) advance(d time.Duration) { r.now = r.now.Add(d) }

func (r *burstRun) push(tp *tape) {
	n := len(r.sent) + len(r.expected)
	header := []string{"", "", "", "X: y", "Nats-Batch-Id: mine\r\nNats-Batch-Sequence: 1", "Nats-Batch-Id: _hf-old\r\nX: z"}[tp.next(6)]
	reply := fmt.Sprint("_INBOX.", n, []string{"", "", "", ".$FI"}[tp.next(4)])
	if tp.next(5) == 0 {
		reply = ""
	}
	f := laneMessage([]string{"a", "b"}[tp.next(2)], reply, header, fmt.Sprint(n))
	if r.b.bytes+f.size() > r.b.Room {
		if reply != "" {
			r.expect(reply, string(r.b.tooMany()))
		} else {
			r.expect(fmt.Sprint("none for ", n))
		}
	} else {
		r.sent = append(r.sent, f)
	}
	r.b.push(f, r.now)
}

// respond answers one of the last marks, some of them again.
func (r *burstRun) respond(tp *tape) {
	if len(r.marks) == 0 {
		return
	}
	m := &r.marks[max(len(r.marks)-1-tp.next(8), 0)]
	if r.now.Sub(m.at) > patience || m.times > 2 {
		return
	}
	m.times++
	if r.now.Sub(m.at) > mostHeldFor {
		r.late++
	}
	text := fmt.Sprint("answer ", m.times)
	r.expect(m.reply, text)
	r.b.answered(m.token, frame{payload: []byte(text)}, r.now)
}

func (r *burstRun) step(tp *tape) {
	switch tp.next(10) {
	case 0, 1, 2:
		for range 1 + tp.next(20) {
			r.push(tp)
		}
	case 3, 4, 5:
		r.respond(tp)
	case 6:
		r.advance(time.Duration(tp.next(256)) * 100 * time.Microsecond)
	case 7:
		switch tp.next(8) {
		case 0:
			r.advance(patience / 3)
		case 1:
			s := []string{"a", "b"}[tp.next(2)]
			r.unknown[s] = !r.unknown[s]
		case 2:
			r.b.release()
		default:
			r.b.answered(uint64(tp.next(256)), frame{payload: []byte("forged")}, r.now)
		}
	case 8:
		r.b.Room = []int{mostWaitingBytes, 500}[tp.next(2)]
	case 9:
		if next := r.b.next(); next.After(r.now) {
			r.now = next
		}
	}
	r.b.pump(r.now)
	if len(r.b.queue) > 0 && !r.b.next().After(r.now) {
		r.t.Fatalf("%d messages wait for a time that was %s ago", len(r.b.queue), r.now.Sub(r.b.next()))
	}
	if got, want := len(r.sent)-r.went, len(r.b.queue); got != want {
		r.t.Fatalf("%d messages did not go, and %d wait", got, want)
	}
}

func playBursts(t testing.TB, tp tape) *burstRun {
	r := &burstRun{t: t, now: time.Unix(1_000_000, 0), unknown: map[string]bool{}, expected: map[string][]string{}, got: map[string][]string{}}
	r.b = newBursts(Lane{Stream: modelStream, Room: mostWaitingBytes, ReplyPrefix: modelReplies}, r, &Stats{})
	for len(tp) > 0 {
		r.step(&tp)
	}
	for range 2 * mostUnderWay {
		if next := r.b.next(); next.After(r.now) {
			r.now = next
		}
		r.b.pump(r.now)
	}
	r.advance(patience + time.Second)
	r.b.pump(r.now)
	r.advance(patience + time.Second)
	r.b.pump(r.now)
	if r.b.busy() || r.b.bytes != 0 || r.went != len(r.sent) {
		t.Errorf("%d of %d messages went, %d bytes are left, busy: %v", r.went, len(r.sent), r.b.bytes, r.b.busy())
	}
	unanswered := uint64(0)
	for _, m := range r.marks {
		if m.times == 0 {
			unanswered++
		}
	}
	if got := r.b.stats.Unanswered.Load(); got != unanswered {
		t.Errorf("unanswered: got %d, want %d", got, unanswered)
	}
	for reply, want := range r.expected {
		if got := r.got[reply]; fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("answers to %s: got %q, want %q", reply, got, want)
		}
	}
	for reply, got := range r.got {
		if len(r.expected[reply]) == 0 {
			t.Errorf("answers to %s: got %q, want none", reply, got)
		}
	}
	return r
}

func FuzzBursts(f *testing.F) {
	for seed := range uint64(20) {
		f.Add([]byte(tapeOf(seed)))
	}
	f.Fuzz(func(t *testing.T, b []byte) { playBursts(t, b) })
}

func TestBurstsKeepTheirPromisesWhateverTheStreamDoes(t *testing.T) {
	marks, late, grouped := 0, 0, uint64(0)
	for seed := range uint64(2000) {
		r := playBursts(t, tapeOf(seed))
		if t.Failed() {
			t.Fatalf("with seed %d", seed)
		}
		marks, late, grouped = marks+r.marked, late+r.late, grouped+r.b.stats.Grouped.Load()
	}
	if marks < 1000 || late < 50 || grouped < 1000 {
		t.Errorf("got %d marks, %d late answers and %d messages in bursts, so nothing is known of them", marks, late, grouped)
	}
}
