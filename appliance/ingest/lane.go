// SPDX-License-Identifier: Apache-2.0

package ingest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"time"
)

const (
	// mostGrouped is the server's own limit of a batch, and mostBytes what one takes
	// of the staging area.
	mostGrouped = 1000
	mostBytes   = 4 << 20
	// mostWaiting and mostWaitingBytes bound what waits in a lane; more is refused
	// with the answer that the server gives when its own queue is full.
	mostWaiting      = 100_000
	mostWaitingBytes = 64 << 20
	// patience is how long a lane waits for the server before it goes on without an
	// answer. An answer that comes later still reaches its publisher, for as long as
	// memory.
	patience = 10 * time.Second
	memory   = 2 * time.Minute
	// firstBackoff and lastBackoff bound how long nothing is grouped after the server
	// refused a batch: at a limit every one would be refused.
	firstBackoff = time.Millisecond
	lastBackoff  = 256 * time.Millisecond
	// headroom is what a message must leave of a size limit to be grouped: the fields
	// of a batch are part of its size.
	headroom = 128
)

// outlet is where a lane sends to.
type outlet interface {
	// forward publishes to the stream, with fields in front of the header's own.
	forward(subject, reply, fields, header, payload []byte)
	// answer publishes to a publisher.
	answer(reply, header, payload []byte)
	// interest reports whether anybody listens to a subject.
	interest(subject []byte) bool
	// unheard reports whether surely nobody but the stream listens to a subject.
	unheard(subject []byte, now time.Time) bool
}

// waiting is a message on its way to the stream.
type waiting struct {
	frame
	traits
}

// asked is what was sent with a reply subject of the lane's own.
type asked struct {
	token  uint64
	at     time.Time
	reply  []byte    // of a message that went alone
	group  []waiting // of a batch
	behind bool      // something was under way when it was sent
}

// lane carries the messages of one stream, in the order in which they came. It has no
// goroutine: its owner calls push for each message, answered for each answer, and
// pump when it has taken in all there is.
type lane struct {
	Lane
	out outlet

	queue []waiting
	bytes int

	alone []asked // messages under way by themselves, oldest first
	batch *asked  // the batch under way
	late  []asked // given up waiting for
	// direct is when a message last went with its publisher's own reply subject: how
	// long it takes is not known.
	direct time.Time

	// After a batch, the publishers that were answered are likely to be back in a
	// moment, and one batch with them costs less than another one for them. So nothing
	// is sent before reunion, unless as many wait as were seen at once.
	reunion time.Time
	reunite int

	token   uint64
	batches uint64
	cost    cost
	backoff time.Duration
	until   time.Time // nothing is grouped before

	stats *Stats
}

func newLane(l Lane, out outlet, stats *Stats) *lane {
	return &lane{Lane: l, out: out, cost: newCost(), stats: stats}
}

// push takes in a message for the stream.
func (l *lane) push(f frame) {
	if len(l.queue) >= mostWaiting || l.bytes+f.size() > mostWaitingBytes {
		l.stats.Refused.Add(1)
		if len(f.reply) > 0 {
			l.out.answer(f.reply, nil, l.tooMany())
		}
		return
	}
	m := waiting{frame: f, traits: examine(f.header)}
	if m.copied {
		m.header = withoutBatch(f.header)
		m.traits = examine(m.header)
	}
	l.queue = append(l.queue, m)
	l.bytes += f.size()
}

