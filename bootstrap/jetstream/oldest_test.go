// SPDX-License-Identifier: Apache-2.0

package jetstream_test

import (
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/holdfast-mq/holdfast/bootstrap"
	"github.com/holdfast-mq/holdfast/bootstrap/jetstream"
)

// dialer reaches whichever server runs.
type dialer func() *node

func (d dialer) InProcessConn() (net.Conn, error) { return d().InProcessConn() }

// fetch takes one message and answers it; an empty answer leaves it open.
func fetch(t *testing.T, nc *nats.Conn, stream, consumer, answer string) {
	t.Helper()
	msg, err := nc.Request("$JS.API.CONSUMER.MSG.NEXT."+stream+"."+consumer, []byte(`{"batch":1,"expires":30000000000}`), patience)
	if err != nil {
		t.Fatalf("fetch from %s: %v", consumer, err)
	}
	if msg.Header.Get("Status") != "" {
		t.Fatalf("fetch from %s: got status %v, want a message", consumer, msg.Header)
	}
	if answer == "" {
		return
	}
	if _, err := nc.Request(msg.Reply, []byte(answer), patience); err != nil {
		t.Fatalf("answer %s: %v", answer, err)
	}
}

// storedAt asks the server when a message was stored.
func storedAt(t *testing.T, n *node, stream string, seq uint64) time.Time {
	t.Helper()
	js, err := connect(t, n, "shop").JetStream(nats.MaxWait(patience))
	if err != nil {
		t.Fatal(err)
	}
	msg, err := js.GetMsg(stream, seq)
	if err != nil {
		t.Fatal(err)
	}
	return msg.Time
}

// wantOldest fails unless the oldest message that waits is the one at seq, or
// there is none if seq is 0.
func wantOldest(t *testing.T, n *node, c *jetstream.Client, consumer string, seq uint64) {
	t.Helper()
	now, want := time.Now(), time.Duration(0)
	if seq > 0 {
		now = storedAt(t, n, "S", seq).Add(time.Hour)
		want = time.Hour
	}
	eventually(t, func() error {
		have := observe(t, c, "shop").Accounts["shop"].Streams["S"].Consumers[consumer]
		age, ok, err := c.OldestUnacknowledged(t.Context(), "shop", "S", have, now)
		if err != nil {
			return err
		}
		if ok != (seq > 0) || age != want {
			return fmt.Errorf("oldest of %s: got age %v, %v, want %v, %v (message %d)", consumer, age, ok, want, seq > 0, seq)
		}
		return nil
	})
}

func TestOldestIsTheFirstMessageThatMatchesAFilter(t *testing.T) {
	n := startNode(t, "shop")
	c := newClient(t, n)
	converge(t, c, shop(stream(t, "S", `{"subjects":["s.>"]}`,
		consumer(t, "all", `{"ack_policy":"explicit"}`),
		consumer(t, "two", `{"ack_policy":"explicit","filter_subjects":["s.c","s.b"]}`),
		consumer(t, "one", `{"ack_policy":"explicit","filter_subject":"s.d.*"}`),
	)))
	wantOldest(t, n, c, "all", 0)
	nc := connect(t, n, "shop")
	publish(t, nc, "s.a", "s.b", "s.c", "s.a")
	wantOldest(t, n, c, "all", 1)
	wantOldest(t, n, c, "two", 2)
	wantOldest(t, n, c, "one", 0)

	fetch(t, nc, "S", "all", "+ACK")
	fetch(t, nc, "S", "all", "") // delivered is not acknowledged
	wantOldest(t, n, c, "all", 2)
	fetch(t, nc, "S", "two", "+ACK")
	wantOldest(t, n, c, "two", 3)
	fetch(t, nc, "S", "two", "+ACK")
	wantOldest(t, n, c, "two", 0)
}

func TestOldestInAWorkQueue(t *testing.T) {
	n := startNode(t, "shop")
	c := newClient(t, n)
	converge(t, c, shop(stream(t, "S", `{"subjects":["s.>"],"retention":"workqueue"}`,
		consumer(t, "a", `{"ack_policy":"explicit","filter_subject":"s.a","max_deliver":1,"ack_wait":100000000}`),
		consumer(t, "b", `{"ack_policy":"explicit","filter_subject":"s.b"}`),
	)))
	nc := connect(t, n, "shop")
	publish(t, nc, "s.b", "s.a", "s.a")
	wantOldest(t, n, c, "a", 2)

	// Message 2 uses up its deliveries, then 3 is acknowledged and takes the floor
	// past it.
	fetch(t, nc, "S", "a", "")
	eventually(t, func() error {
		s := observe(t, c, "shop").Accounts["shop"].Streams["S"].Consumers["a"].State
		if s.NumAckPending != 0 {
			return fmt.Errorf("used up message: got %d unacknowledged, want 0", s.NumAckPending)
		}
		return nil
	})
	// However late this one is acknowledged, it must not be used up too.
	call(t, nc, "CONSUMER.CREATE.S.a.s.a", `{"stream_name":"S","action":"update","config":`+
		`{"name":"a","durable_name":"a","ack_policy":"explicit","filter_subject":"s.a","max_deliver":1,"ack_wait":3600000000000}}`)
	fetch(t, nc, "S", "a", "+ACK")
	eventually(t, func() error {
		s := observe(t, c, "shop").Accounts["shop"].Streams["S"].Consumers["a"].State
		if s.AckFloor.Stream < 3 {
			return fmt.Errorf("floor: got %d, want 3 or more: the server changed and WorkQueue may not be needed", s.AckFloor.Stream)
		}
		return nil
	})
	wantOldest(t, n, c, "a", 2)
	wantOldest(t, n, c, "b", 1)
}

func TestOldestOfAUsedUpMessageOutsideAWorkQueue(t *testing.T) {
	n := startNode(t, "shop")
	c := newClient(t, n)
	converge(t, c, shop(stream(t, "S", `{"subjects":["s"]}`,
		consumer(t, "a", `{"ack_policy":"explicit","max_deliver":1,"ack_wait":100000000}`))))
	nc := connect(t, n, "shop")
	publish(t, nc, "s")
	fetch(t, nc, "S", "a", "")
	eventually(t, func() error {
		s := observe(t, c, "shop").Accounts["shop"].Streams["S"].Consumers["a"].State
		if s.NumAckPending != 0 || s.NumPending != 0 {
			return fmt.Errorf("used up message: got %+v, want nothing pending", s)
		}
		return nil
	})
	wantOldest(t, n, c, "a", 1)
}

func TestOldestNeverHasANegativeAge(t *testing.T) {
	n := startNode(t, "shop")
	c := newClient(t, n)
	converge(t, c, shop(stream(t, "S", `{"subjects":["s"]}`, consumer(t, "a", `{}`))))
	publish(t, connect(t, n, "shop"), "s")
	age, ok, err := c.OldestUnacknowledged(t.Context(), "shop", "S", bootstrap.ObservedConsumer{}, time.Unix(0, 0))
	if age != 0 || !ok || err != nil {
		t.Errorf("with the clock at 1970: got %v, %v, %v, want 0, true, no error", age, ok, err)
	}
}
