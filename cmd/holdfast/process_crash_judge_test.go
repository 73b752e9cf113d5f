// SPDX-License-Identifier: Apache-2.0

//go:build process && linux

package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/nats-io/nats.go/jetstream"
)

// crashBook is what clients know for sure.
type crashBook struct {
	mu      sync.Mutex
	sent    map[string]string // id → text
	streams map[string]*crashLog
}

// crashLog is what clients know of one stream, by sequence.
type crashLog struct {
	acked   map[uint64]string // id, by PubAck
	seen    map[uint64]string // id, by a delivery
	acking  map[uint64]bool   // a worker has sent an acknowledgement
	done    map[uint64]bool   // and the node has said that it has it
	batched map[uint64]bool
	top     uint64

	// Since the last start.
	deliveries []crashDelivery
	count      int
	faults     []string
}

// crashDelivery is a first delivery, as the consumer counts.
type crashDelivery struct{ consumer, stream uint64 }

func newCrashBook() *crashBook {
	b := &crashBook{sent: map[string]string{}, streams: map[string]*crashLog{}}
	for _, name := range []string{"ORDERS", "JOBS"} {
		b.streams[name] = &crashLog{
			acked: map[uint64]string{}, seen: map[uint64]string{}, acking: map[uint64]bool{},
			done: map[uint64]bool{}, batched: map[uint64]bool{},
		}
	}
	return b
}

func (b *crashBook) publishing(m crashMessage) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sent[m.id] = m.text
}

func (b *crashBook) published(ack *jetstream.PubAck, id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.streams[ack.Stream]
	if have, ok := l.acked[ack.Sequence]; ok && have != id {
		l.fault("%d acknowledged to %s, was acknowledged to %s", ack.Sequence, id, have)
	}
	l.acked[ack.Sequence] = id
	l.top = max(l.top, ack.Sequence)
}

func (l *crashLog) fault(format string, args ...any) {
	l.faults = append(l.faults, fmt.Sprintf(format, args...))
}

