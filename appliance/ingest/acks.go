// SPDX-License-Identifier: Apache-2.0

package ingest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"time"
)

const (
	// holdFor is how long an acknowledgement is held at most before its prefix is
	// removed, unless removing takes long: then purgeShare bounds the time spent on it,
	// one part in so many, up to holdLongest: a message is delivered again when ack_wait is
	// over before its prefix is removed.
	holdFor     = 5 * time.Millisecond
	holdLongest = 250 * time.Millisecond
	purgeShare  = 4
	// holdMost is how many are held before they are removed without waiting; of a
	// consumer with a small max_ack_pending half of that.
	holdMost = 256
	// worthHolding is how many must come within holdFor for it to be faster to hold them
	// than to forward each, and worthPurging how many must be removed at once.
	worthHolding = 16
	worthPurging = 8
	// stragglerAfter is when an acknowledgement with a gap before it goes its own way.
	stragglerAfter = 50 * time.Millisecond
	// idleAfter is when nothing is known any more without acknowledgements, so that nobody
	// keeps asking for a message that never comes.
	idleAfter = time.Second
	// mostHeld bounds what is remembered of acknowledgements.
	mostHeld = 100_000
)

// asking is what the keeper of acknowledgements waits for.
type asking int

const (
	nothing  asking = iota
	stream          // where the stream begins
	consumer        // whether the consumer is still the one, and how far it is
	purge
)

// held is an acknowledgement that the server has not got.
type held struct {
	subject []byte
	reply   []byte
	at      time.Time
	stored  int64 // when its message was
}

// acks keeps the acknowledgements of the only consumer of a work queue, which has no
// filter, and removes a complete prefix of acknowledged messages with one purge, where
// the server would remove each with a sync of its own. docs/adr/0008 has the rules.
// What is held is lost with the connection; its messages are delivered again.
type acks struct {
	Lane
	out outlet

	// next is the first sequence that is not known to be gone; 0 while nobody has asked.
	next   uint64
	held   map[uint64]held
	passed map[uint64]int64 // forwarded: acknowledged, and soon gone; when they were stored
	nakked map[uint64]int64 // to be delivered again: a purge would make them wait
	since  time.Time        // something has been held
	urgent bool             // somebody waits for the answer to an acknowledgement

	// holding is true as long as enough come to make it worth it.
	holding bool
	window  time.Time
	inside  int // how many came in the window

	// stuck is true while next does not come: then nothing is gained by holding. behind is
	// when something comes from before next, as of a stream that was made again.
	stuck  bool
	behind bool
	looked time.Time

	asks  asking
	token uint64
	asked time.Time
	end   uint64        // of the purge under way
	rest  time.Duration // between purges

	// The stream and the consumer that the acknowledgements are of: a stream that was made
	// again has the same sequences.
	born    int64     // when the stream was made, in nanoseconds
	created time.Time // of the consumer
	most    int       // max_ack_pending, as it said; 0 while not known, -1 for any number

	stats *Stats
}

func newAcks(l Lane, out outlet, stats *Stats) *acks {
	return &acks{
		Lane: l, out: out, rest: holdFor, stats: stats,
		held: make(map[uint64]held), passed: make(map[uint64]int64), nakked: make(map[uint64]int64),
	}
}

// push takes in an acknowledgement. f.subject is
// "STREAM.CONSUMER.deliveries.sequence.consumer's sequence.time stored.…".
func (a *acks) push(f frame, now time.Time) {
	seq, stored, ok := messageOf(f.subject)
	subject := append([]byte(ackPrefix), f.subject...)
	plain := len(f.payload) == 0 || bytes.Equal(f.payload, []byte("+ACK")) || bytes.Equal(f.payload, []byte("+OK"))
	if !ok || len(f.header) > 0 || stored < a.born {
		a.forward(subject, f)
		return
	}
	if len(a.held)+len(a.passed) > mostHeld {
		a.forget()
	}
	switch {
	case plain:
		delete(a.nakked, seq)
		a.count(now)
		if _, ok := a.held[seq]; ok {
			// Each one is answered, also those that repeat what is held.
			break
		}
		if a.holding && a.next != 0 && seq >= a.next && (!a.stuck || seq == a.next) {
			if len(a.held) == 0 {
				a.since = now
			}
			a.held[seq] = held{subject, f.reply, now, stored}
			a.urgent = a.urgent || len(f.reply) > 0
			return
		}
		a.passed[seq] = stored
		a.behind = a.behind || seq < a.next
	case bytes.HasPrefix(f.payload, []byte("-NAK")):
		// Of more than fit, those that do keep everything from being purged.
		if seq >= a.next && len(a.nakked) < mostHeld {
			a.nakked[seq] = stored
		}
	case bytes.HasPrefix(f.payload, []byte("+TERM")), bytes.HasPrefix(f.payload, []byte("+NXT")):
		delete(a.nakked, seq)
		a.passed[seq] = stored
	}
	a.forward(subject, f)
}

