// SPDX-License-Identifier: Apache-2.0

package acks

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

func TestPurgeCountsAsAcknowledgementOfWhatIsPending(t *testing.T) {
	both(t, func(t *testing.T, filter string) {
		q := newQueue(t, "", nil, jetstream.ConsumerConfig{})
		q.publish(20)
		q.fetch(10)
		if got := q.purge(filter, 6); got != 5 {
			t.Errorf("purge: got %d messages, want 5", got)
		}
		p := q.position()
		if p.AckPending != 5 || p.Floor.Stream != 5 || p.Delivered.Stream != 10 || p.Pending != 10 {
			t.Errorf("got %+v, want 5 pending acknowledgements, floor 5, 10 delivered, 10 to come", p)
		}
	})
}

func TestPurgeLeavesABlockedConsumerAsleepUntilAPullRequest(t *testing.T) {
	both(t, func(t *testing.T, filter string) {
		q := newQueue(t, "", nil, jetstream.ConsumerConfig{MaxAckPending: 10, AckWait: time.Minute})
		q.publish(50)
		q.fetch(10)
		worker, probe := q.answers("in.worker"), q.answers("in.probe")
		q.pull("in.worker", `{"batch":100,"expires":20000000000}`)
		q.eventually(func() error {
			if p := q.position(); p.Waiting != 1 {
				return fmt.Errorf("got %d waiting requests, want 1", p.Waiting)
			}
			return nil
		})
		q.purge(filter, 6)
		if m, err := worker.NextMsg(300 * time.Millisecond); err == nil {
			t.Fatalf("after the purge: got %s, want silence", m.Reply)
		}
		// With no_wait it is refused before it wakes anybody: the worker waits for more than there is.
		q.pull("in.probe", `{"batch":1,"max_bytes":1,"no_wait":true}`)
		if m, err := probe.NextMsg(5 * time.Second); err != nil || m.Header.Get("Status") != "408" {
			t.Fatalf("probe with no_wait: got %v, %v, want 408", m, err)
		}
		if m, err := worker.NextMsg(300 * time.Millisecond); err == nil {
			t.Fatalf("after the probe with no_wait: got %s, want silence", m.Reply)
		}
		q.pull("in.probe", `{"batch":1,"max_bytes":1,"expires":1000000}`)
		for i := range 5 {
			if _, err := worker.NextMsg(5 * time.Second); err != nil {
				t.Fatalf("message %d after the probe: %v", i+1, err)
			}
		}
		if m, err := probe.NextMsg(5 * time.Second); err != nil || m.Header.Get("Status") == "" || len(m.Reply) > 0 {
			t.Errorf("probe: got %v, %v, want a status and no message", m, err)
		}
		if p := q.position(); p.AckPending != 10 {
			t.Errorf("got %d pending acknowledgements, want 10: all of them the worker's", p.AckPending)
		}
	})
}

// A message that waits to be delivered again forgets it when a purge comes first, and
// comes after ack_wait: why the holder does not purge while one is nakked.
func TestPurgeForgetsWhatWaitsForRedelivery(t *testing.T) {
	both(t, func(t *testing.T, filter string) {
		const wait = 1500 * time.Millisecond
		q := newQueue(t, "", nil, jetstream.ConsumerConfig{AckWait: wait})
		advisories := q.answers("$JS.EVENT.ADVISORY.CONSUMER.MSG_NAKED.>")
		q.publish(10)
		ms := q.fetch(10)
		begun := time.Now()
		if err := ms[6].Nak(); err != nil {
			t.Fatal(err)
		}
		if _, err := advisories.NextMsg(10 * time.Second); err != nil {
			t.Fatalf("wait for the nak: %v", err)
		}
		q.purge(filter, 4)
		again := q.fetch(1)
		seq, deliveries := sequence(t, again[0])
		if took := time.Since(begun); deliveries != 2 || seq < 4 || took < wait-300*time.Millisecond {
			t.Errorf("got message %d, delivery %d after %s, want a redelivery after ack_wait", seq, deliveries, took)
		}
	})
}

func TestPurgeNeverTakesWhatIsPublishedMeanwhile(t *testing.T) {
	both(t, func(t *testing.T, filter string) {
		const messages = 600
		q := newQueue(t, "", nil, jetstream.ConsumerConfig{})
		other := use(t, connect(t, q.nc.ConnectedUrl()))
		var last atomic.Uint64
		done := make(chan error, 1)
		go func() {
			defer close(done)
			for i := range messages {
				a, err := other.Publish(t.Context(), subject, nil)
				if err != nil || a.Sequence != uint64(i+1) {
					done <- errors.Join(err, fmt.Errorf("publish: got sequence %v, want %d", a, i+1))
					return
				}
				last.Store(a.Sequence)
			}
		}()
		purged, most := uint64(0), uint64(0)
		for end := false; !end; {
			select {
			case err := <-done:
				if err != nil {
					t.Fatal(err)
				}
				end = true
			default:
				if seq := last.Load(); seq > 1 {
					purged += q.purge(filter, seq)
					most = max(most, seq)
				}
			}
		}
		if purged != most-1 {
			t.Errorf("got %d messages purged, want the %d below the highest sequence", purged, most-1)
		}
		if got := q.stored(messages); uint64(len(got)) != messages-most+1 {
			t.Errorf("stored: got %v, want all from %d on", got, most)
		}
	})
}

