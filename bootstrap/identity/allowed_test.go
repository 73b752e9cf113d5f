// SPDX-License-Identifier: Apache-2.0

package identity_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// patience only bounds a hang: what works takes nothing like it, on a busy
// machine either.
const patience = 30 * time.Second

func (w *world) orders(t *testing.T, n int) {
	t.Helper()
	for i := range n {
		if _, err := w.boss.Publish(t.Context(), fmt.Sprint("orders.", i), []byte("1")); err != nil {
			t.Fatal(err)
		}
	}
}

func TestProducerPublishes(t *testing.T) {
	w := newWorld(t)
	js := w.js(t, "shop", "checkout")
	ack, err := js.PublishMsg(t.Context(), &nats.Msg{Subject: "orders.1", Data: []byte("1")}, jetstream.WithMsgID("one"))
	if err != nil || ack.Stream != "ORDERS" || ack.Duplicate {
		t.Errorf("got %+v and %v, want it stored in ORDERS", ack, err)
	}
	if ack, err = js.Publish(t.Context(), "orders.1", nil, jetstream.WithMsgID("one")); err != nil || !ack.Duplicate {
		t.Errorf("got %+v and %v, want a duplicate", ack, err)
	}
	if _, err = js.Publish(t.Context(), "orders.2", nil, jetstream.WithExpectLastSequence(1), jetstream.WithExpectStream("ORDERS")); err != nil {
		t.Errorf("publish with what is expected: %v", err)
	}
	if _, err = js.Publish(t.Context(), "orders.2", nil, jetstream.WithExpectLastSequencePerSubject(7)); !strings.Contains(fmt.Sprint(err), "wrong last sequence") {
		t.Errorf("got %v, want the refusal of the stream", err)
	}
	future, err := js.PublishAsync("orders.3", nil)
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-future.Ok():
	case err := <-future.Err():
		t.Errorf("publish async: %v", err)
	case <-time.After(patience):
		t.Error("got no answer to an asynchronous publish")
	}
	old, err := w.as(t, "shop", "checkout").JetStream(nats.MaxWait(patience))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := old.Publish("orders.4", nil); err != nil {
		t.Errorf("publish with the older API: %v", err)
	}
}

func TestWorkerWorks(t *testing.T) {
	w := newWorld(t)
	w.orders(t, 9)
	js := w.js(t, "shop", "packer")
	stream, err := js.Stream(t.Context(), "ORDERS")
	if err != nil || stream.CachedInfo().State.Msgs != 9 {
		t.Fatalf("got %v, want the info of the stream with 9 messages", err)
	}
	if _, err := stream.Consumer(t.Context(), "fulfil"); err != nil {
		t.Errorf("consumer of a stream: %v", err)
	}
	c, err := js.Consumer(t.Context(), "ORDERS", "fulfil")
	if err != nil {
		t.Fatalf("consumer: %v", err)
	}
	batch, err := c.Fetch(4, jetstream.FetchMaxWait(patience))
	if err != nil {
		t.Fatalf("fetch: %v", err)
	}
	answers := []func(jetstream.Msg) error{
		jetstream.Msg.Ack,
		func(m jetstream.Msg) error { return m.DoubleAck(t.Context()) },
		jetstream.Msg.Nak,
		func(m jetstream.Msg) error { return errors.Join(m.InProgress(), m.Term()) },
	}
	n := 0
	for m := range batch.Messages() {
		if err := answers[n](m); err != nil {
			t.Errorf("answer %d: %v", n, err)
		}
		n++
	}
	if n != 4 || batch.Error() != nil {
		t.Fatalf("got %d messages and %v, want 4", n, batch.Error())
	}

	messages, err := c.Messages()
	if err != nil {
		t.Fatalf("messages: %v", err)
	}
	for range 2 { // the one that was refused among them
		m, err := messages.Next(jetstream.NextMaxWait(patience))
		if err != nil {
			t.Fatalf("next message: %v", err)
		}
		if err := m.DoubleAck(t.Context()); err != nil {
			t.Errorf("ack: %v", err)
		}
	}
	// Read to the end of the drain: a message that the server hands to a
	// request of before comes back after ack_wait only.
	messages.Drain()
	for {
		m, err := messages.Next(jetstream.NextMaxWait(patience))
		if errors.Is(err, jetstream.ErrMsgIteratorClosed) {
			break
		}
		if err != nil {
			t.Fatalf("while draining: %v", err)
		}
		if err := m.DoubleAck(t.Context()); err != nil {
			t.Errorf("ack: %v", err)
		}
	}
	w.orders(t, 1)
	got := make(chan error, 100)
	consuming, err := c.Consume(func(m jetstream.Msg) { got <- m.DoubleAck(context.Background()) })
	if err != nil {
		t.Fatalf("consume: %v", err)
	}
	select {
	case err := <-got:
		if err != nil {
			t.Errorf("ack: %v", err)
		}
	case <-time.After(patience):
		t.Error("got no message to consume")
	}
	consuming.Stop()
}

