// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// kind is the rule that a finding breaks.
type kind string

const (
	// lost: acknowledged, not there, and no worker sent an acknowledgement for it.
	lost kind = "lost"
	// changed: there with a content that nobody published under its id.
	changed kind = "changed"
	// reused: a sequence that carries another message than it did.
	reused kind = "reused"
	// twice: one message id at two sequences.
	twice kind = "twice"
	// backwards: the last sequence is below what was acknowledged or delivered,
	// or a consumer was given a new message below one that it had before.
	backwards kind = "backwards"
	// miscounted: the stream gives away another number of messages than it counts.
	miscounted kind = "miscounted"
	// stuck: there and not delivered again in time.
	stuck kind = "stuck"
	// recreated: a stream or a consumer is missing, or is not the one of before.
	recreated kind = "recreated"
	// identity: credentials or the node's name are not those of before.
	identity kind = "identity"
	// unstarted: the node does not come back.
	unstarted kind = "unstarted"

	// Of three nodes:

	// unequal: their copies are not the same.
	unequal kind = "unequal"
	// minority: acknowledged by a node that could not reach the others.
	minority kind = "minority"
	// unavailable: nothing is acknowledged though most nodes are up.
	unavailable kind = "unavailable"
	// partial: a node does not get back what it lacks.
	partial kind = "partial"
)

// finding is one broken rule, at one message where it is about one.
type finding struct {
	kind   kind
	stream string
	seq    uint64
	what   string
}

func (f finding) String() string {
	switch {
	case f.seq > 0:
		return fmt.Sprintf("%s: %s %d: %s", f.kind, f.stream, f.seq, f.what)
	case f.stream != "":
		return fmt.Sprintf("%s: %s: %s", f.kind, f.stream, f.what)
	}
	return fmt.Sprintf("%s: %s", f.kind, f.what)
}

// stored is a message as the stream holds it.
type stored struct {
	id  string
	sum uint64
}

// holding is a stream as it is read back before anything else happens to it.
type holding struct {
	first    uint64 // as one of three nodes counts
	last     uint64
	count    uint64 // as the stream counts
	bytes    int64
	messages map[uint64]stored
	batched  []uint64 // those that went in batches of group commit
}

// judgeStored compares what the stream holds after a cut with what is known.
func (l *ledger) judgeStored(h holding) []finding {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []finding
	find := func(k kind, seq uint64, format string, args ...any) {
		out = append(out, finding{kind: k, stream: l.name, seq: seq, what: fmt.Sprintf(format, args...)})
	}
	if h.last < l.top {
		find(backwards, 0, "last sequence %d, %d was acknowledged or delivered", h.last, l.top)
	}
	if uint64(len(h.messages)) != h.count {
		find(miscounted, 0, "holds %d messages, counts %d", len(h.messages), h.count)
	}
	for _, seq := range slices.Sorted(maps.Keys(l.acked)) {
		if _, ok := h.messages[seq]; !ok && (!l.queue || l.done[seq] == 0) {
			find(lost, seq, "%s", l.acked[seq])
		}
	}
	at := map[string]uint64{}
	for _, seq := range slices.Sorted(maps.Keys(h.messages)) {
		m := h.messages[seq]
		if want, ok := l.sent[m.id]; !ok || want != m.sum {
			find(changed, seq, "holds %q with a content that was never sent", m.id)
		}
		for _, before := range []map[uint64]string{l.acked, l.seen} {
			if id, ok := before[seq]; ok && id != m.id {
				find(reused, seq, "holds %s, was %s", m.id, id)
			}
		}
		if other, ok := at[m.id]; ok {
			find(twice, seq, "%s, also at %d", m.id, other)
		}
		at[m.id] = seq
	}
	return out
}

// undone is how many messages a work queue holds though a worker's acknowledgement of
// them was confirmed: no loss, for they come again, but a worker's word that a cut took.
func (l *ledger) undone(h holding) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for seq := range h.messages {
		if l.queue && l.done[seq] == ackConfirmed {
			n++
		}
	}
	return n
}

// judgeOrder looks at what was delivered since the last start, in the order in
// which the server sent it: deliveries that are the first of their message have
// rising stream sequences. A redelivery may be of any earlier message.
func (l *ledger) judgeOrder() []finding {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := slices.Clone(l.findings)
	slices.SortFunc(l.deliveries, func(a, b delivery) int { return cmp.Compare(a.consumer, b.consumer) })
	var high uint64
	for _, d := range l.deliveries {
		if d.num != 1 {
			continue
		}
		if d.stream <= high {
			out = append(out, finding{kind: backwards, stream: l.name, seq: d.stream, what: fmt.Sprintf("delivered as new after %d", high)})
		}
		high = max(high, d.stream)
	}
	return out
}

// undelivered are the messages that the consumer still has to be given after a
// cut: those there that no worker ever sent an acknowledgement for.
func (l *ledger) undelivered(h holding) []finding {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []finding
	for _, seq := range slices.Sorted(maps.Keys(h.messages)) {
		if l.done[seq] == 0 && !l.after[seq] {
			out = append(out, finding{kind: stuck, stream: l.name, seq: seq, what: "not delivered after the restart"})
		}
	}
	return out
}
