// SPDX-License-Identifier: Apache-2.0

package acks

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

const (
	// holdFor and holdMost say when the prefix is removed.
	holdFor  = 5 * time.Millisecond
	holdMost = 256
	// fewest acknowledged messages are worth a purge; fewer are forwarded.
	fewest = 4
	// stragglerAfter is when an acknowledgement with a gap before it goes its own way.
	stragglerAfter = 50 * time.Millisecond
	// maxAckPending is the server's default, which the consumer has.
	maxAckPending = 1000
	inbound       = 64 << 10
)

// ack is an acknowledgement that is held.
type ack struct {
	subject string // as the worker sent it
	reply   string
	at      time.Time
}

// holder collects the acknowledgements of one consumer without a filter, and removes
// their complete prefix at once. It runs in the process of the load, as a client over TCP.
type holder struct {
	nc     *nats.Conn
	filter string
	// next is the sequence that the prefix waits for.
	next uint64
	held map[uint64]ack
	// passed were forwarded: acknowledged, but no longer held.
	passed map[uint64]bool
	// nakked are the messages that wait to be delivered again: a purge would make them
	// wait for ack_wait instead (facts_test.go).
	nakked map[uint64]bool
	// stuck is set while next does not come: then nothing is gained by holding.
	stuck   bool
	looked  time.Time
	created time.Time
}

// hold runs a holder.
func hold(ctx context.Context, nc *nats.Conn, filter string, fail context.CancelCauseFunc) (func(), error) {
	p, err := askPosition(ctx, nc)
	if err != nil {
		return nil, err
	}
	in := make(chan *nats.Msg, inbound)
	sub, err := nc.ChanSubscribe(held+stream+"."+consumer+".>", in)
	if err != nil {
		return nil, fmt.Errorf("subscribe to acknowledgements: %w", err)
	}
	// Without it a worker could be faster than the subscription.
	if err := nc.Flush(); err != nil {
		return nil, fmt.Errorf("subscribe to acknowledgements: %w", err)
	}
	h := &holder{nc: nc, filter: filter, next: 1, held: map[uint64]ack{}, passed: map[uint64]bool{}, nakked: map[uint64]bool{}, created: p.Created}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := errors.Join(h.run(ctx, in), sub.Unsubscribe()); err != nil && !errors.Is(err, context.Canceled) {
			fail(err)
		}
	}()
	return func() { <-done }, nil
}

func (h *holder) run(ctx context.Context, in <-chan *nats.Msg) error {
	tick := time.NewTicker(holdFor)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case m := <-in:
			if err := h.take(m); err != nil {
				return err
			}
			if len(h.held) < holdMost {
				continue
			}
		case <-tick.C:
		}
		if err := h.settle(ctx); err != nil {
			return err
		}
	}
}

// take holds a plain acknowledgement and forwards all else at once.
func (h *holder) take(m *nats.Msg) error {
	tokens := strings.Split(strings.TrimPrefix(m.Subject, held), ".")
	const sequence = 3 // stream, consumer, deliveries, stream sequence, …
	if len(tokens) <= sequence {
		return fmt.Errorf("read acknowledgement %q: too short", m.Subject)
	}
	seq, err := strconv.ParseUint(tokens[sequence], 10, 64)
	if err != nil {
		return fmt.Errorf("read acknowledgement %q: %w", m.Subject, err)
	}
	a := ack{"$JS.ACK." + strings.Join(tokens, "."), m.Reply, time.Now()}
	switch body := string(m.Data); {
	case body == "" || body == "+ACK" || body == "+OK":
		delete(h.nakked, seq)
		if !h.stuck || seq == h.next {
			h.held[seq] = a
			return nil
		}
		h.passed[seq] = true
	case strings.HasPrefix(body, "-NAK"):
		h.nakked[seq] = true
	case strings.HasPrefix(body, "+TERM"), strings.HasPrefix(body, "+NXT"):
		delete(h.nakked, seq)
		h.passed[seq] = true
	}
	return h.forward(a, m.Data)
}

