// SPDX-License-Identifier: Apache-2.0

package ingest

import (
	"bytes"
	"encoding/json"
	"strconv"
	"time"
)

// group is a batch that is not committed yet. Its messages are with the server.
type group struct {
	id    string
	msgs  []waiting
	bytes int
	ids   map[string]bool // message IDs: the server refuses a batch with a duplicate
}

// takes reports whether there is room for a message.
func (g *group) takes(m *waiting) bool {
	return len(g.msgs) == 0 || len(g.msgs) < mostGrouped && g.bytes+m.size() <= mostBytes && !g.ids[string(m.msgID)]
}

// join hands a message to the server as part of the open batch.
func (l *lane) join(m *waiting) {
	if len(l.open.msgs) == 0 {
		l.batches++
		l.open.id = l.BatchPrefix + strconv.FormatUint(l.batches, 36)
	}
	l.open.msgs = append(l.open.msgs, *m)
	l.open.bytes += m.size()
	if m.msgID != nil {
		if l.open.ids == nil {
			l.open.ids = make(map[string]bool)
		}
		l.open.ids[string(m.msgID)] = true
	}
	l.out.forward(m.subject, nil, l.open.fields(len(l.open.msgs), ""), m.header, m.payload)
}

// fields are the header fields of a message of the batch.
func (g *group) fields(seq int, end string) []byte {
	b := append([]byte(batchIDHeader+": "), g.id...)
	b = append(b, "\r\n"+batchSeqHeader+": "...)
	b = strconv.AppendInt(b, int64(seq), 10)
	if end != "" {
		b = append(b, "\r\n"+batchEndHeader+": "...)
		b = append(b, end...)
	}
	return append(b, crlf...)
}

const (
	// endOfBatch commits a batch without being a message of it.
	endOfBatch = "eob"
	// noEnd is none that the server knows: it forgets the batch.
	noEnd = "0"
)

// commit has the server store the open batch.
func (l *lane) commit(now time.Time) {
	subject := l.unheard(now)
	if subject == nil {
		l.disband(now)
		return
	}
	l.token++
	g := l.open
	l.open = group{}
	l.out.forward(subject, l.replyTo(l.token), g.fields(len(g.msgs)+1, endOfBatch), nil, nil)
	l.batch = &asked{token: l.token, at: now, group: g.msgs}
}

// disband takes the messages of the open batch back into the queue.
func (l *lane) disband(now time.Time) {
	l.grouping = false
	if len(l.open.msgs) == 0 {
		return
	}
	subject := l.unheard(now)
	g := l.open
	l.open = group{}
	if subject != nil { // or the server forgets it after some seconds
		l.out.forward(subject, nil, g.fields(len(g.msgs)+1, noEnd), nil, nil)
	}
	l.queue = append(g.msgs, l.queue...)
	l.bytes += g.bytes
}

// unheard returns a subject of the open batch that nobody else listens to, for its end;
// nil when there is none any more.
func (l *lane) unheard(now time.Time) []byte {
	for i := len(l.open.msgs) - 1; i >= 0; i-- {
		if s := l.open.msgs[i].subject; l.out.unheard(s, now) {
			return s
		}
	}
	return nil
}

// committed takes in the answer to a batch.
func (l *lane) committed(f frame, now time.Time) {
	b := *l.batch
	ours, stored := l.answerGroup(b.group, f)
	if !ours {
		return
	}
	l.batch = nil
	if stored {
		l.cost.batched(len(b.group), now.Sub(b.at))
		l.backoff = 0
		l.grouping = len(b.group) >= l.cost.least() || len(l.open.msgs) > 0
		l.gather(len(b.group)+len(l.open.msgs)+len(l.queue), now)
		return
	}
	l.stats.Fallbacks.Add(1)
	l.backoff = min(max(2*l.backoff, firstBackoff), lastBackoff)
	l.until = now.Add(l.backoff)
	l.disband(now)
	// Nothing of it was stored. Each message is the server's to judge now, and all of
	// them come before what arrived since.
	for i := range b.group {
		l.pass(&b.group[i])
	}
}

// answerGroup gives every publisher of a batch its own acknowledgement. ours is false
// for what is no answer of the stream; stored when the server refused the batch, and
// then nobody was answered.
func (l *lane) answerGroup(group []waiting, f frame) (ours, stored bool) {
	if bytes.HasPrefix(f.header, noRespondersStart) {
		return true, false // the stream takes other subjects now, or is gone
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
