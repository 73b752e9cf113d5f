// SPDX-License-Identifier: Apache-2.0

package jetstream_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-mq/holdfast/appliance/diag"
	"github.com/holdfast-mq/holdfast/bootstrap"
	"github.com/holdfast-mq/holdfast/bootstrap/jetstream"
)

func TestObserveReadsStateAndPosition(t *testing.T) {
	n := startNode(t, "shop")
	c := newClient(t, n)
	converge(t, c, shop(stream(t, "ORDERS", `{"subjects":["orders.>"],"retention":"workqueue"}`,
		consumer(t, "eu", `{"ack_policy":"explicit","filter_subject":"orders.eu"}`),
		consumer(t, "us", `{"ack_policy":"explicit","filter_subject":"orders.us","pause_until":"2099-01-01T00:00:00Z"}`),
	)))
	nc := connect(t, n, "shop")
	publish(t, nc, "orders.eu", "orders.eu", "orders.us")
	fetch(t, nc, "ORDERS", "eu", "+ACK")

	// Every part of the state settles on its own after the answer to the ack.
	eventually(t, func() error {
		have := observe(t, c, "shop").Accounts["shop"].Streams["ORDERS"]
		if s := have.State; s.Messages != 2 || s.LastSeq != 3 || s.FirstSeq != 2 || s.Consumers != 2 || s.NumSubjects != 2 || s.LastTime.IsZero() {
			return fmt.Errorf("stream state: got %+v, want 2 messages, sequences 2 to 3, 2 consumers, 2 subjects and a time", s)
		}
		eu, us := have.Consumers["eu"], have.Consumers["us"]
		if s := eu.State; s.NumPending != 1 || s.AckFloor.Stream != 1 || s.Delivered.Consumer != 1 || !eu.WorkQueue {
			return fmt.Errorf("consumer eu: got %+v, want 1 pending, floor 1, 1 delivered, work queue", eu)
		}
		if !us.State.Paused || us.State.PauseRemaining <= 0 {
			return fmt.Errorf("consumer us: got %+v, want it paused from its creation", us.State)
		}
		return nil
	})
}

func TestObserveReadsEveryPage(t *testing.T) {
	n := startNode(t, "shop")
	c := newClient(t, n)
	var streams []bootstrap.Stream
	for i := range 300 {
		streams = append(streams, stream(t, fmt.Sprintf("S%d", i), fmt.Sprintf(`{"subjects":["s%d"],"storage":"memory"}`, i)))
	}
	for i := range 300 {
		streams[0].Consumers = append(streams[0].Consumers, consumer(t, fmt.Sprintf("c%d", i), `{"mem_storage":true}`))
	}
	converge(t, c, shop(streams...))
	have := observe(t, c, "shop").Accounts["shop"].Streams
	if len(have) != 300 || len(have["S0"].Consumers) != 300 {
		t.Errorf("got %d streams and %d consumers, want 300 and 300", len(have), len(have["S0"].Consumers))
	}
	wantKept(t, c, shop(streams...))
}

func TestObserveOfAnAccountWithoutJetStreamIsEmpty(t *testing.T) {
	c := newClient(t, startNode(t, "shop", "bare"))
	if have := observe(t, c, "bare").Accounts["bare"]; len(have.Streams) != 0 || have.Unavailable != "" {
		t.Errorf("got %+v, want an empty account", have)
	}
}

func TestObserveReadsTheOtherAccountsWhenOneFails(t *testing.T) {
	c := newClient(t, startNode(t, "shop"))
	want := shop(stream(t, "ORDERS", `{}`))
	converge(t, c, want)
	want.Accounts = append(want.Accounts, bootstrap.Account{Name: "gone", Streams: []bootstrap.Stream{stream(t, "X", `{}`)}})

	have, err := c.Observe(t.Context(), []string{"gone", "shop"})
	if diag.CodeOf(err) != diag.CodeObserve || !strings.Contains(err.Error(), `read account "gone": `) {
		t.Errorf("got %v (%s), want the account named, code %s", err, diag.CodeOf(err), diag.CodeObserve)
	}
	plan := bootstrap.Diff(want, have, nil)
	if plan.Count(bootstrap.Keep) != 1 || plan.Count(bootstrap.Unknown) != 1 {
		t.Errorf("got\n%swant ORDERS kept and X unknown", plan)
	}
}

func TestClientReconnectsToARestartedServer(t *testing.T) {
	first, second := startNode(t, "shop"), startNode(t, "shop")
	running := first
	c := jetstream.New(dialer(func() *node { return running }), func(account string) (string, []byte, error) {
		return running.credentials(account)
	})
	t.Cleanup(c.Close)
	observe(t, c, "shop")

	first.Shutdown()
	if _, err := c.Observe(t.Context(), []string{"shop"}); err == nil {
		t.Error("observe a stopped server: got no error, want one")
	}
	running = second
	observe(t, c, "shop")
}

func TestClosedClientRefuses(t *testing.T) {
	c := newClient(t, startNode(t, "shop"))
	observe(t, c, "shop")
	c.Close()
	if _, err := c.Observe(t.Context(), []string{"shop"}); err == nil || !strings.Contains(err.Error(), jetstream.ErrClosed.Error()) {
		t.Errorf("got %v, want %v", err, jetstream.ErrClosed)
	}
}
