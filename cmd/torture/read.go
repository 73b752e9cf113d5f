// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// readBatch is how many messages are asked for at once.
const readBatch = 512

// readBack reads all that a stream holds, without a consumer: a work queue has
// no room for another one.
func readBack(ctx context.Context, s *session, stream string, seed maphash.Seed) (holding, error) {
	h := holding{messages: map[uint64]stored{}}
	st, err := s.js.Stream(ctx, stream)
	if isGone(err) {
		return h, nil
	} else if err != nil {
		return h, fmt.Errorf("ask for stream %q: %w", stream, err)
	}
	state := st.CachedInfo().State
	h.last, h.count, h.bytes = state.LastSeq, state.Msgs, int64(state.Bytes)
	for next := state.FirstSeq; next <= state.LastSeq && state.Msgs > 0; {
		last, err := h.readFrom(ctx, s, stream, next, seed, askLimit)
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

// readFrom reads one batch and returns its last sequence, or 0 when there was nothing.
func (h *holding) readFrom(ctx context.Context, s *session, stream string, from uint64, seed maphash.Seed, limit time.Duration) (last uint64, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("read stream %q from %d: %w", stream, from, err)
		}
	}()
	inbox := s.nc.NewRespInbox()
	sub, err := s.nc.SubscribeSync(inbox)
	if err != nil {
		return 0, err
	}
	defer func() { _ = sub.Unsubscribe() }() // the connection may be gone
	request, err := json.Marshal(map[string]any{"seq": from, "batch": readBatch, "max_bytes": 4 << 20})
	if err != nil {
		return 0, err
	}
	if err := s.nc.PublishRequest("$JS.API.DIRECT.GET."+stream, inbox, request); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return h.takeBatch(ctx, sub, seed)
}

// takeBatch reads to the end of one answer and returns its last sequence, or 0
// when there was nothing.
func (h *holding) takeBatch(ctx context.Context, sub *nats.Subscription, seed maphash.Seed) (last uint64, err error) {
	for {
		m, err := sub.NextMsgWithContext(ctx)
		if err != nil {
			return 0, err
		}
		switch status := m.Header.Get("Status"); status {
		case "":
		case "204", "404": // end of the batch; nothing from there on
			return last, nil
		default:
			return 0, errors.New(status + " " + m.Header.Get("Description"))
		}
		if last, err = strconv.ParseUint(m.Header.Get(jetstream.SequenceHeader), 10, 64); err != nil {
			return 0, fmt.Errorf("read sequence: %w", err)
		}
		if inBatch(m.Header) {
			h.batched = append(h.batched, last)
		}
		h.messages[last] = stored{m.Header.Get(jetstream.MsgIDHeader), maphash.Bytes(seed, m.Data)}
	}
}

// inBatch says that a message went in a batch of group commit, not alone.
func inBatch(h nats.Header) bool {
	return strings.HasPrefix(h.Get("Nats-Batch-Id"), "_hf-")
}
