// SPDX-License-Identifier: Apache-2.0

package ingest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// world is a model of a work queue and its consumer as the server keeps them, around the
// acks under test: what the tests in cmd/bench/acks found, in memory and with a clock of
// its own. It fails the test as soon as a message goes that nobody acknowledged.
type world struct {
	testing.TB
	acks *acks
	now  time.Time

	// The stream. life counts how often it was made.
	life   int
	born   time.Time
	first  uint64
	last   uint64
	stored map[uint64]bool
	acked  map[uint64]bool // a worker acknowledged this message of this life
	gone   bool

	// The consumer.
	made      time.Time
	lost      bool // there is no consumer
	most      int
	delivered uint64
	pending   map[uint64]bool
	again     []uint64 // to be redelivered
	asleep    bool     // max_ack_pending has stopped it

	// What the server has not worked off: acknowledgements and requests in two queues,
	// as they take different ways inside of it, and its answers on their way.
	toConsumer []*sent
	toAPI      []request
	answers    []reply

	mode     apiMode // of the next request
	hands    []message
	history  []message
	sent     map[string]*sent
	sequence int
}

// message is one that a worker has.
type message struct {
	seq  uint64
	life int
	at   time.Time
}

// sent is an acknowledgement on its way from a worker.
type sent struct {
	message
	subject, payload, reply, header string
	plain                           bool
	forwarded, answered             int
}

type request struct {
	api   string
	token uint64
	body  string
	mode  apiMode
}

type reply struct {
	token uint64
	body  string
	ofAPI string
}

// apiMode is what happens to a request.
type apiMode int

const (
	works  apiMode = iota
	fails          // with an error
	drops          // neither done nor answered
	mute           // done and not answered
	modesN         // how many there are
)

func newWorld(t testing.TB, most int, filter string) *world {
	w := &world{TB: t, now: time.Unix(1_800_000_000, 0).UTC(), most: most, sent: make(map[string]*sent)}
	w.acks = newAcks(Lane{Stream: "S", Consumer: "C", PurgeFilter: filter, ReplyPrefix: "re."}, w, &Stats{})
	w.recreate()
	return w
}

func (w *world) tick() { w.now = w.now.Add(time.Microsecond) }

// recreate makes the stream again: the same sequences, none of the messages.
func (w *world) recreate() {
	w.tick()
	w.life++
	w.born, w.first, w.last, w.gone = w.now, 1, 0, false
	w.stored, w.acked = make(map[uint64]bool), make(map[uint64]bool)
	w.tick()
	w.recreateConsumer()
}

func (w *world) recreateConsumer() {
	w.tick()
	w.made, w.lost, w.delivered, w.again, w.asleep = w.now, false, w.first-1, nil, false
	w.pending = make(map[uint64]bool)
}

func (w *world) publish(n int) {
	for range n {
		w.tick()
		w.last++
		w.stored[w.last] = true
	}
	w.asleep = false
}

// deliver hands up to n messages to workers.
func (w *world) deliver(n int) {
	for ; n > 0 && !w.gone && !w.lost; n-- {
		w.tick()
		var seq uint64
		if len(w.again) > 0 {
			seq, w.again = w.again[0], w.again[1:]
			if !w.stored[seq] {
				delete(w.pending, seq)
				continue
			}
		} else {
			if w.asleep || w.most > 0 && len(w.pending) >= w.most {
				w.asleep = true
				return
			}
			if seq = max(w.delivered+1, w.first); seq > w.last {
				return
			}
			w.delivered = seq
			if !w.stored[seq] {
				continue
			}
		}
		w.pending[seq] = true
		// The subject of an acknowledgement has the time at which its message was stored.
		m := message{seq, w.life, w.born.Add(time.Duration(seq))}
		w.hands, w.history = append(w.hands, m), append(w.history, m)
	}
}