// count finds out whether it is worth holding acknowledgements.
func (a *acks) count(now time.Time) {
	if now.Sub(a.window) > holdFor {
		a.holding = a.inside >= worthHolding && now.Sub(a.window) < 2*holdFor && !a.narrow()
		a.window, a.inside = now, 0
	}
	a.inside++
	if a.inside >= worthHolding && !a.narrow() {
		a.holding = true
	}
}

// narrow reports whether the consumer waits for acknowledgements so soon that none may
// be held.
func (a *acks) narrow() bool { return a.most > 0 && a.most < 4*worthHolding }

// messageOf returns which message an acknowledgement is for, and when that was stored.
func messageOf(subject []byte) (seq uint64, stored int64, ok bool) {
	const sequence, when = 3, 5
	var token []byte
	for i := range when + 1 {
		var more bool
		if token, subject, more = bytes.Cut(subject, []byte(".")); !more {
			return 0, 0, false // the server puts more behind it
		}
		var err error
		switch i {
		case sequence:
			seq, err = strconv.ParseUint(string(token), 10, 64)
		case when:
			stored, err = strconv.ParseInt(string(token), 10, 64)
		}
		if err != nil {
			return 0, 0, false
		}
	}
	return seq, stored, seq > 0
}

func (a *acks) forward(subject []byte, f frame) {
	a.stats.AcksAlone.Add(1)
	a.out.forward(subject, f.reply, nil, f.header, f.payload)
}

// release forwards an acknowledgement that was held.
func (a *acks) release(seq uint64) {
	h := a.held[seq]
	delete(a.held, seq)
	a.passed[seq] = h.stored
	a.stats.AcksAlone.Add(1)
	a.out.forward(h.subject, h.reply, nil, nil, nil)
}

// releaseAll forwards everything that is held: the server knows best.
func (a *acks) releaseAll() {
	for seq := range a.held {
		a.release(seq)
	}
	a.urgent = false
}

// pump sends what can be sent now.
func (a *acks) pump(now time.Time) {
	if a.asks != nothing {
		if now.Sub(a.asked) < patience {
			return
		}
		if a.asks == purge {
			a.wake() // it may have been done all the same
		}
		a.forget()
	}
	if len(a.held) == 0 && now.Sub(a.window) > idleAfter {
		a.forget()
	}
	if a.next == 0 {
		switch {
		case a.holding && a.created.IsZero():
			// Before the stream: when both are made again after either answer, created
			// tells.
			a.ask(consumer, now)
		case a.holding:
			a.ask(stream, now)
		case now.Sub(a.window) > holdFor || a.narrow():
			clear(a.passed) // the stream will begin behind them
		}
		return
	}
	for seq, h := range a.held {
		if now.Sub(h.at) >= stragglerAfter+a.rest && seq != a.next {
			a.release(seq)
			a.stuck = true
		}
	}
	end, own := a.prefix()
	most := holdMost
	if a.most > 0 {
		most = min(most, a.most/2)
	}
	switch {
	case end == a.next:
		if (a.stuck || a.behind) && now.Sub(a.looked) > stragglerAfter {
			a.ask(stream, now)
		}
	case own == 0:
		a.advance(end)
	case own < most && !a.urgent && now.Before(a.since.Add(a.rest)):
	case own < worthPurging || len(a.nakked) > 0:
		for seq := a.next; seq < end; seq++ {
			if _, ok := a.held[seq]; ok {
				a.release(seq)
			}
		}
		a.advance(end)
	default:
		a.ask(consumer, now)
	}
}

// prefix ends before the first message that nobody acknowledged; own of it are held.
func (a *acks) prefix() (end uint64, own int) {
	for end = a.next; ; end++ {
		if _, ok := a.held[end]; ok {
			own++
		} else if _, ok := a.passed[end]; !ok {
			return end, own
		}
	}
}

// advance forgets what lies before to. Acknowledgements of messages that others removed
// are the server's to answer.
func (a *acks) advance(to uint64) {
	if to <= a.next {
		return
	}
	for seq := range a.held {
		if seq < to {
			a.release(seq)
		}
	}
	gone := func(seq uint64, _ int64) bool { return seq < to }
	maps.DeleteFunc(a.passed, gone)
	maps.DeleteFunc(a.nakked, gone)
	a.next, a.stuck = to, false
	a.urgent = false
	for _, h := range a.held {
		a.urgent = a.urgent || len(h.reply) > 0
		if h.at.After(a.since) && len(a.held) > 0 {
			a.since = h.at
		}
	}
}

// forget drops what is known and hands everything over.
func (a *acks) forget() {
	a.asks = nothing
	a.releaseAll()
	a.next, a.born, a.created, a.most = 0, 0, time.Time{}, 0
	a.holding, a.stuck, a.behind = false, false, false
	clear(a.passed)
}

