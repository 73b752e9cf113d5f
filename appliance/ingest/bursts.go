// SPDX-License-Identifier: Apache-2.0

package ingest

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"slices"
	"strconv"
	"time"
)

const (
	// mostUnderWay bounds the bursts that nobody has answered yet, when more messages wait
	// than one can have.
	mostUnderWay = 4
	// The next burst waits for the answer to the one before it, but not for longer than
	// holdCycles times what one takes, within these bounds: the leader may be gone.
	holdCycles   = 4
	leastHeldFor = 20 * time.Millisecond
	mostHeldFor  = time.Second
	// firstCycle is what a burst is taken to need before one was seen.
	firstCycle = 5 * time.Millisecond
	// burstLull and burstReunion bound how long a burst is kept open for publishers that
	// were just answered: for the next of them, and for all, in parts of what a burst takes.
	burstLull    = 2
	burstReunion = 1
	// mostPassedOver bounds how many bursts are not kept open after some for which nobody
	// came back.
	mostPassedOver = 8
)

// bursts carries the messages of a replicated stream, each as it came, with its own reply
// subject. It only decides when: one burst after the other, which the leader makes durable
// with one or two entries of its log, where publishers by themselves make it write many
// small ones, each with an fsync on every node. The last message of a burst is a mark, for
// whose answer bursts waits before it passes it on.
//
// It is as a lane in that it has no goroutine.
type bursts struct {
	inbound

	under []mark // bursts under way, the oldest first
	late  []mark // not waited for: given up, or answered, and others may answer, too
	// cycle is how long a burst takes, as a running average.
	cycle time.Duration

	// together is false while no message comes when another one is under way. Messages
	// then pass, and every probeEvery-th is a mark that would show it.
	together  bool
	sinceMark int

	// others are messages that came so soon after a burst was sent that they are not of
	// publishers that it answered. The server may split a burst, and answer the first of it
	// before the mark.
	others int
	// The next burst is sent when reunite messages wait, or at reunion.
	reunite int
	reunion time.Time
	longest time.Time // reunion is not put off beyond
	// passOver is how many bursts are not kept open, passedOver how many were not the last
	// time.
	passOver, passedOver int
}

// mark is a message for whose answer bursts waits.
type mark struct {
	token    uint64
	at       time.Time
	to       waiting // subject and reply of the message, without the rest
	size     int     // messages of its burst
	after    uint64  // messages that had come before it was sent
	answered bool
}

func newBursts(l Lane, out outlet, stats *Stats) *bursts {
	l.OwnBatches = true // the stream says whether it takes batches
	return &bursts{inbound: inbound{Lane: l, out: out, stats: stats}, cycle: firstCycle}
}

// push takes in a message for the stream.
func (b *bursts) push(f frame, now time.Time) {
	if !b.admit(f) {
		return
	}
	b.reunion = earlier(now.Add(b.cycle/burstLull), b.longest)
	if len(b.under) > 0 && now.Before(b.under[0].at.Add(b.cycle/2)) {
		b.others++
	}
}

// pump sends what can be sent now.
func (b *bursts) pump(now time.Time) {
	b.giveUp(now)
	for len(b.queue) > 0 {
		switch {
		case !b.together:
			b.single(now)
		case b.waits(now):
			return
		default:
			b.send(now)
		}
	}
}

// waits reports whether it is better to send nothing now.
func (b *bursts) waits(now time.Time) bool {
	if len(b.queue) >= mostGrouped || b.bytes >= mostBytes {
		return len(b.under) >= mostUnderWay
	}
	return len(b.under) > 0 || b.gathering(now)
}

// gathering reports whether publishers that were just answered are expected back.
func (b *bursts) gathering(now time.Time) bool {
	return len(b.queue) < b.reunite && now.Before(b.reunion)
}

// single sends the head of the queue while there is nothing to go with it.
func (b *bursts) single(now time.Time) {
	b.stats.Alone.Add(1)
	if b.sinceMark++; b.sinceMark >= probeEvery && len(b.under) == 0 && marks(&b.queue[0]) {
		b.sinceMark = 0
		b.mark(now, 1, 0)
	} else {
		b.passAs(&b.queue[0], b.queue[0].reply)
	}
	b.drop(1)
}

// send sends the next burst.
func (b *bursts) send(now time.Time) {
	b.learn()
	n, last, size := 0, -1, 0
	for ; n < len(b.queue) && n < mostGrouped && size < mostBytes; n++ {
		size += b.queue[n].size()
		if marks(&b.queue[n]) {
			last = n
		}
	}
	if n == 1 {
		b.stats.Alone.Add(1)
	} else {
		b.stats.Grouped.Add(uint64(n))
		b.stats.Batches.Add(1)
	}
	for i := range n {
		if i == last {
			b.mark(now, n, i)
		} else {
			b.passAs(&b.queue[i], b.queue[i].reply)
		}
	}
	b.drop(n)
	b.others = len(b.queue)
	b.together = last >= 0 // without a mark nobody says when the next one may go
}