// take takes a message out of a worker's hands.
func (w *world) take(i int) message {
	m := w.hands[i]
	w.hands = slices.Delete(w.hands, i, i+1)
	return m
}

// send has a worker send an acknowledgement. genuine ones are for a message that it got.
func (w *world) send(m message, payload, header string, double, genuine bool) {
	w.tick()
	w.sequence++
	s := &sent{message: m, payload: payload, header: header}
	s.subject = fmt.Sprintf("S.C.1.%d.%d.%d.0", m.seq, w.sequence, m.at.UnixNano())
	s.plain = payload == "" || payload == "+ACK" || payload == "+OK"
	if double {
		s.reply = "inbox." + strconv.Itoa(w.sequence)
	}
	ends := s.plain || strings.HasPrefix(payload, "+TERM") || strings.HasPrefix(payload, "+NXT")
	if genuine && ends && m.life == w.life {
		w.acked[m.seq] = true
	}
	w.pushed(s)
}

func (w *world) pushed(s *sent) {
	w.sent[s.subject] = s
	w.acks.push(frame{subject: []byte(s.subject), reply: []byte(s.reply), header: []byte(s.header), payload: []byte(s.payload)}, w.now)
}

// pump is what a session does after each read.
func (w *world) pump() {
	w.Helper()
	if w.acks.busy() {
		w.acks.pump(w.now)
	}
	// With one that has passed nothing more would be read.
	if d := w.acks.due(); w.acks.busy() && !d.IsZero() && !d.After(w.now) {
		w.Fatalf("due: got %s before now, want a time to come", w.now.Sub(d))
	}
}

// elapse lets time go by as a session does.
func (w *world) elapse(d time.Duration) {
	w.Helper()
	for end := w.now.Add(d); w.now.Before(end); {
		next := w.now.Add(tickEvery)
		if due := w.acks.due(); w.acks.busy() && !due.IsZero() && due.Before(next) {
			next = due
		}
		if next.After(end) {
			next = end
		}
		w.now = next
		w.pump()
	}
}

func (w *world) forward(subject, to, fields, header, payload []byte) {
	w.Helper()
	text, ok := strings.CutPrefix(string(subject), ackPrefix)
	s := w.sent[text]
	if !ok || s == nil || len(fields) > 0 {
		w.Fatalf("forwarded %s, want only what came", subject)
	}
	if s.forwarded++; s.forwarded > 1 || s.answered > 0 {
		w.Fatalf("%s: got it forwarded %d times and answered %d times, want one of them once", text, s.forwarded, s.answered)
	}
	if s.reply != string(to) || s.header != string(header) || !s.plain && s.payload != string(payload) || s.plain && len(payload) > len(s.payload) {
		w.Fatalf("%s: forwarded with %q %q %q, want it as it came", text, to, header, payload)
	}
	w.toConsumer = append(w.toConsumer, s)
}

func (w *world) answer(to, header, payload []byte) {
	w.Helper()
	for _, s := range w.sent {
		if s.reply != string(to) {
			continue
		}
		s.answered++
		if s.answered > 1 || s.forwarded > 0 {
			w.Fatalf("%s: answered %d times and forwarded %d times, want one of them once", s.subject, s.answered, s.forwarded)
		}
		if s.life == w.life && w.stored[s.seq] {
			w.Fatalf("%s: answered while its message is stored", s.subject)
		}
		if len(header)+len(payload) > 0 {
			w.Fatalf("%s: answered with %q %q, want nothing in it", s.subject, header, payload)
		}
		return
	}
	w.Fatalf("answered %s, which nobody waits for", to)
}

func (w *world) request(api string, to, payload []byte) {
	w.Helper()
	r := request{api: api, body: string(payload), mode: w.mode}
	w.mode = works
	if bytes.HasPrefix(to, []byte(wakePrefix)) {
		r.mode = works
	} else {
		var err error
		if r.token, err = strconv.ParseUint(strings.TrimPrefix(string(to), "re."), 10, 64); err != nil {
			w.Fatalf("reply subject %q: %v", to, err)
		}
	}
	w.toAPI = append(w.toAPI, r)
}

