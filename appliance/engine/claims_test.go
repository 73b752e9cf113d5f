// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

// What a revocation relies on: it takes effect on a live connection, and a later
// start with the account as it was before does not undo it.
func TestRevocationIsLiveAndSurvivesAnOlderPreload(t *testing.T) {
	r := newRealm(t, "shop")
	s := r.settings(t)
	s.Preload[r.public(t, "shop")] = withIssueTime(t, r, "shop", time.Now().Add(-time.Hour).Unix())
	e := started(t, r, s, nil)
	login, user := r.login(t, "shop")
	gone := make(chan struct{}, 1)
	if _, err := nats.Connect("", nats.InProcessServer(e), login, nats.NoReconnect(), nats.Timeout(patience),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}), nats.ClosedHandler(func(*nats.Conn) { gone <- struct{}{} })); err != nil {
		t.Fatal(err)
	}

	revoked := r.account(t, "shop", func(c *jwt.AccountClaims) { c.Revoke(user) })
	reply, err := connect(t, r, e, "SYS").Request("$SYS.REQ.CLAIMS.UPDATE", []byte(revoked), patience)
	if err != nil || !strings.Contains(string(reply.Data), `"code":200`) {
		t.Fatalf("got %v, %v, want the update taken", reply, err)
	}
	waitFor(t, gone, "the revoked user is still connected")
	if err := e.Stop(); err != nil {
		t.Fatal(err)
	}

	e = started(t, r, s, nil)
	// Over TCP: on an in-process pipe, where nobody reads yet, the refusal waits for
	// the server's write deadline of 10 s.
	addr, err := e.OpenClientPort()
	if err != nil {
		t.Fatal(err)
	}
	if nc, err := nats.Connect("nats://"+addr.String(), login, nats.NoReconnect(), nats.Timeout(patience)); err == nil {
		nc.Close()
		t.Error("got a connection for the revoked user after a restart")
	}
	connect(t, r, e, "shop")
}

func TestNewerAccountOnDiskSurvivesAnOlderPreload(t *testing.T) {
	r := newRealm(t, "shop")
	s := r.settings(t)
	pub := r.public(t, "shop")
	older, newer := withIssueTime(t, r, "shop", 1_000), withIssueTime(t, r, "shop", 2_000)
	for _, step := range []struct {
		name, preload, want string
	}{
		{"first start", older, older},
		{"a newer one is stored", newer, newer},
		{"an older file must not undo it", older, newer},
	} {
		s.Preload[pub] = step.preload
		e, err := New(s, r.names(), discard())
		if err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		got, err := e.resolver.Fetch(pub)
		if err != nil || got != step.want {
			t.Errorf("%s: got a JWT issued at %d (%v), want %d", step.name, issuedAt(got), err, issuedAt(step.want))
		}
		if err := e.Stop(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestDamagedAccountOnDiskIsReplaced(t *testing.T) {
	r := newRealm(t, "shop")
	s := r.settings(t)
	pub := r.public(t, "shop")
	if err := os.MkdirAll(s.ResolverDir, 0o700); err != nil {
		t.Fatal(err)
	}
	// What a power cut can leave: the file's name without its content.
	if err := os.WriteFile(filepath.Join(s.ResolverDir, pub+".jwt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	connect(t, r, started(t, r, s, nil), "shop")
}

func TestNewFailsWhenAnAccountCanNotBeStored(t *testing.T) {
	r := newRealm(t, "shop")
	s := r.settings(t)
	// A directory in the file's place fails for root too.
	if err := os.MkdirAll(filepath.Join(s.ResolverDir, r.public(t, "shop")+".jwt", "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	e, err := New(s, r.names(), discard())
	if err == nil {
		_ = e.Stop()
	}
	if diag.CodeOf(err) != diag.CodeEngine || !strings.Contains(fmt.Sprint(err), `account "shop"`) {
		t.Errorf("got %v, want an error that names the account", err)
	}
}

// staleStore answers as a directory whose files could not be overwritten.
type staleStore struct {
	server.AccountResolver
	token string
}

func (s staleStore) Fetch(string) (string, error) { return s.token, nil }

func TestNewFailsWhenAnOlderAccountStays(t *testing.T) {
	r := newRealm(t, "shop")
	s := r.settings(t)
	e := newEngine(t, r, s, nil)
	e.resolver = staleStore{token: withIssueTime(t, r, "shop", 1_000)}
	err := e.loadAccounts()
	if diag.CodeOf(err) != diag.CodeEngine || !strings.Contains(fmt.Sprint(err), "an older one is still there") {
		t.Errorf("got %v, want it to say that an older account stayed", err)
	}
}