// pump sends what can be sent now.
func (l *lane) pump(now time.Time) {
	l.giveUp(now)
	for len(l.queue) > 0 && l.batch == nil {
		if len(l.queue) < l.reunite && now.Before(l.reunion) {
			return
		}
		head := &l.queue[0]
		under := len(l.alone)
		if under == 0 && now.Sub(l.direct) < l.cost.alone {
			under = 1
		}
		if under == 0 && len(l.queue) == 1 || !l.groupable(head, now) {
			l.pass(head, now)
			l.drop(1)
			continue
		}
		run := l.run(now)
		switch least := l.cost.least(); {
		case run+under < least || now.Before(l.until):
			if run+under >= fewest {
				l.cost.passedOver()
			}
			l.sendAlone(head, now)
			l.drop(1)
		case len(l.alone) > 0:
			return // what waits goes together when they are through
		case run < least:
			l.sendAlone(head, now)
			l.drop(1)
		default:
			l.sendBatch(run, now)
		}
	}
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

// run is how many messages at the head of the queue can go together.
func (l *lane) run(now time.Time) int {
	size := 0
	var ids map[string]bool
	for i := range min(len(l.queue), mostGrouped) {
		m := &l.queue[i]
		if size += m.size(); i > 0 && (size > mostBytes || !l.groupable(m, now)) {
			return i
		}
		if m.msgID == nil {
			continue
		}
		if ids[string(m.msgID)] {
			return i // the server refuses a batch with a duplicate in it
		}
		if ids == nil {
			ids = make(map[string]bool)
		}
		ids[string(m.msgID)] = true
	}
	return min(len(l.queue), mostGrouped)
}

// pass sends a message as it is: the stream answers its publisher.
func (l *lane) pass(m *waiting, now time.Time) {
	l.stats.Alone.Add(1)
	if m.ownBatch && !l.OwnBatches {
		// The stream accepts batches for our sake; the configuration does not.
		if len(m.reply) > 0 {
			l.out.answer(m.reply, nil, l.noBatches())
		}
		return
	}
	if len(m.reply) > 0 && !l.out.interest(m.subject) {
		l.out.answer(m.reply, noResponders(m.subject), nil)
		return
	}
	l.out.forward(m.subject, m.reply, nil, m.header, m.payload)
	l.direct = now
}

// sendAlone sends a message by itself and remembers that it is under way.
func (l *lane) sendAlone(m *waiting, now time.Time) {
	l.stats.Alone.Add(1)
	l.token++
	l.alone = append(l.alone, asked{token: l.token, at: now, reply: m.reply, behind: len(l.alone) > 0})
	l.out.forward(m.subject, l.replyTo(l.token), nil, m.header, m.payload)
}

func (l *lane) sendBatch(n int, now time.Time) {
	l.token++
	l.batches++
	group := append([]waiting(nil), l.queue[:n]...)
	id := l.BatchPrefix + strconv.FormatUint(l.batches, 36)
	var fields []byte
	for i := range group {
		m := &group[i]
		fields = append(fields[:0], batchIDHeader+": "...)
		fields = append(fields, id...)
		fields = append(fields, "\r\n"+batchSeqHeader+": "...)
		fields = strconv.AppendInt(fields, int64(i+1), 10)
		var reply []byte
		if i == n-1 {
			fields = append(fields, "\r\n"+batchEndHeader+": 1"...)
			reply = l.replyTo(l.token)
		}
		fields = append(fields, crlf...)
		l.out.forward(m.subject, reply, fields, m.header, m.payload)
	}
	l.batch = &asked{token: l.token, at: now, group: group}
	l.drop(n)
}

// replyTo is the subject on which the lane is answered.
func (l *lane) replyTo(token uint64) []byte {
	b := append([]byte(nil), l.ReplyPrefix...)
	return strconv.AppendUint(b, token, 10)
}

func (l *lane) drop(n int) {
	for i := range n {
		l.bytes -= l.queue[i].size()
		l.queue[i] = waiting{}
	}
	if l.queue = l.queue[n:]; len(l.queue) == 0 {
		l.queue = nil
	}
}

// answered takes in an answer of the server.
func (l *lane) answered(token uint64, f frame, now time.Time) {
	switch {
	case l.batch != nil && l.batch.token == token:
		b := *l.batch
		ours, stored := l.answerGroup(b.group, f)
		if !ours {
			return
		}
		l.batch = nil
		if stored {
			l.cost.batched(len(b.group), now.Sub(b.at))
			l.reunite, l.reunion = len(b.group)+len(l.queue), now.Add(l.cost.fixed*2/3)
			l.backoff = 0
			return
		}
		l.backoff = min(max(2*l.backoff, firstBackoff), lastBackoff)
		l.until = now.Add(l.backoff)
		l.stats.Fallbacks.Add(1)
		// Nothing of it was stored. Each message is the server's to judge now, and all
		// of them come before what arrived since.
		for i := range b.group {
			l.sendAlone(&b.group[i], now)
		}
	default:
		if a, ok := take(&l.alone, token); ok {
			l.cost.one(a, now)
			l.answerOne(a, f)
		} else if a, ok := take(&l.late, token); ok {
			if a.group == nil {
				l.answerOne(a, f)
			} else {
				// What was refused is not sent again so late: its publishers have given up.
				l.answerGroup(a.group, f)
			}
		}
	}
}

func take(list *[]asked, token uint64) (asked, bool) {
	for i, a := range *list {
		if a.token != token {
			continue
		}
		if i == 0 { // as good as always: a stream answers in order
			*list = (*list)[1:]
		} else {
			*list = append((*list)[:i], (*list)[i+1:]...)
		}
		return a, true
	}
	return asked{}, false
}

func (l *lane) answerOne(a asked, f frame) {
	if len(a.reply) > 0 {
		l.out.answer(a.reply, f.header, f.payload)
	}
}

// answerGroup gives every publisher of a batch its own acknowledgement. ours is false
// for what is no answer of the stream; stored when the server refused the batch, and
// then nobody was answered.
func (l *lane) answerGroup(group []waiting, f frame) (ours, stored bool) {
	if bytes.HasPrefix(f.header, noRespondersStart) {
		for i := range group {
			if len(group[i].reply) > 0 {
				l.out.answer(group[i].reply, noResponders(group[i].subject), nil)
			}
		}
		return true, true
	}
	var ack struct {
		Error  *struct{} `json:"error"`
		Stream string    `json:"stream"`
		Seq    uint64    `json:"seq"`
		Count  int       `json:"count"`
	}
	head, _, ok := bytes.Cut(f.payload, []byte(`"seq":`))
	if err := json.Unmarshal(f.payload, &ack); err != nil || !ok || ack.Stream != l.Stream {
		return false, false
	}
	if ack.Error != nil || ack.Count != len(group) || ack.Seq < uint64(len(group)) {
		return true, false
	}
	l.stats.Grouped.Add(uint64(len(group)))
	l.stats.Batches.Add(1)
	text := make([]byte, 0, len(head)+32)
	for i := range group {
		if len(group[i].reply) == 0 {
			continue
		}
		text = append(append(text[:0], head...), `"seq":`...)
		text = strconv.AppendUint(text, ack.Seq-uint64(len(group)-1-i), 10)
		l.out.answer(group[i].reply, nil, append(text, '}'))
	}
	return true, true
}

// giveUp stops waiting for answers that are overdue: a stream that can't write gives
// none at all.
func (l *lane) giveUp(now time.Time) {
	if l.batch != nil && now.Sub(l.batch.at) > patience {
		l.late, l.batch = append(l.late, *l.batch), nil
		l.stats.Unanswered.Add(1)
	}
	for len(l.alone) > 0 && now.Sub(l.alone[0].at) > patience {
		l.late, l.alone = append(l.late, l.alone[0]), l.alone[1:]
		l.stats.Unanswered.Add(1)
	}
	for len(l.late) > 0 && (now.Sub(l.late[0].at) > memory || len(l.late) > mostWaiting) {
		l.late = l.late[1:]
	}
}

// next is when the lane has something to send although nothing arrives; zero for never.
func (l *lane) next() time.Time {
	if len(l.queue) == 0 || l.batch != nil || len(l.alone) > 0 {
		return time.Time{}
	}
	return l.reunion
}

// busy reports whether the lane has something to do, sooner or later.
func (l *lane) busy() bool {
	return len(l.queue) > 0 || l.batch != nil || len(l.alone) > 0 || len(l.late) > 0
}

var noRespondersStart = []byte("NATS/1.0 503")

// noResponders, tooMany and noBatches are what the server itself says.
func noResponders(subject []byte) []byte {
	return fmt.Appendf(nil, "%s\r\nNats-Subject: %s\r\n\r\n", noRespondersStart, subject)
}

func (l *lane) tooMany() []byte {
	return fmt.Appendf(nil, `{"error":{"code":429,"err_code":10167,"description":"too many requests"},"stream":%q,"seq":0}`, l.Stream)
}

func (l *lane) noBatches() []byte {
	return fmt.Appendf(nil, `{"error":{"code":400,"err_code":10174,"description":"atomic publish is disabled"},"stream":%q,"seq":0}`, l.Stream)
}