func (h *holder) forward(a ack, body []byte) error {
	if err := h.nc.PublishMsg(&nats.Msg{Subject: forward + a.subject, Reply: a.reply, Data: body}); err != nil {
		return fmt.Errorf("forward acknowledgement: %w", err)
	}
	return nil
}

// settle removes the prefix, if it is long enough, and forwards who waited too long.
func (h *holder) settle(ctx context.Context) error {
	if len(h.held) == 0 && !h.stuck {
		return nil
	}
	end, own := h.prefix()
	if end == h.next {
		if err := h.stragglers(); err != nil || !h.stuck {
			return err
		}
		return h.look(ctx)
	}
	if own >= fewest && len(h.nakked) == 0 {
		if err := h.remove(ctx, end); err != nil {
			return err
		}
		return h.stragglers()
	}
	for seq := h.next; seq < end; seq++ {
		if a, ok := h.held[seq]; ok {
			if err := h.forward(a, nil); err != nil {
				return err
			}
		}
	}
	h.advance(end)
	return h.stragglers()
}

// look asks whether the message that the prefix waits for exists at all.
func (h *holder) look(ctx context.Context) error {
	if time.Since(h.looked) < stragglerAfter {
		return nil
	}
	first, err := firstSeq(ctx, h.nc)
	if err != nil {
		return err
	}
	h.looked = time.Now()
	h.advance(max(first, h.next))
	return nil
}

// prefix ends before the first message that nobody acknowledged; own of it are held.
func (h *holder) prefix() (end uint64, own int) {
	for end = h.next; ; end++ {
		if _, ok := h.held[end]; ok {
			own++
		} else if !h.passed[end] {
			return end, own
		}
	}
}

// remove purges what lies before end, as one write, and wakes the consumer.
func (h *holder) remove(ctx context.Context, end uint64) error {
	p, err := askPosition(ctx, h.nc)
	if err != nil {
		return err
	}
	if !p.Created.Equal(h.created) || p.Delivered.Stream < end-1 {
		return fmt.Errorf("remove acknowledged messages: consumer of %s with %d delivered is not the one of %s that had %d acknowledged",
			p.Created, p.Delivered.Stream, h.created, end-1)
	}
	if _, err := purge(ctx, h.nc, h.filter, end); err != nil {
		return err
	}
	for seq := h.next; seq < end; seq++ {
		if a := h.held[seq]; a.reply != "" {
			if err := h.nc.Publish(a.reply, nil); err != nil {
				return fmt.Errorf("answer acknowledgement: %w", err)
			}
		}
	}
	h.advance(end)
	// A consumer that max_ack_pending stopped does not notice a purge. A request that no
	// message fits wakes it and takes none; without a subscription it goes away by itself.
	if p.AckPending >= maxAckPending/2 && p.Waiting > 0 {
		wake := []byte(`{"batch":1,"max_bytes":1,"expires":1000000}`)
		if err := h.nc.PublishRequest("$JS.API.CONSUMER.MSG.NEXT."+stream+"."+consumer, nats.NewInbox(), wake); err != nil {
			return fmt.Errorf("wake consumer: %w", err)
		}
	}
	return nil
}

func (h *holder) advance(to uint64) {
	h.stuck = h.stuck && h.next >= to
	for ; h.next < to; h.next++ {
		delete(h.held, h.next)
		delete(h.passed, h.next)
		delete(h.nakked, h.next)
	}
}

func (h *holder) stragglers() error {
	for seq, a := range h.held {
		if time.Since(a.at) < stragglerAfter {
			continue
		}
		if err := h.forward(a, nil); err != nil {
			return err
		}
		delete(h.held, seq)
		h.passed[seq], h.stuck = true, true
	}
	return nil
}