// delivered takes down a message that a worker was given.
func (b *crashBook) delivered(stream string, m jetstream.Msg) bool {
	meta, err := m.Metadata()
	if err != nil {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	l, seq, id := b.streams[stream], meta.Sequence.Stream, m.Headers().Get(jetstream.MsgIDHeader)
	if b.sent[id] != string(m.Data()) {
		l.fault("%d delivered as %s with another content", seq, id)
	}
	for _, before := range []map[uint64]string{l.seen, l.acked} {
		if have, ok := before[seq]; ok && have != id {
			l.fault("%d delivered as %s, was %s", seq, id, have)
		}
	}
	if inBatch(m.Headers().Get("Nats-Batch-Id")) {
		l.batched[seq] = true
	}
	l.seen[seq] = id
	l.top = max(l.top, seq)
	l.count++
	if meta.NumDelivered == 1 {
		l.deliveries = append(l.deliveries, crashDelivery{meta.Sequence.Consumer, seq})
	}
	return true
}

func inBatch(id string) bool { return strings.HasPrefix(id, "_hf-") }

func (b *crashBook) acking(stream string, m jetstream.Msg) {
	b.mark(m, b.streams[stream].acking)
}

func (b *crashBook) acknowledged(stream string, m jetstream.Msg) {
	b.mark(m, b.streams[stream].done)
}

func (b *crashBook) mark(m jetstream.Msg, what map[uint64]bool) {
	meta, err := m.Metadata()
	if err != nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	what[meta.Sequence.Stream] = true
}

func (b *crashBook) counts() (acked, batched, delivered, done int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, l := range b.streams {
		acked += len(l.acked)
		for seq := range l.acked {
			if l.batched[seq] {
				batched++
			}
		}
		delivered += l.count
		done += len(l.done)
	}
	return acked, batched, delivered, done
}

// judge compares what the node holds with the book.
func (c *crash) judge() {
	c.t.Helper()
	s := newCrashSession(c)
	defer s.js.Conn().Close()
	for _, name := range []string{"ORDERS", "JOBS"} {
		last, held := c.book.read(c, s.js, name)
		for i, fault := range c.book.judge(name, last, held) {
			if i == 10 {
				c.t.Errorf("%s after kill %d: and more", name, c.kills)
				break
			}
			c.t.Errorf("%s after kill %d: %s", name, c.kills, fault)
		}
	}
}

// crashStored is a message as the stream holds it.
type crashStored struct{ id, text string }

// read reads all that a stream holds without a consumer: a work queue has no room for
// another one.
func (b *crashBook) read(c *crash, js jetstream.JetStream, stream string) (last uint64, held map[uint64]crashStored) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	st, err := js.Stream(ctx, stream)
	if err != nil {
		c.t.Fatal(err)
	}
	state, nc := st.CachedInfo().State, js.Conn()
	inbox := nc.NewInbox()
	sub, err := nc.SubscribeSync(inbox)
	if err != nil {
		c.t.Fatal(err)
	}
	held = map[uint64]crashStored{}
	for next, end := state.FirstSeq, state.Msgs == 0; !end; {
		request, err := json.Marshal(map[string]any{"seq": next, "batch": 1000, "max_bytes": 4 << 20})
		if err != nil {
			c.t.Fatal(err)
		}
		if err := nc.PublishRequest("$JS.API.DIRECT.GET."+stream, inbox, request); err != nil {
			c.t.Fatal(err)
		}
		for end = true; ; end = false {
			m, err := sub.NextMsgWithContext(ctx)
			if err != nil {
				c.t.Fatalf("read %s from %d: %v", stream, next, err)
			}
			if m.Header.Get("Status") != "" {
				break
			}
			seq, err := strconv.ParseUint(m.Header.Get(jetstream.SequenceHeader), 10, 64)
			if err != nil {
				c.t.Fatal(err)
			}
			held[seq], next = crashStored{m.Header.Get(jetstream.MsgIDHeader), string(m.Data)}, seq+1
			if inBatch(m.Header.Get("Nats-Batch-Id")) {
				b.mu.Lock()
				b.streams[stream].batched[seq] = true
				b.mu.Unlock()
			}
		}
	}
	return state.LastSeq, held
}

// judge returns what must not be, and begins what is counted since the last start.
func (b *crashBook) judge(stream string, last uint64, held map[uint64]crashStored) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.streams[stream]
	if last < l.top {
		l.fault("got last sequence %d, want at least %d, which was acknowledged or delivered", last, l.top)
	}
	for _, seq := range slices.Sorted(maps.Keys(l.acked)) {
		m, ok := held[seq]
		switch {
		case ok && m.id != l.acked[seq]:
			l.fault("got %s at %d, want %s", m.id, seq, l.acked[seq])
		case !ok && (stream == "ORDERS" || !l.acking[seq]):
			l.fault("got nothing at %d, want %s, which was acknowledged", seq, l.acked[seq])
		}
	}
	at := map[string]uint64{}
	for _, seq := range slices.Sorted(maps.Keys(held)) {
		m := held[seq]
		if m.text != b.sent[m.id] {
			l.fault("got %s at %d damaged", m.id, seq)
		}
		if other, ok := at[m.id]; ok {
			l.fault("got %s at %d and at %d, want it once", m.id, other, seq)
		}
		at[m.id] = seq
	}
	slices.SortFunc(l.deliveries, func(x, y crashDelivery) int { return cmp.Compare(x.consumer, y.consumer) })
	for i, d := range l.deliveries {
		if i > 0 && d.stream <= l.deliveries[i-1].stream {
			l.fault("got %d delivered as new after %d", d.stream, l.deliveries[i-1].stream)
		}
	}
	faults := l.faults
	l.deliveries, l.faults = nil, nil
	return faults
}

// judgeDelivered: every acknowledged message of the empty queue reached a worker.
func (b *crashBook) judgeDelivered(c *crash) {
	c.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.streams["JOBS"]
	for seq, id := range l.acked {
		if l.seen[seq] == "" {
			c.t.Errorf("got %s at %d neither stored nor delivered, want one of them", id, seq)
		}
	}
}
