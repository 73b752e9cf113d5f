// SPDX-License-Identifier: Apache-2.0

package acks

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// park lets max_deliver give up messages 3 and 5 of five; the others are acknowledged.
func park(t *testing.T) (*queue, []jetstream.Msg) {
	q := newQueue(t, "", nil, jetstream.ConsumerConfig{AckWait: 200 * time.Millisecond, MaxDeliver: 1})
	advisories := q.answers("$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.>")
	q.publish(5)
	ms := q.fetch(5)
	for _, i := range []int{0, 1, 3} {
		if err := ms[i].DoubleAck(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if _, err := advisories.NextMsg(10 * time.Second); err != nil {
			t.Fatalf("wait for max_deliver: %v", err)
		}
	}
	q.storedIs(5, 3, 5)
	return q, ms
}

func TestLateAcknowledgementRemovesWhatMaxDeliverGaveUp(t *testing.T) {
	for name, c := range map[string]struct {
		send func(jetstream.Msg) error
		left []uint64
	}{
		"ack":  {jetstream.Msg.Ack, []uint64{5}},
		"term": {jetstream.Msg.Term, []uint64{5}},
		"nak":  {jetstream.Msg.Nak, []uint64{3, 5}},
	} {
		t.Run(name, func(t *testing.T) {
			q, ms := park(t)
			if err := c.send(ms[2]); err != nil {
				t.Fatal(err)
			}
			q.storedIs(5, c.left...)
		})
	}
}

// Why the prefix is one of what is stored, not of what the consumer has floor or
// delivered for.
func TestPurgeTakesWhatMaxDeliverGaveUp(t *testing.T) {
	both(t, func(t *testing.T, filter string) {
		q, _ := park(t)
		q.publish(2)
		q.fetch(2)
		q.purge(filter, 7)
		q.storedIs(7, 7)
	})
}

func TestHeldAcknowledgementIsGoodAfterAckWait(t *testing.T) {
	both(t, func(t *testing.T, filter string) {
		q := newQueue(t, "", nil, jetstream.ConsumerConfig{AckWait: 200 * time.Millisecond})
		q.publish(4)
		q.fetch(4)
		again := q.fetch(2) // 3 and 4 wait for somebody to ask
		if _, deliveries := sequence(t, again[0]); deliveries != 2 {
			t.Fatalf("got delivery %d, want 2", deliveries)
		}
		q.purge(filter, 5)
		if p := q.position(); p.AckPending != 0 || p.Pending != 0 || p.Floor.Stream != 4 {
			t.Errorf("got %+v, want all acknowledged", p)
		}
		if err := again[1].DoubleAck(t.Context()); err != nil {
			t.Errorf("acknowledgement of the second delivery: got %v, want an answer", err)
		}
	})
}

func TestDoubleAckIsAnsweredAfterTheRemoval(t *testing.T) {
	q := newQueue(t, "", nil, jetstream.ConsumerConfig{})
	q.publish(20)
	for _, m := range q.fetch(20) {
		if err := m.DoubleAck(t.Context()); err != nil {
			t.Fatal(err)
		}
		seq, _ := sequence(t, m)
		if _, err := q.s.GetMsg(t.Context(), seq); err == nil {
			t.Errorf("message %d: still stored when the answer came", seq)
		}
	}
}

// forwarded has every acknowledgement go through a client, and returns a way to ask what
// that client has seen.
func forwarded(q *queue, in string) func(n int) []string {
	seen := make(chan string, 100)
	relay := connect(q.T, q.nc.ConnectedUrl())
	_, err := relay.Subscribe(in+">", func(m *nats.Msg) {
		seen <- strings.TrimSpace(string(m.Data))
		_ = relay.PublishMsg(&nats.Msg{Subject: forward + "$JS.ACK." + strings.TrimPrefix(m.Subject, in), Reply: m.Reply, Header: m.Header, Data: m.Data})
	})
	if err != nil {
		q.Fatal(err)
	}
	if err := relay.Flush(); err != nil {
		q.Fatal(err)
	}
	return func(n int) []string {
		var out []string
		for range n {
			select {
			case s := <-seen:
				out = append(out, s)
			case <-time.After(10 * time.Second):
				q.Fatalf("got %q, want %d acknowledgements", out, n)
			}
		}
		return out
	}
}

func TestMappedAcknowledgementsWorkInBothFormats(t *testing.T) {
	for name, c := range map[string]struct {
		from, to, in string
		flags        map[string]bool
	}{
		"v1": {"$JS.ACK.S.C.>", "_hf.ack.S.C.>", "_hf.ack.", nil},
		"v2": {"$JS.ACK.*.*.S.C.>", "_hf.ackv2.{{wildcard(1)}}.{{wildcard(2)}}.S.C.>", "_hf.ackv2.", map[string]bool{"js_ack_fc_v2": true}},
	} {
		t.Run(name, func(t *testing.T) {
			q := newQueue(t, fmt.Sprintf("%q: %q, %q: \">\"", c.from, c.to, forward+">"), c.flags, jetstream.ConsumerConfig{AckWait: time.Minute})
			seen := forwarded(q, c.in)
			q.publish(9)
			ms := q.fetch(8)
			for _, send := range []func() error{
				ms[0].Ack, func() error { return ms[1].DoubleAck(t.Context()) }, ms[2].Nak,
				func() error { return ms[3].NakWithDelay(time.Hour) }, ms[4].Term,
				func() error { return ms[5].TermWithReason("bad") }, ms[6].InProgress,
			} {
				if err := send(); err != nil {
					t.Fatal(err)
				}
			}
			next := q.answers("in.next")
			if err := q.nc.PublishRequest(ms[7].Reply(), "in.next", []byte("+NXT")); err != nil {
				t.Fatal(err)
			}
			// The nakked message comes first.
			if m, err := next.NextMsg(10 * time.Second); err != nil || !strings.Contains(m.Reply, ".S.C.2.3.") {
				t.Errorf("next: got %v, %v, want message 3 for the second time", m, err)
			}
			want := []string{"+ACK", "+ACK", "-NAK", `-NAK {"delay": 3600000000000}`, "+TERM", "+TERM bad", "+WPI", "+NXT"}
			if diff := cmp.Diff(want, seen(len(want))); diff != "" {
				t.Errorf("acknowledgements (-want +got):\n%s", diff)
			}
			q.storedIs(9, 3, 4, 7, 9)
		})
	}
}
