// SPDX-License-Identifier: Apache-2.0

package identity_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/holdfast-mq/holdfast/bootstrap/identity"
)

// world is a server with two accounts, their streams, and a user of each role.
type world struct {
	id     *identity.Identity
	server *server.Server
	sys    *nats.Conn
	boss   jetstream.JetStream // admin of shop
	clock  time.Time           // what the identity believes
}

func worldUsers() []identity.User {
	return []identity.User{
		{Name: "boss", Role: identity.RoleAdmin},
		producer("checkout", "orders.>"),
		worker("packer", identity.ConsumerRef{Stream: "ORDERS", Consumer: "fulfil"}),
		worker("counter", identity.ConsumerRef{Stream: "1", Consumer: "5"}),
		{Name: "auditor", Role: identity.RoleObserver},
		{Name: "legacy", Role: identity.RoleCustom, Publish: []string{"x.>"}, Subscribe: []string{"y.>"}},
		producer("idle"),
	}
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{clock: time.Now()}
	f, _ := newFile(t)
	f.Now = func() time.Time { return w.clock }
	w.id = open(t, f)
	apply(t, w.id, shop(worldUsers()...), account("line", "robot"))
	w.server = run(t, w.id)
	login, err := w.id.SystemLogin()
	w.sys = with(t, w.server, login, err)
	w.boss = w.js(t, "shop", "boss")
	makeStream(t, w.boss, "ORDERS", "orders.>", "fulfil", "other")
	makeStream(t, w.boss, "BILLS", "bills.>", "fulfil")
	makeStream(t, w.boss, "1", "one.>", "5")
	makeStream(t, w.js(t, "line", "robot"), "PARTS", "parts.>")
	if _, err := w.boss.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "settings"}); err != nil {
		t.Fatal(err)
	}
	return w
}

func makeStream(t *testing.T, js jetstream.JetStream, name, subjects string, consumers ...string) {
	t.Helper()
	s, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: name, Subjects: []string{subjects}, AllowDirect: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range consumers {
		if _, err := s.CreateConsumer(t.Context(), jetstream.ConsumerConfig{Durable: c, AckPolicy: jetstream.AckExplicitPolicy}); err != nil {
			t.Fatal(err)
		}
	}
}

// as connects a user over TCP, with its own inbox prefix.
func (w *world) as(t *testing.T, account, user string, opts ...nats.Option) *nats.Conn {
	t.Helper()
	return connect(t, w.server, append(opts, w.creds(t, account, user), nats.CustomInboxPrefix(identity.InboxPrefix(user)))...)
}

func (w *world) creds(t *testing.T, account, user string) nats.Option {
	t.Helper()
	creds, err := w.id.Creds(account, user)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "user.creds")
	if err := os.WriteFile(path, creds, 0o600); err != nil {
		t.Fatal(err)
	}
	return nats.UserCredentials(path)
}

func (w *world) js(t *testing.T, account, user string) jetstream.JetStream {
	t.Helper()
	js, err := jetstream.New(w.as(t, account, user), jetstream.WithDefaultTimeout(patience))
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// facts is all that a refused action might have changed.
func (w *world) facts(t *testing.T) []string {
	t.Helper()
	var facts []string
	for s := range w.boss.ListStreams(t.Context()).Info() {
		facts = append(facts, fmt.Sprintf("%s %+v %d messages", s.Config.Name, s.Config, s.State.Msgs))
		stream, err := w.boss.Stream(t.Context(), s.Config.Name)
		if err != nil {
			t.Fatal(err)
		}
		for c := range stream.ListConsumers(t.Context()).Info() {
			facts = append(facts, fmt.Sprintf("%s/%s %v acked %d", c.Stream, c.Name, c.Delivered, c.AckFloor.Stream))
		}
	}
	slices.Sort(facts)
	return facts
}

func (a action) String() string { return strings.TrimSpace(a.verb + " " + a.subject + " " + a.more) }

// try does it and returns what the server says about it.
func (a action) try(nc *nats.Conn) error {
	var err error
	switch {
	case a.verb == "sub" && a.more == "":
		_, err = nc.SubscribeSync(a.subject)
	case a.verb == "sub":
		_, err = nc.QueueSubscribeSync(a.subject, a.more)
	default:
		err = nc.PublishMsg(&nats.Msg{Subject: a.subject, Reply: a.more, Data: []byte("{}")})
	}
	// The server answers in order, so that a refusal is here before the pong.
	return errors.Join(err, nc.Flush(), nc.LastError())
}

// refusal is how the server refuses an action.
func (a action) refusal() string {
	switch {
	case a.verb == "sub" && a.more != "":
		return fmt.Sprintf("Subscription to %q using queue %q", a.subject, a.more)
	case a.verb == "sub":
		return fmt.Sprintf("Subscription to %q", a.subject)
	case a.more != "":
		return fmt.Sprintf("Publish with Reply of %q", a.more)
	}
	return fmt.Sprintf("Publish to %q", a.subject)
}

func TestServerRefusesWhatARoleMustNotDo(t *testing.T) {
	w := newWorld(t)
	before := w.facts(t)
	for user, actions := range refused() {
		t.Run(user, func(t *testing.T) {
			if len(actions) < 20 {
				t.Errorf("got %d actions, want at least 20", len(actions))
			}
			quiet := nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})
			creds, inbox := w.creds(t, "shop", user), nats.CustomInboxPrefix(identity.InboxPrefix(user))
			for _, a := range actions {
				nc, err := dial(w.server, creds, inbox, quiet) // one each, so that one's refusal is not another's
				if err != nil {
					t.Fatal(err)
				}
				err = a.try(nc)
				nc.Close()
				if !errors.Is(err, nats.ErrPermissionViolation) || !strings.Contains(strings.ToLower(err.Error()), strings.ToLower(a.refusal())) {
					t.Errorf("got %v for %s, want %q refused (%s)", err, a, a.refusal(), a.why)
				}
			}
		})
	}
	if diff := cmp.Diff(before, w.facts(t)); diff != "" {
		t.Errorf("something changed (-want +got):\n%s", diff)
	}
}