func (a *acks) ask(what asking, now time.Time) {
	a.asks, a.asked = what, now
	a.token++
	reply := strconv.AppendUint(append([]byte(nil), a.ReplyPrefix...), a.token, 10)
	switch what {
	case stream:
		a.looked, a.behind = now, false
		a.out.request("STREAM.INFO."+a.Stream, reply, nil)
	case consumer:
		a.out.request("CONSUMER.INFO."+a.Stream+"."+a.Consumer, reply, nil)
	case purge:
		body := fmt.Appendf(nil, `{"seq":%d}`, a.end)
		if a.PurgeFilter != "" {
			body = fmt.Appendf(nil, `{"filter":%q,"seq":%d}`, a.PurgeFilter, a.end)
		}
		a.out.request("STREAM.PURGE."+a.Stream, reply, body)
	}
}

// answered takes in the server's answer to what was asked.
func (a *acks) answered(token uint64, f frame, now time.Time) {
	if token != a.token || a.asks == nothing {
		return
	}
	what := a.asks
	a.asks = nothing
	var r struct {
		Error   *struct{} `json:"error"`
		Success bool      `json:"success"`
		Created time.Time `json:"created"`
		State   struct {
			First uint64 `json:"first_seq"`
		} `json:"state"`
		Delivered struct {
			Stream uint64 `json:"stream_seq"`
		} `json:"delivered"`
		Config struct {
			MaxAckPending int `json:"max_ack_pending"`
		} `json:"config"`
	}
	if err := json.Unmarshal(f.payload, &r); err != nil || r.Error != nil {
		a.forget()
		return
	}
	switch what {
	case stream:
		switch born := r.Created.UnixNano(); {
		case a.next == 0:
			a.begin(max(r.State.First, 1), born)
		case born != a.born:
			a.forget()
		default:
			a.advance(r.State.First)
		}
	case consumer:
		a.confirmed(r.Created, r.Delivered.Stream, r.Config.MaxAckPending, now)
	case purge:
		if !r.Success {
			a.forget()
			return
		}
		a.purged(now)
	}
}

// begin begins with a stream that was made at born. What came for one before it counts
// for nothing, and what comes for it later is the server's to judge.
func (a *acks) begin(first uint64, born int64) {
	a.next, a.born = first, born
	gone := func(seq uint64, stored int64) bool { return seq < first || stored < born }
	maps.DeleteFunc(a.passed, gone)
	maps.DeleteFunc(a.nakked, gone)
}

// confirmed removes the prefix, if the consumer is still the one that the
// acknowledgements are of: a stream that was made again has the same sequences.
func (a *acks) confirmed(created time.Time, delivered uint64, most int, now time.Time) {
	if a.created.IsZero() {
		a.created = created
	}
	if !created.Equal(a.created) {
		a.forget()
		return
	}
	a.most = most
	if a.holding = a.holding && !a.narrow(); a.next == 0 {
		return // it has just been met
	}
	end, own := a.prefix()
	end = min(end, delivered+1)
	if own == 0 || end <= a.next || len(a.nakked) > 0 {
		// What was not delivered can't be acknowledged: the server's to judge.
		a.releaseAll()
		return
	}
	a.end = end
	a.ask(purge, now)
}

func (a *acks) purged(now time.Time) {
	a.stats.Purges.Add(1)
	for seq, h := range a.held {
		if seq >= a.end {
			continue
		}
		a.stats.AcksGrouped.Add(1)
		if len(h.reply) > 0 {
			a.out.answer(h.reply, nil, nil)
		}
		delete(a.held, seq)
	}
	a.advance(a.end)
	a.rest = min(max(holdFor, purgeShare*now.Sub(a.asked)), holdLongest)
	a.wake()
}

// wake has the consumer look again: one that max_ack_pending has stopped does not notice
// a purge, and it may have been stopped since it was asked. A request that no message
// fits wakes it and takes none.
func (a *acks) wake() {
	if a.most > 0 {
		a.out.request("CONSUMER.MSG.NEXT."+a.Stream+"."+a.Consumer, []byte(wakePrefix+a.Stream), []byte(`{"batch":1,"max_bytes":1,"expires":1000000}`))
	}
}

// due is when acks has something to send although nothing arrives; zero for never.
func (a *acks) due() time.Time {
	if a.asks != nothing || len(a.held) == 0 {
		return time.Time{}
	}
	if _, own := a.prefix(); own > 0 {
		return a.since.Add(a.rest)
	}
	var oldest time.Time
	for _, h := range a.held {
		if oldest.IsZero() || h.at.Before(oldest) {
			oldest = h.at
		}
	}
	return oldest.Add(stragglerAfter + a.rest)
}

func (a *acks) busy() bool {
	return len(a.held)+len(a.passed) > 0 || a.asks != nothing || a.holding && a.next == 0 || a.stuck
}