func (w *world) interest([]byte) bool           { return true }
func (w *world) unheard([]byte, time.Time) bool { return true }

// serveAck has the consumer work off an acknowledgement.
func (w *world) serveAck() {
	if len(w.toConsumer) == 0 {
		return
	}
	w.tick()
	s := w.toConsumer[0]
	w.toConsumer = w.toConsumer[1:]
	seq, _, ok := messageOf([]byte(s.subject))
	if !ok || w.gone || w.lost || seq > w.delivered {
		return
	}
	switch {
	case s.plain, strings.HasPrefix(s.payload, "+TERM"), strings.HasPrefix(s.payload, "+NXT"):
		if w.pending[seq] && w.most > 0 && len(w.pending) >= w.most {
			w.asleep = false
		}
		delete(w.pending, seq)
		w.again = slices.DeleteFunc(w.again, func(a uint64) bool { return a == seq })
		w.remove(seq)
	case strings.HasPrefix(s.payload, "-NAK"):
		w.redeliver(seq)
	}
}

func (w *world) redeliver(seq uint64) {
	if w.pending[seq] && !slices.Contains(w.again, seq) {
		w.again, w.asleep = append(w.again, seq), false
	}
}

func (w *world) remove(seq uint64) {
	delete(w.stored, seq)
	for w.first <= w.last && !w.stored[w.first] {
		w.first++
	}
}

// serveAPI has the server work off a request.
func (w *world) serveAPI() {
	w.Helper()
	if len(w.toAPI) == 0 {
		return
	}
	w.tick()
	r := w.toAPI[0]
	w.toAPI = w.toAPI[1:]
	body := ""
	switch {
	case r.mode == drops:
		return
	case w.gone, r.mode == fails:
		body = `{"error":{"code":404,"err_code":10059,"description":"stream not found"}}`
	case r.api == "STREAM.INFO.S":
		body = fmt.Sprintf(`{"created":%q,"state":{"first_seq":%d,"last_seq":%d}}`, w.born.Format(time.RFC3339Nano), w.first, w.last)
	case strings.HasPrefix(r.api, "CONSUMER.") && w.lost:
		body = `{"error":{"code":404,"err_code":10014,"description":"consumer not found"}}`
	case r.api == "CONSUMER.INFO.S.C":
		body = fmt.Sprintf(`{"created":%q,"delivered":{"stream_seq":%d},"num_ack_pending":%d,"config":{"max_ack_pending":%d}}`,
			w.made.Format(time.RFC3339Nano), w.delivered, len(w.pending), w.most)
	case r.api == "CONSUMER.MSG.NEXT.S.C":
		w.asleep = false
		return
	case r.api == "STREAM.PURGE.S":
		body = fmt.Sprintf(`{"success":true,"purged":%d}`, w.purge(r.body))
	default:
		w.Fatalf("request %q, want one that the model knows", r.api)
	}
	if r.mode != mute {
		w.answers = append(w.answers, reply{r.token, body, r.api})
	}
}

func (w *world) purge(body string) (n int) {
	w.Helper()
	var p struct {
		Filter string
		Seq    uint64
	}
	if err := json.Unmarshal([]byte(body), &p); err != nil || p.Filter != w.acks.PurgeFilter || p.Seq == 0 || p.Seq > w.last+1 {
		w.Fatalf("purge %s: %v, want a sequence up to %d and filter %q", body, err, w.last+1, w.acks.PurgeFilter)
	}
	for seq := w.first; seq < p.Seq; seq++ {
		if !w.stored[seq] {
			continue
		}
		if !w.acked[seq] {
			w.Fatalf("purge %s took message %d of life %d, which nobody acknowledged", body, seq, w.life)
		}
		w.remove(seq)
		n++
	}
	for seq := range w.pending {
		if seq < p.Seq {
			delete(w.pending, seq)
		}
	}
	w.again = nil // what was in it waits for ack_wait
	w.delivered = max(w.delivered, p.Seq-1)
	return n
}