func TestPurgeByTheOnlyFilterOfAConsumerLeavesTheOthersAlone(t *testing.T) {
	q := newQueue(t, "", nil, jetstream.ConsumerConfig{FilterSubject: "orders.a"})
	z, err := q.s.CreateConsumer(t.Context(), jetstream.ConsumerConfig{Durable: "Z", AckPolicy: jetstream.AckExplicitPolicy, FilterSubject: "orders.z"})
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		for _, s := range []string{"orders.z", "orders.a"} {
			if _, err := q.js.Publish(t.Context(), s, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	got, err := z.Fetch(5)
	if err != nil {
		t.Fatal(err)
	}
	for range got.Messages() {
	}
	q.fetch(10)
	q.purge("orders.a", 11)
	if p := q.position(); p.AckPending != 5 || p.Delivered.Stream != 20 {
		t.Errorf("its own: got %+v, want 5 pending acknowledgements", p)
	}
	info, err := z.Info(t.Context())
	if err != nil || info.NumAckPending != 5 || info.NumPending != 5 || info.AckFloor.Stream != 0 {
		t.Errorf("the other: got %+v, %v, want nothing changed", info, err)
	}
}

// Why only consumers with at most one filter are served: with two a purge looks at the
// first message of the whole stream, and what it took stays pending until ack_wait.
func TestPurgeByOneOfTwoFiltersLeavesGhosts(t *testing.T) {
	for ghosts, filters := range map[int][]string{0: {"orders.a"}, 4: {"orders.a", "orders.b"}} {
		q := newQueue(t, "", nil, jetstream.ConsumerConfig{FilterSubjects: filters, AckWait: time.Minute})
		if _, err := q.js.Publish(t.Context(), "orders.z", nil); err != nil {
			t.Fatal(err)
		}
		q.publish(10)
		for _, m := range q.fetch(10)[:3] {
			if err := m.DoubleAck(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		q.purge("orders.a", 9)
		if p := q.position(); p.AckPending != 3+ghosts {
			t.Errorf("filters %v: got %d pending acknowledgements, want 3 and %d of messages that are gone", filters, p.AckPending, ghosts)
		}
	}
}

func TestPurgeForgetsWhatRanOutOfTimeAndWasNotFetchedYet(t *testing.T) {
	const wait = time.Second
	q := newQueue(t, "", nil, jetstream.ConsumerConfig{AckWait: wait})
	q.publish(10)
	q.fetch(10)
	begun := time.Now()
	<-time.After(wait + wait/4)
	q.purge(subjects, 4)
	seq, deliveries := sequence(t, q.fetch(1)[0])
	if took := time.Since(begun); seq != 4 || deliveries != 2 || took < 2*wait-wait/4 {
		t.Errorf("got message %d, delivery %d after %s, want 4 for the second time after twice ack_wait", seq, deliveries, took)
	}
}

// A purge does not know which stream it is meant for, nor what was delivered.
func TestPurgeOfARecreatedStreamTakesWhatWasNeverDelivered(t *testing.T) {
	q := newQueue(t, "", nil, jetstream.ConsumerConfig{})
	q.publish(10)
	ms := q.fetch(5)
	before := q.position().Created
	if err := q.js.DeleteStream(t.Context(), stream); err != nil {
		t.Fatal(err)
	}
	q.make(jetstream.ConsumerConfig{})
	q.publish(10)
	if err := ms[0].DoubleAck(limited(t, 300*time.Millisecond)); err == nil {
		t.Error("stale acknowledgement of what was not delivered: got an answer, want none")
	}
	q.fetch(3)
	if err := ms[1].DoubleAck(t.Context()); err != nil {
		t.Errorf("stale acknowledgement of what was delivered: got %v, want it taken", err)
	}
	p := q.position()
	if p.Created.Equal(before) || p.Delivered.Stream != 3 {
		t.Errorf("got %+v, want a new time of creation and 3 delivered: what the holder looks at", p)
	}
	q.purge(subjects, 6)
	q.storedIs(10, 6, 7, 8, 9, 10)
}

func TestHolderRefusesARecreatedStream(t *testing.T) {
	q := newQueue(t, "", nil, jetstream.ConsumerConfig{})
	q.publish(10)
	q.fetch(5)
	h := &holder{nc: q.nc, filter: subjects, next: 1, held: map[uint64]ack{}, created: q.position().Created}
	if err := h.remove(t.Context(), 7); err == nil {
		t.Error("more than was delivered: got no error, want one")
	}
	if err := h.remove(t.Context(), 6); err != nil {
		t.Errorf("what was delivered: got %v, want no error", err)
	}
	if err := q.js.DeleteStream(t.Context(), stream); err != nil {
		t.Fatal(err)
	}
	q.make(jetstream.ConsumerConfig{})
	q.publish(10)
	q.fetch(10)
	if err := h.remove(t.Context(), 8); err == nil {
		t.Error("another stream: got no error, want one")
	}
	q.storedIs(10, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10)
}
