// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"sync"
)

// ackState is how far a worker has come with the acknowledgement of a message.
type ackState int

const (
	// ackSent: the node may have it, and may have removed the message.
	ackSent ackState = iota + 1
	// ackConfirmed: the node has said that it has it.
	ackConfirmed
)

// delivery is a message as a consumer's metadata describe it.
type delivery struct {
	consumer uint64 // the consumer's own sequence: the order in which the server sent
	stream   uint64
	num      uint64 // 1 the first time
}

// ledger is what clients of one stream and its consumer know for sure. It
// outlives the node, which is why it is the judge's evidence.
type ledger struct {
	name  string
	queue bool // an acknowledged message is removed

	mu    sync.Mutex
	sent  map[string]uint64 // message id → checksum, before it is published
	acked map[uint64]string // sequence → message id, from a PubAck
	seen  map[uint64]string // sequence → message id, from a delivery
	done  map[uint64]ackState
	group map[uint64]bool // sequences that went in a batch of group commit
	top   uint64          // highest sequence in a PubAck or a delivery

	observations int // messages that were read from one node's own copy

	// Since the last start; of three nodes, there is none:
	base       uint64 // the stream's last sequence at the start
	deliveries []delivery
	after      map[uint64]bool // delivered
	again      map[uint64]bool // delivered although its acknowledgement was confirmed
	findings   []finding       // seen while recording
}

func newLedger(name string, queue bool) *ledger {
	return &ledger{
		name: name, queue: queue,
		sent: map[string]uint64{}, acked: map[uint64]string{}, seen: map[uint64]string{}, done: map[uint64]ackState{}, group: map[uint64]bool{},
		after: map[uint64]bool{}, again: map[uint64]bool{},
	}
}

// publishing is called before a message leaves, or leaves again.
func (l *ledger) publishing(id string, sum uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent[id] = sum
}

// published records a PubAck.
func (l *ledger) published(id string, seq uint64, duplicate bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if have, ok := l.acked[seq]; ok && have != id {
		l.find(reused, seq, fmt.Sprintf("acknowledged to %s, was acknowledged to %s", id, have))
	}
	// A duplicate is the message itself, whose first answer the cut swallowed.
	if !duplicate && seq <= l.base {
		l.find(reused, seq, fmt.Sprintf("acknowledged to %s as new, the stream was at %d", id, l.base))
	}
	l.acked[seq] = id
	l.top = max(l.top, seq)
}

// delivered records a message that a consumer was given.
func (l *ledger) delivered(d delivery, id string, sum uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if want, ok := l.sent[id]; !ok || want != sum {
		l.find(changed, d.stream, fmt.Sprintf("delivered as %s with another content", id))
	}
	if have, ok := l.seen[d.stream]; ok && have != id {
		l.find(reused, d.stream, fmt.Sprintf("delivered as %s, was delivered as %s", id, have))
	}
	if l.done[d.stream] == ackConfirmed {
		l.again[d.stream] = true
	}
	l.seen[d.stream] = id
	l.after[d.stream] = true
	l.deliveries = append(l.deliveries, d)
	l.top = max(l.top, d.stream)
}

// observed records a message that was read from one node's own copy.
func (l *ledger) observed(seq uint64, id string, sum uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if want, ok := l.sent[id]; !ok || want != sum {
		l.find(changed, seq, fmt.Sprintf("read as %s with another content", id))
	}
	for _, before := range []map[uint64]string{l.acked, l.seen} {
		if have, ok := before[seq]; ok && have != id {
			l.find(reused, seq, fmt.Sprintf("read as %s, was %s", id, have))
		}
	}
	l.seen[seq] = id
	l.top = max(l.top, seq)
	l.observations++
}

// alone records a PubAck of a node that had nobody to agree with.
func (l *ledger) alone(id string, seq uint64, node string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.find(minority, seq, fmt.Sprintf("%s was acknowledged by %s, which could not reach the others", id, node))
}

// highest is the highest sequence that anybody has seen.
func (l *ledger) highest() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.top
}

func (l *ledger) timesObserved() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.observations
}

// noted are the findings since it was asked last.
func (l *ledger) noted() []finding {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := l.findings
	l.findings = nil
	return out
}

// acknowledging is called before a worker's acknowledgement leaves.
func (l *ledger) acknowledging(seq uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.done[seq] == 0 {
		l.done[seq] = ackSent
	}
}

// acknowledged records that the node has confirmed an acknowledgement.
func (l *ledger) acknowledged(seq uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.done[seq] = ackConfirmed
}

// batched records messages that were seen to have gone in a batch of group commit.
func (l *ledger) batched(seqs ...uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, seq := range seqs {
		l.group[seq] = true
	}
}

// grouped is how many of the PubAcks are for messages that went in batches.
func (l *ledger) grouped() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for seq := range l.acked {
		if l.group[seq] {
			n++
		}
	}
	return n
}

// restarted begins what is counted since the last start.
func (l *ledger) restarted(last uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.base = last
	l.deliveries, l.findings = nil, nil
	clear(l.after)
	clear(l.again)
}

// counts are what a progress line shows: PubAcks, confirmed acknowledgements
// of workers, and those of the latter that were delivered again.
func (l *ledger) counts() (acked, confirmed, again int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.done {
		if s == ackConfirmed {
			confirmed++
		}
	}
	return len(l.acked), confirmed, len(l.again)
}

// find needs mu.
func (l *ledger) find(k kind, seq uint64, what string) {
	l.findings = append(l.findings, finding{kind: k, stream: l.name, seq: seq, what: what})
}
