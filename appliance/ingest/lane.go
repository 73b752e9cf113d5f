// SPDX-License-Identifier: Apache-2.0

package ingest

import (
	"bytes"
	"slices"
	"strconv"
	"time"
)

const (
	// mostGrouped is the server's own limit of a batch, and mostBytes what one takes
	// of the staging area.
	mostGrouped = 1000
	mostBytes   = 4 << 20
	// patience is how long a lane waits for the server before it goes on without an
	// answer. An answer that comes later still reaches its publisher, for as long as
	// memory.
	patience = 10 * time.Second
	memory   = 2 * time.Minute
	// firstBackoff and lastBackoff bound how long nothing is grouped after the server
	// refused a batch: at a limit every one would be refused.
	firstBackoff = time.Millisecond
	lastBackoff  = 256 * time.Millisecond
	// longestReunion and lull bound how long a batch stays open for publishers that were
	// just answered, and for the next of them, in parts of what a batch costs.
	longestReunion = 4
	lull           = 1
	// probeEvery is how many messages go alone from one probe to the next.
	probeEvery = 16
	// handful is how many messages are handed to the server at once, which saves it from
	// waking for each.
	handful = 16
	// headroom is what a message must leave of a size limit to be grouped: the fields
	// of a batch are part of its size.
	headroom = 128
)

// asked is what was sent with a reply subject of the lane's own.
type asked struct {
	token uint64
	at    time.Time
	// Of a message that went alone: itself, and how many had come before it.
	msg   waiting
	after uint64
	group []waiting // of a batch
}

// lane carries the messages of one stream, in the order in which they came. It has no
// goroutine: its owner calls push for each message, answered for each answer, and
// pump when it has taken in all there is.
type lane struct {
	inbound

	// Messages that go alone are answered by the stream itself. Every now and then one
	// is a probe, which the lane is answered for: as many publishers wait as messages
	// come while it is under way.
	probe      *asked
	sinceProbe int

	// grouping is true as long as there is enough to group. Messages then go into the
	// open batch, a handful at a time.
	grouping bool
	open     group
	batch    *asked // the batch that is being committed

	late  []asked   // given up waiting for
	ended time.Time // nothing more is to come since; zero while it is wanted

	// After a batch, the publishers that were answered are likely to be back in a
	// moment, and one batch with them costs less than another one for them. So the open
	// batch is committed when reunite messages are in it, or at reunion.
	reunion time.Time
	longest time.Time // reunion is not put off beyond
	reunite int

	token   uint64
	batches uint64
	cost    cost
	backoff time.Duration
	until   time.Time // nothing is grouped before
}

func newLane(l Lane, out outlet, stats *Stats) *lane {
	return &lane{inbound: inbound{Lane: l, out: out, stats: stats}, cost: newCost()}
}

// push takes in a message for the stream.
func (l *lane) push(f frame, now time.Time) {
	if !l.admit(f) {
		return
	}
	if l.reunion = now.Add(l.cost.fixed / lull); l.reunion.After(l.longest) {
		l.reunion = l.longest
	}
}

// pump sends what can be sent now.
func (l *lane) pump(now time.Time) {
	l.giveUp(now)
	for len(l.queue) > 0 && !l.gathering(now) {
		if !l.grouping {
			l.oneByOne(now)
		} else if !l.fill(now) {
			break
		}
	}
	if len(l.open.msgs) > 0 && l.batch == nil && (len(l.open.msgs) >= l.reunite || !now.Before(l.reunion)) {
		l.commit(now)
	}
}

// gathering reports whether it is better to wait for more messages of a batch.
func (l *lane) gathering(now time.Time) bool {
	if !l.grouping || len(l.queue) >= handful && l.batch == nil || len(l.queue) > mostGrouped {
		return false
	}
	if l.batch != nil {
		return true
	}
	return len(l.open.msgs)+len(l.queue) < l.reunite && now.Before(l.reunion)
}

// fill puts the head of the queue into the open batch. It reports false when that has to
// wait.
func (l *lane) fill(now time.Time) bool {
	head := &l.queue[0]
	fits := l.groupable(head, now)
	if fits && l.open.takes(head) {
		l.join(head)
		l.drop(1)
		return true
	}
	if len(l.open.msgs) > 0 {
		// What is in it came before.
		if l.batch == nil {
			l.commit(now)
		}
		return false
	}
	if l.batch != nil {
		return false
	}
	l.pass(head)
	l.drop(1)
	return true
}

