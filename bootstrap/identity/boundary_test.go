// SPDX-License-Identifier: Apache-2.0

package identity_test

import (
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// An admin has no permissions to refuse anything: what it cannot do is what the
// account keeps it from.
func TestAccountKeepsAnAdminFromOthers(t *testing.T) {
	w := newWorld(t)
	robot := w.js(t, "line", "robot")
	boss := w.as(t, "shop", "boss")

	// Requests that reach nobody, or somebody who does not answer.
	for _, subject := range []string{
		"$SYS.REQ.SERVER.PING", "$SYS.REQ.SERVER.PING.VARZ", "$SYS.REQ.SERVER." + w.server.ID() + ".RELOAD",
		"$SYS.REQ.SERVER." + w.server.ID() + ".KICK", "$SYS.REQ.CLAIMS.LIST", "$SYS.REQ.CLAIMS.UPDATE",
		"$SYS.REQ.CLAIMS.DELETE", "$SYS.REQ.CLAIMS.PACK", "$SYS.DEBUG.SUBSCRIBERS", "parts.1",
	} {
		if m, err := boss.Request(subject, []byte("{}"), patience); !errors.Is(err, nats.ErrNoResponders) {
			t.Errorf("got %v and %v for a request to %s, want no responders", m, err, subject)
		}
	}
	// Requests that the server hears and does not answer.
	line, _ := w.id.PublicKey("line")
	for _, subject := range []string{"$SYS.REQ.ACCOUNT." + line + ".CONNZ", "$SYS.REQ.ACCOUNT." + line + ".JSZ", "$SYS.REQ.ACCOUNT." + line + ".INFO", "$JS.API.META.LEADER.STEPDOWN"} {
		if m, err := boss.Request(subject, nil, 200*time.Millisecond); err == nil {
			t.Errorf("got %s for a request to %s, want nothing", m.Data, subject)
		}
	}

	js, err := jetstream.New(boss, jetstream.WithDefaultTimeout(patience))
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	for name, ask := range map[string]func() error{
		"info": func() error { _, err := js.Stream(ctx, "PARTS"); return err },
		"update": func() error {
			_, err := js.UpdateStream(ctx, jetstream.StreamConfig{Name: "PARTS", Subjects: []string{"parts.>"}})
			return err
		},
		"delete": func() error { return js.DeleteStream(ctx, "PARTS") },
		"read": func() error {
			_, err := js.CreateConsumer(ctx, "PARTS", jetstream.ConsumerConfig{})
			return err
		},
	} {
		if err := ask(); !errors.Is(err, jetstream.ErrStreamNotFound) {
			t.Errorf("got %v for %s of a stream of another account, want not found", err, name)
		}
	}

	var subs []*nats.Subscription
	for _, subject := range []string{">", "parts.>", "$SYS.>", "$JS.>", "_inbox.>"} {
		sub, err := boss.SubscribeSync(subject)
		if err != nil {
			t.Fatal(err)
		}
		subs = append(subs, sub)
	}
	if err := boss.Flush(); err != nil {
		t.Fatal(err)
	}
	if _, err := robot.Publish(ctx, "parts.1", []byte("theirs")); err != nil {
		t.Fatal(err)
	}
	if _, err := w.sys.Request("$SYS.REQ.SERVER.PING", nil, patience); err != nil {
		t.Fatal(err)
	}
	// The message that ends the wait was sent after those that must not arrive.
	if err := w.boss.Conn().Publish("last", nil); err != nil {
		t.Fatal(err)
	}
	if m, err := subs[0].NextMsg(patience); err != nil || m.Subject != "last" {
		t.Errorf("got %v and %v first, want the message of its own account", m, err)
	}
	for _, sub := range subs[1:] {
		if n, _, err := sub.Pending(); n != 0 || err != nil {
			t.Errorf("got %d messages on %s and %v, want none", n, sub.Subject, err)
		}
	}
}

// What roles do not stop, written down as tests: an asker names the subject that
// the server answers to, which may be any of the account. The account is the
// boundary.
func TestRolesDoNotStopRepliesToOthers(t *testing.T) {
	w := newWorld(t)
	w.orders(t, 1)
	for name, tc := range map[string]struct{ user, subject, reply string }{
		"a producer sends its receipt to another user": {"checkout", "orders.1", "_inbox.boss.x"},
		"a producer's receipt on a subject of others":  {"checkout", "orders.1", "bills.receipt"},
		"a worker sends a stored message to another":   {"packer", "$JS.API.CONSUMER.MSG.NEXT.ORDERS.fulfil", "_inbox.boss.x"},
		"a worker's info on a subject of others":       {"packer", "$JS.API.STREAM.INFO.ORDERS", "bills.info"},
		"an observer's info on a subject of others":    {"auditor", "$JS.API.STREAM.NAMES", "bills.names"},
	} {
		t.Run(name, func(t *testing.T) {
			boss := w.as(t, "shop", "boss")
			heard, err := boss.SubscribeSync(tc.reply)
			if err != nil {
				t.Fatal(err)
			}
			if err := boss.Flush(); err != nil {
				t.Fatal(err)
			}
			nc := w.as(t, "shop", tc.user)
			if err := (action{verb: "pub", subject: tc.subject, more: tc.reply}).try(nc); err != nil {
				t.Errorf("got %v, want it let through: then say so where roles are described", err)
			}
			if _, err := heard.NextMsg(patience); err != nil {
				t.Errorf("got %v, want the answer where it does not belong", err)
			}
		})
	}
}