func TestWorkerWorksWithTheOlderAPI(t *testing.T) {
	w := newWorld(t)
	w.orders(t, 2)
	nc := w.as(t, "shop", "packer")
	js, err := nc.JetStream(nats.MaxWait(patience))
	if err != nil {
		t.Fatal(err)
	}
	sub, err := js.PullSubscribe("", "", nats.Bind("ORDERS", "fulfil"))
	if err != nil {
		t.Fatalf("subscribe: %v", err)
	}
	batch, err := sub.Fetch(2, nats.MaxWait(patience))
	if err != nil || len(batch) != 2 {
		t.Fatalf("got %d messages and %v, want 2", len(batch), err)
	}
	if err := batch[0].AckSync(); err != nil {
		t.Errorf("ack: %v", err)
	}
	if err := errors.Join(batch[1].InProgress(), batch[1].Term()); err != nil {
		t.Errorf("terminate: %v", err)
	}
	// A refusal looks like a timeout.
	impatient, err := nc.JetStream(nats.MaxWait(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := impatient.PullSubscribe("orders.>", "fulfil"); err == nil {
		t.Error("got a subscription without Bind, want none: it looks for the stream, and may create a consumer")
	}
}

func TestWorkerOfDigitsWorks(t *testing.T) {
	w := newWorld(t)
	if _, err := w.boss.Publish(t.Context(), "one.1", nil); err != nil {
		t.Fatal(err)
	}
	c, err := w.js(t, "shop", "counter").Consumer(t.Context(), "1", "5")
	if err != nil {
		t.Fatal(err)
	}
	m, err := c.Next(jetstream.FetchMaxWait(patience))
	if err != nil {
		t.Fatal(err)
	}
	if err := m.DoubleAck(t.Context()); err != nil {
		t.Errorf("ack: %v", err)
	}
}

func TestObserverObserves(t *testing.T) {
	w := newWorld(t)
	nc := w.as(t, "shop", "auditor")
	news, err := nc.SubscribeSync("$JS.EVENT.ADVISORY.STREAM.DELETED.>")
	if err != nil {
		t.Fatal(err)
	}
	parked, err := nc.SubscribeSync("$JS.EVENT.ADVISORY.CONSUMER.>")
	if err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(patience))
	if err != nil {
		t.Fatal(err)
	}
	if info, err := js.AccountInfo(t.Context()); err != nil || info.Streams != 4 {
		t.Errorf("got %+v and %v, want the account with 4 streams", info, err)
	}
	names := js.StreamNames(t.Context())
	if got := count(names.Name()); got != 4 || names.Err() != nil {
		t.Errorf("got %d names and %v, want 4", got, names.Err())
	}
	list := js.ListStreams(t.Context())
	if got := count(list.Info()); got != 4 || list.Err() != nil {
		t.Errorf("got %d streams and %v, want 4", got, list.Err())
	}
	stream, err := js.Stream(t.Context(), "BILLS")
	if err != nil {
		t.Fatalf("stream: %v", err)
	}
	if _, err := stream.Consumer(t.Context(), "fulfil"); err != nil {
		t.Errorf("consumer: %v", err)
	}
	consumers := stream.ListConsumers(t.Context())
	if got := count(consumers.Info()); got != 1 || consumers.Err() != nil {
		t.Errorf("got %d consumers and %v, want 1", got, consumers.Err())
	}
	consumerNames := stream.ConsumerNames(t.Context())
	if got := count(consumerNames.Name()); got != 1 || consumerNames.Err() != nil {
		t.Errorf("got %d names and %v, want 1", got, consumerNames.Err())
	}
	if err := w.boss.DeleteConsumer(t.Context(), "BILLS", "fulfil"); err != nil {
		t.Fatal(err)
	}
	if err := w.boss.DeleteStream(t.Context(), "BILLS"); err != nil {
		t.Fatal(err)
	}
	for _, sub := range []*nats.Subscription{news, parked} {
		if m, err := sub.NextMsg(patience); err != nil || !strings.Contains(m.Subject, "DELETED.BILLS") {
			t.Errorf("got %v and %v on %s, want the news that it was deleted", m, err, sub.Subject)
		}
	}
}

func count[T any](c <-chan T) int {
	n := 0
	for range c {
		n++
	}
	return n
}

func TestCustomUserDoesWhatIsListed(t *testing.T) {
	w := newWorld(t)
	nc, boss := w.as(t, "shop", "legacy"), w.as(t, "shop", "boss")
	heard, err := nc.SubscribeSync("y.>")
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := boss.Publish("y.1", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := heard.NextMsg(patience); err != nil {
		t.Errorf("listen: %v", err)
	}
	if _, err := boss.Subscribe("x.echo", func(m *nats.Msg) { _ = m.Respond(m.Data) }); err != nil {
		t.Fatal(err)
	}
	if err := boss.Flush(); err != nil {
		t.Fatal(err)
	}
	if m, err := nc.Request("x.echo", []byte("hello"), patience); err != nil || string(m.Data) != "hello" {
		t.Errorf("got %v and %v, want an answer in its inbox", m, err)
	}
}

func TestASharedInboxIsForClientsWithoutAPrefix(t *testing.T) {
	w := newWorld(t)
	users := worldUsers()
	users[2].SharedInbox = true // packer
	apply(t, w.id, shop(users...))
	update(t, w.sys, w.id, "shop")
	w.orders(t, 2)
	for _, nc := range []*nats.Conn{w.as(t, "shop", "packer"), connect(t, w.server, w.creds(t, "shop", "packer"))} {
		js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(patience))
		if err != nil {
			t.Fatal(err)
		}
		c, err := js.Consumer(t.Context(), "ORDERS", "fulfil")
		if err != nil {
			t.Fatalf("consumer: %v", err)
		}
		if _, err := c.Next(jetstream.FetchMaxWait(patience)); err != nil {
			t.Errorf("pull: %v", err)
		}
	}
}