// serveAnswer has the oldest answer arrive.
func (w *world) serveAnswer() {
	w.Helper()
	if len(w.answers) == 0 {
		return
	}
	w.tick()
	r := w.answers[0]
	w.answers = w.answers[1:]
	w.acks.answered(r.token, frame{payload: []byte(r.body)}, w.now)
	w.pump()
}

// settle has everything arrive that is on its way.
func (w *world) settle() {
	w.Helper()
	for len(w.toConsumer)+len(w.toAPI)+len(w.answers) > 0 {
		w.serveAck()
		w.serveAPI()
		w.serveAnswer()
	}
	w.pump()
}

// replaceable reports whether no purge may be under way: nothing guards that moment.
func (w *world) replaceable() bool {
	info := func(api string) bool { return strings.HasPrefix(api, "CONSUMER.INFO.") }
	return !slices.ContainsFunc(w.toAPI, func(r request) bool { return strings.HasPrefix(r.api, "STREAM.PURGE.") }) &&
		!slices.ContainsFunc(w.answers, func(r reply) bool { return info(r.ofAPI) })
}

// finish has the workers acknowledge all there is, and looks at what became of everything.
func (w *world) finish() {
	w.Helper()
	w.mode = works
	w.settle()
	w.elapse(2 * patience)
	if w.settle(); w.gone {
		w.recreate()
	}
	if w.lost {
		w.recreateConsumer()
	}
	for round := 0; len(w.stored) > 0; round++ {
		if round > 100+int(w.last) {
			w.Fatalf("got %d messages left of %d, %d pending, asleep %v, want none", len(w.stored), w.last, len(w.pending), w.asleep)
		}
		w.deliver(100)
		for len(w.hands) > 0 {
			w.send(w.take(0), "", "", false, true)
		}
		w.settle()
		w.elapse(holdFor)
		if w.settle(); len(w.acks.held) > 0 {
			w.elapse(stragglerAfter + holdLongest)
			w.settle()
		}
		if w.asleep && len(w.pending) < w.most {
			w.Fatalf("got a consumer asleep with %d of %d pending, want it awake", len(w.pending), w.most)
		}
		// Those that no worker has any more run out of time.
		w.expire()
	}
	w.elapse(2 * time.Second)
	w.settle()
	w.elapse(time.Second)
	w.accounted()
}

// expire has ack_wait run out for all that was delivered, and be delivered again what was
// given up.
func (w *world) expire() {
	w.again = nil
	for seq := w.first; seq <= min(w.last, w.delivered); seq++ {
		if w.stored[seq] {
			w.pending[seq], w.again, w.asleep = true, append(w.again, seq), false
		}
	}
}

// accounted reports what is unaccounted for when all is done.
func (w *world) accounted() {
	w.Helper()
	a := w.acks
	if len(a.held) > 0 || a.asks != nothing || a.stuck || a.urgent || len(a.passed) > 0 {
		w.Errorf("got %d held, asks %d, stuck %v, urgent %v, passed %d, want nothing left", len(a.held), a.asks, a.stuck, a.urgent, len(a.passed))
	}
	w.answered()
}

// answered reports acknowledgements that nothing came of.
func (w *world) answered() {
	w.Helper()
	for _, s := range w.sent {
		switch {
		case s.forwarded == 1:
		case !s.plain:
			w.Errorf("%s %q: not forwarded", s.subject, s.payload)
		case s.reply != "" && s.answered != 1:
			w.Errorf("%s: neither forwarded nor answered", s.subject)
		case s.life == w.life && w.stored[s.seq]:
			w.Errorf("%s: neither forwarded nor its message purged", s.subject)
		}
	}
}
