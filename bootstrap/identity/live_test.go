// SPDX-License-Identifier: Apache-2.0

package identity_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/holdfast-mq/holdfast/bootstrap/identity"
)

// eventually waits until what is true.
func eventually(t *testing.T, what func() error) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		err := what()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("got %v after %s, want it to end", err, patience)
		}
		timer := time.NewTimer(10 * time.Millisecond)
		<-timer.C
	}
}

// reconnecting adds what makes a client come back at once, as often as it takes.
func reconnecting(opts ...nats.Option) []nats.Option {
	return append(opts, nats.ReconnectWait(10*time.Millisecond), nats.ReconnectJitter(0, 0), nats.MaxReconnects(-1),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
}

// quiet proves that a connection was never broken: its ping is answered on the
// connection that it always had.
func quiet(t *testing.T, nc *nats.Conn, cid uint64) {
	t.Helper()
	if err := nc.FlushTimeout(patience); err != nil {
		t.Errorf("ping: %v", err)
	}
	if got, err := nc.GetClientID(); got != cid || err != nil || nc.Stats().Reconnects != 0 {
		t.Errorf("got connection %d with %d reconnects and %v, want %d untouched", got, nc.Stats().Reconnects, err, cid)
	}
}

func clientID(t *testing.T, nc *nats.Conn) uint64 {
	t.Helper()
	cid, err := nc.GetClientID()
	if err != nil {
		t.Fatal(err)
	}
	return cid
}

func TestPermissionsChangeLiveWithTheSameCredentials(t *testing.T) {
	w := newWorld(t)
	w.clock = time.Unix(5, 0) // it went back, and stands still
	producerConn := w.as(t, "shop", "checkout", reconnecting()...)
	other := w.as(t, "shop", "packer", reconnecting()...)
	cid := clientID(t, other)
	before, err := w.id.Creds("shop", "checkout")
	if err != nil {
		t.Fatal(err)
	}
	token, err := w.id.Token("shop", "checkout")
	if err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.New(producerConn, jetstream.WithDefaultTimeout(patience))
	if err != nil {
		t.Fatal(err)
	}
	publish := func(subject string) error {
		_, err := js.Publish(t.Context(), subject, nil, jetstream.WithRetryAttempts(0))
		return err
	}
	refused := func(subject string) {
		t.Helper()
		nc := connect(t, w.server, reconnecting(w.creds(t, "shop", "checkout"))...)
		if err := (action{verb: "pub", subject: subject}).try(nc); !errors.Is(err, nats.ErrPermissionViolation) {
			t.Errorf("got %v for %s, want a refusal", err, subject)
		}
	}
	if err := publish("orders.1"); err != nil {
		t.Fatal(err)
	}
	for i, step := range []struct {
		subjects []string
		role     identity.Role
		what     string
		can      []string
		cannot   []string
	}{
		{[]string{"orders.>", "bills.>"}, identity.RoleProducer, "permissions updated", []string{"orders.1", "bills.1"}, nil},
		{[]string{"bills.>"}, identity.RoleProducer, "permissions updated", []string{"bills.1"}, []string{"orders.1"}},
		{nil, identity.RoleAdmin, "role: producer -> admin", []string{"orders.1", "bills.1"}, nil},
		{[]string{"orders.>"}, identity.RoleProducer, "role: admin -> producer", []string{"orders.1"}, []string{"bills.1"}},
	} {
		users := worldUsers()
		users[1].Role, users[1].Subjects = step.role, step.subjects
		changes := apply(t, w.id, shop(users...))
		if len(changes.Made) != 1 || changes.Made[0].User != "checkout" || changes.Made[0].What != step.what {
			t.Errorf("step %d: got changes %+v, want %q of checkout only", i, changes.Made, step.what)
		}
		update(t, w.sys, w.id, "shop")
		eventually(t, func() error {
			if got := producerConn.Stats().Reconnects; got != uint64(i+1) {
				return fmt.Errorf("step %d: got %d reconnects, want %d", i, got, i+1)
			}
			return producerConn.FlushTimeout(patience)
		})
		for _, subject := range step.can {
			if err := publish(subject); err != nil {
				t.Errorf("step %d: publish on %s: %v", i, subject, err)
			}
		}
		for _, subject := range step.cannot {
			refused(subject)
		}
		quiet(t, other, cid)
	}
	after, err := w.id.Creds("shop", "checkout")
	if err != nil {
		t.Fatal(err)
	}
	if now, err := w.id.Token("shop", "checkout"); string(after) != string(before) || now != token || err != nil {
		t.Error("got other credentials after the changes, want the same to the byte")
	}
}

// gone waits until the connection is broken and its credentials are refused.
func (w *world) gone(t *testing.T, nc *nats.Conn, creds nats.Option) {
	t.Helper()
	eventually(t, func() error {
		if nc.Status() == nats.CONNECTED {
			return errors.New("the connection stands")
		}
		return nil
	})
	nc.Close()
	if again, err := dial(w.server, creds); !errors.Is(err, nats.ErrAuthorization) && !errors.Is(err, nats.ErrAuthRevoked) {
		if err == nil {
			again.Close()
		}
		t.Errorf("got %v for a connection with credentials that are out, want it refused", err)
	}
}

func TestRevokeCutsTheConnectionAndSurvivesARestart(t *testing.T) {
	w := newWorld(t)
	creds := w.creds(t, "shop", "checkout")
	nc, other := w.as(t, "shop", "checkout", reconnecting()...), w.as(t, "shop", "packer")
	cid := clientID(t, other)
	w.clock = time.Unix(5, 0) // before the token's date
	if err := w.id.Revoke("shop", "checkout"); err != nil {
		t.Fatal(err)
	}
	update(t, w.sys, w.id, "shop")
	w.gone(t, nc, creds)
	quiet(t, other, cid)

	// Whatever is applied later, to a server that never heard of it.
	more := append(worldUsers(), producer("more", "orders.>"))
	more[1].Subjects = []string{"orders.>", "bills.>"}
	apply(t, w.id, shop(more...))
	w.server = run(t, w.id)
	if _, err := dial(w.server, creds); !errors.Is(err, nats.ErrAuthorization) && !errors.Is(err, nats.ErrAuthRevoked) {
		t.Errorf("got %v on a new server, want the credentials refused", err)
	}
	w.as(t, "shop", "packer")

	// All in one second, and the second is 1970's.
	if err := w.id.Rotate("shop", "checkout", 0); err != nil {
		t.Fatal(err)
	}
	w.server = run(t, w.id)
	if _, err := w.js(t, "shop", "checkout").Publish(t.Context(), "orders.1", nil); !errors.Is(err, jetstream.ErrNoStreamResponse) {
		t.Errorf("got %v, want to be let in, where no stream is", err)
	}
	if _, err := dial(w.server, creds); err == nil {
		t.Error("got a connection with the old credentials after the rotation, want none")
	}
}

func TestRotationOverlaps(t *testing.T) {
	w := newWorld(t)
	old := w.creds(t, "shop", "checkout")
	nc := w.as(t, "shop", "checkout", reconnecting()...)
	if err := w.id.Rotate("shop", "checkout", 24*time.Hour); err != nil {
		t.Fatal(err)
	}
	update(t, w.sys, w.id, "shop")
	fresh := w.as(t, "shop", "checkout", reconnecting()...)
	cid := clientID(t, fresh)
	for name, c := range map[string]*nats.Conn{"old": nc, "old, again": connect(t, w.server, old), "new": fresh} {
		if err := (action{verb: "pub", subject: "orders.1"}).try(c); err != nil {
			t.Errorf("publish with %s credentials: %v", name, err)
		}
		if err := (action{verb: "pub", subject: "bills.1"}).try(c); !errors.Is(err, nats.ErrPermissionViolation) {
			t.Errorf("got %v with %s credentials outside of its subjects, want a refusal", err, name)
		}
	}

	w.clock = w.clock.Add(24 * time.Hour)
	if changed, next, err := w.id.Expire(); !changed || !next.IsZero() || err != nil {
		t.Fatalf("got changed %v, next %s and %v, want the old key expired", changed, next, err)
	}
	update(t, w.sys, w.id, "shop")
	w.gone(t, nc, old)
	quiet(t, fresh, cid)
}

func TestARemovedUserIsOut(t *testing.T) {
	w := newWorld(t)
	old := w.creds(t, "shop", "packer")
	nc, other := w.as(t, "shop", "packer", reconnecting()...), w.as(t, "shop", "checkout")
	cid := clientID(t, other)
	users := worldUsers()
	apply(t, w.id, shop(append(users[:2:2], users[3:]...)...))
	update(t, w.sys, w.id, "shop")
	w.gone(t, nc, old)
	quiet(t, other, cid)

	apply(t, w.id, shop(users...))
	update(t, w.sys, w.id, "shop")
	w.as(t, "shop", "packer")
	if _, err := dial(w.server, old); err == nil {
		t.Error("got a connection with the old credentials after the user came back, want none")
	}
}

func TestAUserBringsItsOwnKey(t *testing.T) {
	w := newWorld(t)
	public, pair := publicUserKey(t)
	other, otherPair := publicUserKey(t)
	login := func(user string) error {
		token, err := w.id.Token("shop", user)
		if err != nil {
			return err
		}
		p := pair
		if strings.Contains(user, "other") {
			p = otherPair
		}
		nc, err := dial(w.server, nats.UserJWT(func() (string, error) { return token, nil }, p.Sign))
		if err != nil {
			return err
		}
		nc.Close()
		return nil
	}
	with := func(keys ...string) {
		users := worldUsers()
		for i, name := range []string{"own", "other"} {
			if keys[i] != "" {
				u := producer(name, "orders.>")
				u.PublicKey = keys[i]
				users = append(users, u)
			}
		}
		apply(t, w.id, shop(users...))
		update(t, w.sys, w.id, "shop")
	}
	// Everything within one second: what revokes the old token of a key must not
	// reach the new one.
	with(public, other)
	for i, user := range []string{"own", "other", "own", "other"} {
		if i == 2 {
			with("", other) // gone for a while
			with(public, other)
		}
		if err := login(user); err != nil {
			t.Errorf("login %d of %s: %v", i, user, err)
		}
	}
	pair, otherPair = otherPair, pair
	with(other, public) // swapped
	for _, user := range []string{"own", "other"} {
		if err := login(user); err != nil {
			t.Errorf("login of %s after the keys were swapped: %v", user, err)
		}
	}
	if err := w.id.Revoke("shop", "own"); err != nil {
		t.Fatal(err)
	}
	// Not even by leaving the file and coming back.
	with("", public)
	with(other, public)
	if err := login("own"); err == nil {
		t.Error("got a connection with a revoked key, want none")
	}
	if err := login("other"); err != nil {
		t.Errorf("login of the user that was not revoked: %v", err)
	}
}