// learn finds out whether publishers come back in time when they are waited for.
func (b *bursts) learn() {
	switch {
	case b.reunite == 0:
	case len(b.queue) >= b.reunite-b.reunite/4:
		b.passedOver = 0
	default:
		b.passedOver = min(max(2*b.passedOver, 1), mostPassedOver)
		b.passOver = b.passedOver
	}
	b.reunite = 0
}

// mark sends message i of the queue as the mark of a burst of n.
func (b *bursts) mark(now time.Time, n, i int) {
	m := mark{token: unguessable(), at: now, size: n, after: b.came - uint64(len(b.queue)-n)}
	m.to.subject, m.to.reply = bytes.Clone(b.queue[i].subject), bytes.Clone(b.queue[i].reply)
	reply := strconv.AppendUint([]byte(b.ReplyPrefix), m.token, 10)
	if b.passAs(&b.queue[i], reply) {
		b.under = append(b.under, m)
	}
}

// marks reports whether bursts can be answered for a message. Whoever listens to its
// subject sees the reply subject, and may answer, too: all answers are passed on.
func marks(m *waiting) bool {
	// $FI ends the reply subject of a fast ingest batch, which carries its meaning.
	return len(m.reply) > 0 && !m.ownBatch && !bytes.HasSuffix(m.reply, []byte(".$FI"))
}

// unguessable returns a number that only those know who see it in a reply subject: who
// could guess it could answer for the stream.
func unguessable() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return binary.LittleEndian.Uint64(b[:])
}

// answered takes in an answer, of the server or of somebody else who listens.
func (b *bursts) answered(token uint64, f frame, now time.Time) {
	is := func(m mark) bool { return m.token == token }
	if i := slices.IndexFunc(b.late, is); i >= 0 {
		b.late[i].answered = true
		b.answerOne(b.late[i].to, f) // it stays, for another answer
		return
	}
	i := slices.IndexFunc(b.under, is)
	if i < 0 {
		return
	}
	m := b.under[i]
	m.answered = true
	b.under = slices.Delete(b.under, i, i+1)
	b.late = append(b.late, m)
	b.answerOne(m.to, f)
	b.cycle = average(b.cycle, now.Sub(m.at))
	b.together = m.size > 1 || b.came > m.after
	if len(b.under) > 0 {
		return
	}
	if b.passOver > 0 {
		b.passOver--
		return
	}
	b.reunite = m.size + b.others
	b.reunion, b.longest = now.Add(b.cycle/burstLull), now.Add(b.cycle/burstReunion)
}

// giveUp stops waiting for answers that are overdue.
func (b *bursts) giveUp(now time.Time) {
	for len(b.under) > 0 && !now.Before(b.under[0].at.Add(b.holdsFor())) {
		b.late = append(b.late, b.under[0])
		b.under = b.under[1:]
		b.cycle = min(b.cycle+b.cycle/weight, mostHeldFor) // or it is just slower than before
	}
	for len(b.late) > 0 && now.Sub(b.late[0].at) > patience {
		b.forget(0)
	}
	for len(b.late) > mostLate {
		// Another answer is less likely than the first one.
		b.forget(max(slices.IndexFunc(b.late, func(m mark) bool { return m.answered }), 0))
	}
}

func (b *bursts) forget(late int) {
	if !b.late[late].answered {
		b.stats.Unanswered.Add(1)
	}
	b.late = slices.Delete(b.late, late, late+1)
}

// mostLate bounds the marks whose further answers are passed on.
const mostLate = 256

func (b *bursts) holdsFor() time.Duration {
	return min(max(holdCycles*b.cycle, leastHeldFor), mostHeldFor)
}

// release passes on everything that waits.
func (b *bursts) release() {
	for i := range b.queue {
		b.pass(&b.queue[i])
	}
	b.queue, b.bytes = nil, 0
}

// next is when there is something to send although nothing arrives; zero for never.
func (b *bursts) next() time.Time {
	switch {
	case len(b.queue) == 0:
		return time.Time{}
	case len(b.under) > 0:
		return b.under[0].at.Add(b.holdsFor())
	default:
		return b.reunion
	}
}

// owes reports whether a publisher waits for what comes to bursts.
func (b *bursts) owes() bool {
	return len(b.queue)+len(b.under) > 0 || slices.ContainsFunc(b.late, func(m mark) bool { return !m.answered })
}

// busy reports whether there is something to do, sooner or later.
func (b *bursts) busy() bool { return len(b.queue)+len(b.under)+len(b.late) > 0 }

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
