// SPDX-License-Identifier: Apache-2.0

//go:build process && linux

package main

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/holdfast-mq/holdfast/appliance/admin"
)

// publishSteadily publishes until ctx is done or the credentials end.
func publishSteadily(ctx context.Context, js jetstream.JetStream, publisher int, b *books) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for i := 1; ; i++ {
		text := message(publisher, i)
		ack, err := js.Publish(ctx, "orders.a", []byte(text), jetstream.WithMsgID(fmt.Sprintf("%d-%d", publisher, i)))
		if err != nil {
			return
		}
		b.published(ack, text)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func TestProcessRotationUnderLoadLosesNothing(t *testing.T) {
	t.Parallel()
	n, b := newNode(t, who), newBooks()
	n.start()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var load sync.WaitGroup
	bystander := n.mustLogin("boss", n.kept("boss"))
	publishing := func(no int, file string) *client {
		c := n.mustLogin("checkout", file)
		load.Go(func() { publishSteadily(ctx, c.js, no, b) })
		return c
	}
	more := func(what string) {
		t.Helper()
		before, _ := b.count()
		eventually(t, patience, func() error {
			if now, _ := b.count(); now < before+50 {
				return fmt.Errorf("%s: got %d messages acknowledged, want 50", what, now-before)
			}
			return nil
		})
	}
	first := n.kept("checkout")
	old := []*client{publishing(1, first), publishing(2, first)}
	more("before")
	// All of what is looked at within the overlap has to fit: five processes and
	// fifty messages.
	n.creds(exitOK, []string{"the old ones work until "}, "rotate", "shop/checkout", "--overlap", "15s", "--yes")
	n.creds(exitOK, []string{"old key until 2"}, "list")
	fresh := publishing(3, n.kept("checkout"))
	n.mustLogin("checkout", first) // also a client that starts within the overlap
	more("within the overlap")
	for _, c := range old {
		if c.disconnects.Load() != 0 {
			t.Errorf("got %d interruptions of the old credentials within the overlap, want none", c.disconnects.Load())
		}
	}
	for _, c := range old {
		c.waitClosed(t)
	}
	more("after the overlap")
	n.keptOut("checkout", first)
	if fresh.disconnects.Load()+bystander.disconnects.Load() != 0 {
		t.Errorf("got %d and %d interruptions of the new credentials and of another user, want none", fresh.disconnects.Load(), bystander.disconnects.Load())
	}
	cancel()
	load.Wait()
	checkStored(t, bystander.js, b)
}

func TestProcessRotationWithoutOverlapCutsTheOldOff(t *testing.T) {
	t.Parallel()
	n := newNode(t, who).start()
	file := n.kept("packer")
	old, other := n.mustLogin("packer", file), n.mustLogin("checkout", n.kept("checkout"))
	n.creds(exitOK, []string{"the old ones no longer work"}, "rotate", "shop/packer", "--yes")
	old.waitClosed(t)
	n.keptOut("packer", file)
	n.mustLogin("packer", n.credsFile("packer"))
	if other.disconnects.Load() != 0 {
		t.Errorf("got %d interruptions of another user, want none", other.disconnects.Load())
	}
}

// tokens are the account tokens that the server keeps, by file.
func (n *node) tokens() map[string][]byte {
	n.t.Helper()
	files, err := filepath.Glob(filepath.Join(n.data, "resolver", "*.jwt"))
	if err != nil || len(files) == 0 {
		n.t.Fatalf("got %d tokens, %v, want those of the accounts", len(files), err)
	}
	out := map[string][]byte{}
	for _, f := range files {
		out[f] = read(n.t, f)
	}
	return out
}

func TestProcessRevocationIsAtOnceAndForGood(t *testing.T) {
	t.Parallel()
	n := newNode(t, who).start()
	file := n.kept("checkout")
	c, other := n.mustLogin("checkout", file), n.mustLogin("packer", n.kept("packer"))
	before := n.tokens()
	publish(t, c.js, "orders.a", "before")
	n.creds(exitOK, []string{"shop/checkout is cut off", "creds rotate shop/checkout"}, "revoke", "shop/checkout", "--yes")
	c.waitClosed(t)
	n.keptOut("checkout", file)
	if other.disconnects.Load() != 0 {
		t.Errorf("got %d interruptions of another user, want none", other.disconnects.Load())
	}
	n.creds(exitFailed, []string{"revoked", "creds rotate shop/checkout"}, "show", "shop/checkout")
	n.creds(exitOK, []string{"revoked 2"}, "list")
	n.reload(who + "      late: {role: observer}\n") // an apply changes nothing about it
	n.keptOut("checkout", file)

	n.stop()
	n.start()
	n.keptOut("checkout", file)

	// Tokens from before the revocation, as an old backup would bring them.
	n.kill9()
	after := n.tokens()
	for f, token := range before {
		if err := os.WriteFile(f, token, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if maps.EqualFunc(before, after, bytes.Equal) {
		t.Fatal("got the same tokens before and after the revocation, want others")
	}
	n.start()
	n.keptOut("checkout", file)

	n.creds(exitOK, []string{"new credentials"}, "rotate", "shop/checkout", "--yes")
	n.keptOut("checkout", file)
	publish(t, n.mustLogin("checkout", n.credsFile("checkout")).js, "orders.a", "after")
}

// TestProcessRotationSurvivesKills kills the node while it rotates. Whatever it
// had come to, the credentials that it shows afterwards are good, and older
// ones are good or out, but never back.
func TestProcessRotationSurvivesKills(t *testing.T) {
	t.Parallel()
	n := newNode(t, who).start()
	out := map[string]string{} // credentials that were refused once, and their file
	rotated, current := 0, n.kept("checkout")
	for range 8 {
		var asking sync.WaitGroup
		asking.Go(func() {
			// It may or may not have an answer.
			_ = admin.NewClient(filepath.Join(n.data, "admin.sock")).ChangeUser(t.Context(), admin.CredsRotate, "shop", "checkout", 0)
		})
		<-time.After(time.Duration(rand.IntN(20)) * time.Millisecond) // somewhere in the middle of it
		n.kill9()
		asking.Wait()
		n.start()
		now := n.kept("checkout")
		publish(t, n.mustLogin("checkout", now).js, "orders.a", "after a kill")
		if !bytes.Equal(read(t, now), read(t, current)) {
			rotated++
			n.keptOut("checkout", current)
			out[string(read(t, current))] = current
		}
		for creds, file := range out {
			if creds == string(read(t, now)) {
				t.Fatal("got credentials back that had ended")
			}
			n.keptOut("checkout", file)
		}
		if shown := n.creds(exitOK, nil, "show", "shop/checkout"); shown != string(read(t, now)) {
			t.Error("got other credentials than those in the data directory, want the same")
		}
		current = now
	}
	t.Logf("8 kills, %d rotations were on disk", rotated)
}

// TestProcessFirstIdentitySurvivesKills kills a first start as soon as each of
// its traces is there.
func TestProcessFirstIdentitySurvivesKills(t *testing.T) {
	t.Parallel()
	for _, trace := range []string{"", "identity.json", "creds", "creds/shop/auditor.creds", "creds/shop/packer.creds", "resolver", "jetstream", "admin.sock"} {
		n := newNode(t, who)
		n.launch()
		eventually(t, patience, func() error {
			_, err := os.Stat(filepath.Join(n.data, trace))
			return err
		})
		n.kill9()
		before, _ := os.ReadFile(filepath.Join(n.data, "identity.json"))
		n.start()
		// What was there is kept: no key is made anew.
		after := string(read(t, filepath.Join(n.data, "identity.json")))
		for _, key := range seed.FindAllString(string(before), -1) {
			if !strings.Contains(after, key) {
				t.Errorf("killed at %q: got a key lost, want all of the identity kept", trace)
			}
		}
		for _, user := range []string{"auditor", "boss", "checkout", "packer"} {
			if _, err := n.login(user, n.credsFile(user), nats.NoReconnect()); err != nil {
				t.Errorf("killed at %q: got %v for %s, want it let in", trace, err, user)
			}
		}
		n.kill9()
	}
}
