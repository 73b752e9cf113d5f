// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/holdfast-mq/holdfast/cmd/internal/trio"
)

// judgeCopies compares what the nodes hold of one stream.
func judgeCopies(stream string, names []string, copies []holding) []finding {
	var out []finding
	find := func(seq uint64, format string, args ...any) {
		out = append(out, finding{kind: unequal, stream: stream, seq: seq, what: fmt.Sprintf(format, args...)})
	}
	for i := 1; i < len(copies); i++ {
		a, b := copies[0], copies[i]
		if a.last != b.last || a.count != b.count || a.first != b.first {
			find(0, "%s holds %d messages from %d to %d, %s %d from %d to %d", names[0], a.count, a.first, a.last, names[i], b.count, b.first, b.last)
		}
		for _, seq := range slices.Sorted(maps.Keys(a.messages)) {
			switch m, ok := b.messages[seq]; {
			case !ok:
				find(seq, "%s is on %s and not on %s", a.messages[seq].id, names[0], names[i])
			case m != a.messages[seq]:
				find(seq, "is %s on %s and %s on %s", a.messages[seq].id, names[0], m.id, names[i])
			}
		}
		for _, seq := range slices.Sorted(maps.Keys(b.messages)) {
			if _, ok := a.messages[seq]; !ok {
				find(seq, "%s is on %s and not on %s", b.messages[seq].id, names[i], names[0])
			}
		}
	}
	return out
}

// ownState is a stream's state as the node itself counts it.
func (m *member) ownState(ctx context.Context, stream string) (holding, error) {
	h := holding{messages: map[uint64]stored{}}
	text, err := m.Ask(ctx, "/jsz?accounts=true&streams=true")
	if err != nil {
		return h, err
	}
	var page struct {
		Accounts []struct {
			Streams []struct {
				Name  string                `json:"name"`
				State jetstream.StreamState `json:"state"`
			} `json:"stream_detail"`
		} `json:"account_details"`
	}
	if err := json.Unmarshal(text, &page); err != nil {
		return h, fmt.Errorf("read the state of %s: %w", m.Name, err)
	}
	for _, a := range page.Accounts {
		for _, s := range a.Streams {
			if s.Name == stream {
				h.first, h.last, h.count, h.bytes = s.State.FirstSeq, s.State.LastSeq, s.State.Msgs, int64(s.State.Bytes)
				return h, nil
			}
		}
	}
	return h, fmt.Errorf("read the state of %s: it has no stream %q", m.Name, stream)
}

// nearCopy reads a node's copy through a client of that node, which answers itself.
func (t *trial) nearCopy(ctx context.Context, node int, stream string) (holding, error) {
	h, err := t.members[node].ownState(ctx, stream)
	if err != nil {
		return h, err
	}
	for next := h.first; next <= h.last && h.count > 0; {
		last, err := h.readFrom(ctx, t.observers[node], stream, next, t.seed, askLimit)
		if err != nil {
			return h, err
		}
		if last < next {
			break
		}
		next = last + 1
	}
	return h, nil
}

// ledCopy makes a node the stream's leader and reads from that: nobody else answers.
func (t *trial) ledCopy(ctx context.Context, node int, stream string) (holding, error) {
	m := t.members[node]
	if err := t.lead(ctx, stream, m.Name); err != nil {
		return holding{}, err
	}
	h, err := m.ownState(ctx, stream)
	if err != nil || h.count == 0 {
		return h, err
	}
	// Some at once: one after the other takes long.
	const readers = 8
	var reading sync.WaitGroup
	var mu sync.Mutex
	next := h.first
	for range readers {
		reading.Go(func() {
			for {
				mu.Lock()
				seq := next
				next++
				stop := seq > h.last || err != nil
				mu.Unlock()
				if stop {
					return
				}
				got, ok, one := readOne(ctx, t.own.nc, stream, seq, t.seed)
				mu.Lock()
				if one != nil {
					err = errors.Join(err, one)
				} else if ok {
					h.messages[seq] = got
				}
				mu.Unlock()
			}
		})
	}
	reading.Wait()
	if err != nil {
		return h, err
	}
	// Who led may have changed meanwhile.
	if leader := t.leader(ctx, stream); leader != m.Name {
		return h, fmt.Errorf("read stream %q from %s: %q leads now", stream, m.Name, leader)
	}
	return h, nil
}

func readOne(ctx context.Context, nc *nats.Conn, stream string, seq uint64, seed maphash.Seed) (m stored, ok bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	answer, err := nc.RequestWithContext(ctx, "$JS.API.STREAM.MSG.GET."+stream, fmt.Appendf(nil, `{"seq":%d}`, seq))
	if err != nil {
		return m, false, fmt.Errorf("read message %d of %q: %w", seq, stream, err)
	}
	var got struct {
		Error   *jetstream.APIError `json:"error"`
		Message struct {
			Header []byte `json:"hdrs"`
			Data   []byte `json:"data"`
		} `json:"message"`
	}
	switch err := json.Unmarshal(answer.Data, &got); {
	case err != nil:
		return m, false, fmt.Errorf("read message %d of %q: %w", seq, stream, err)
	case got.Error != nil && got.Error.ErrorCode == jetstream.JSErrCodeMessageNotFound:
		return m, false, nil
	case got.Error != nil:
		return m, false, fmt.Errorf("read message %d of %q: %w", seq, stream, got.Error)
	}
	header, err := nats.DecodeHeadersMsg(got.Message.Header)
	if err != nil {
		return m, false, fmt.Errorf("read message %d of %q: %w", seq, stream, err)
	}
	return stored{header.Get(jetstream.MsgIDHeader), maphash.Bytes(seed, got.Message.Data)}, true, nil
}

// leader is who leads a stream now; "" when nobody says so.
func (t *trial) leader(ctx context.Context, stream string) string {
	st, err := t.own.stream(ctx, stream)
	if err != nil || st.CachedInfo().Cluster == nil {
		return ""
	}
	return st.CachedInfo().Cluster.Leader
}

// lead makes a node the leader of a stream.
func (t *trial) lead(ctx context.Context, stream, node string) error {
	ctx, cancel := context.WithTimeout(ctx, wholeLimit)
	defer cancel()
	// Seldom enough that an election comes to its end in between.
	for asks := 0; t.leader(ctx, stream) != node; asks++ {
		if asks%20 == 0 {
			// What it answers does not matter: who leads is asked for.
			_, _ = t.own.nc.RequestWithContext(ctx, "$JS.API.STREAM.LEADER.STEPDOWN."+stream, fmt.Appendf(nil, `{"placement":{"preferred":%q}}`, node))
		}
		if !waitFor(ctx, 10*pause) {
			return fmt.Errorf("make %s the leader of stream %q: %w", node, stream, ctx.Err())
		}
	}
	return nil
}

// whole is nil when every node has everything and says so.
func (t *trial) whole(ctx context.Context) error {
	for _, m := range t.members {
		if err := m.ready(ctx); err != nil {
			return err
		}
	}
	for stream, durable := range map[string]string{limitsStream: limitsDurable, queueStream: queueDurable} {
		st, err := t.own.stream(ctx, stream)
		if err != nil {
			return fmt.Errorf("ask for stream %q: %w", stream, err)
		}
		if err := trio.Whole("stream "+stream, st.CachedInfo().Cluster); err != nil {
			return err
		}
		c, err := t.own.consumer(ctx, stream, durable)
		if err != nil {
			return fmt.Errorf("ask for consumer %q: %w", durable, err)
		}
		if err := trio.Whole("consumer "+durable, c.CachedInfo().Cluster); err != nil {
			return err
		}
	}
	return nil
}