// oneByOne sends the head of the queue by itself, or begins to group.
func (l *lane) oneByOne(now time.Time) {
	head := &l.queue[0]
	least := l.cost.least()
	if len(l.queue) >= least && !now.Before(l.until) && l.run(least, now) {
		l.grouping, l.reunite = true, least
		return
	}
	if l.sinceProbe++; l.sinceProbe >= probeEvery && l.probe == nil && len(head.reply) > 0 && l.groupable(head, now) {
		l.sinceProbe = 0
		l.token++
		l.probe = &asked{token: l.token, at: now, msg: *head, after: l.came - uint64(len(l.queue))}
		l.stats.Alone.Add(1)
		l.out.forward(head.subject, l.replyTo(l.token), nil, head.header, head.payload)
	} else {
		l.pass(head)
	}
	l.drop(1)
}

// probed learns from the answer to a probe.
func (l *lane) probed(p asked, now time.Time) {
	n := max(int(l.came-p.after), 1)
	l.cost.one(now.Sub(p.at) / time.Duration(n))
	switch {
	case n < fewest || now.Before(l.until):
	case n < l.cost.least():
		l.cost.passedOver()
	default:
		l.grouping = true
		l.gather(n, now)
	}
}

// gather keeps the next batch open for n messages.
func (l *lane) gather(n int, now time.Time) {
	l.reunite, l.reunion, l.longest = n, now.Add(l.cost.fixed/lull), now.Add(longestReunion*l.cost.fixed)
}

// groupable reports whether a message means the same in a batch.
func (l *lane) groupable(m *waiting, now time.Time) bool {
	if m.alone || m.ownBatch {
		return false
	}
	size := len(m.header) + len(m.payload) + headroom
	if size > l.MaxMsgSize || size > l.MaxPayload {
		return false
	}
	// $FI ends the reply subject of a fast ingest batch, which carries its meaning.
	if bytes.HasSuffix(m.reply, []byte(".$FI")) {
		return false
	}
	// Other subscribers must see the message as it is, with its publisher's reply.
	return l.out.unheard(m.subject, now)
}

// run reports whether the first n messages of the queue can go together.
func (l *lane) run(n int, now time.Time) bool {
	for i := range n {
		if !l.groupable(&l.queue[i], now) {
			return false
		}
	}
	return true
}

// replyTo is the subject on which the lane is answered.
func (l *lane) replyTo(token uint64) []byte {
	b := append([]byte(nil), l.ReplyPrefix...)
	return strconv.AppendUint(b, token, 10)
}

// answered takes in an answer of the server.
func (l *lane) answered(token uint64, f frame, now time.Time) {
	switch {
	case l.batch != nil && l.batch.token == token:
		l.committed(f, now)
	case l.probe != nil && l.probe.token == token:
		p := *l.probe
		l.probe = nil
		l.answerOne(p.msg, f)
		l.probed(p, now)
	default:
		i := slices.IndexFunc(l.late, func(a asked) bool { return a.token == token })
		if i < 0 {
			return
		}
		if a := l.late[i]; a.group == nil {
			l.answerOne(a.msg, f)
		} else if ours, _ := l.answerGroup(a.group, f); !ours {
			return
		}
		// What was refused is not sent again so late: its publishers have given up.
		l.late = slices.Delete(l.late, i, i+1)
	}
}

// giveUp stops waiting for answers that are overdue: a stream that can't write gives
// none at all.
func (l *lane) giveUp(now time.Time) {
	if l.batch != nil && now.Sub(l.batch.at) > patience {
		l.late, l.batch = append(l.late, *l.batch), nil
		l.stats.Unanswered.Add(1)
		l.disband(now)
	}
	if l.probe != nil && now.Sub(l.probe.at) > patience {
		l.late, l.probe = append(l.late, *l.probe), nil
		l.stats.Unanswered.Add(1)
	}
	for len(l.late) > 0 && (now.Sub(l.late[0].at) > memory || len(l.late) > mostWaiting) {
		l.late = l.late[1:]
	}
}

// release passes on everything that waits: the lane ends.
func (l *lane) release(now time.Time) {
	l.disband(now)
	for i := range l.queue {
		l.pass(&l.queue[i])
	}
	l.queue, l.bytes = nil, 0
}

// next is when the lane has something to send although nothing arrives; zero for never.
func (l *lane) next() time.Time {
	if len(l.open.msgs) == 0 && (!l.grouping || len(l.queue) == 0) || l.batch != nil {
		return time.Time{}
	}
	return l.reunion
}

// busy reports whether the lane has something to do, sooner or later.
func (l *lane) busy() bool {
	return len(l.queue) > 0 || len(l.open.msgs) > 0 || l.batch != nil || l.probe != nil || len(l.late) > 0
}
