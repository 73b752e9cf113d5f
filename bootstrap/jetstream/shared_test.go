// SPDX-License-Identifier: Apache-2.0

package jetstream_test

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/holdfast-mq/holdfast/appliance/diag"
	"github.com/holdfast-mq/holdfast/bootstrap/jetstream"
)

var sharedSecret = []byte("a secret of more than thirty-two characters")

func openShared(t *testing.T, c *jetstream.Client, secret []byte) *jetstream.Shared {
	t.Helper()
	s, err := c.Shared(internal, 1, secret)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSharedIdentityIsChangedByOneAtATime(t *testing.T) {
	t.Parallel()
	server := run(t, openOptions(t))
	client := openClient(t, server)
	a, b := openShared(t, client, sharedSecret), openShared(t, client, sharedSecret)
	if data, at, err := a.Load(t.Context()); err != nil || at != 0 || data != nil {
		t.Fatalf("got %q at %d and %v, want nothing yet", data, at, err)
	}
	heard := make(chan struct{}, 8)
	stop, err := b.Watch(func() { heard <- struct{}{} })
	if err != nil {
		t.Fatal(err)
	}
	defer stop()

	first, err := a.Store(t.Context(), []byte("one"), 0)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	select {
	case <-heard:
	case <-ctx.Done():
		t.Error("got no word of the change, want some")
	}
	if data, at, err := b.Load(t.Context()); err != nil || at != first || string(data) != "one" {
		t.Errorf("got %q at %d and %v, want what the other stored at %d", data, at, err, first)
	}
	second, err := b.Store(t.Context(), []byte("two"), first)
	if err != nil {
		t.Fatal(err)
	}
	// a has not heard of it: what it makes of the first would undo the second.
	if _, err := a.Store(t.Context(), []byte("three"), first); diag.CodeOf(err) != diag.CodePlanMoved {
		t.Errorf("got %v, want %s", err, diag.CodePlanMoved)
	}
	if data, at, err := a.Load(t.Context()); err != nil || at != second || string(data) != "two" {
		t.Errorf("got %q at %d and %v, want the second", data, at, err)
	}
}

func TestSharedIdentityIsSealed(t *testing.T) {
	t.Parallel()
	server := run(t, openOptions(t))
	client := openClient(t, server)
	s := openShared(t, client, sharedSecret)
	if _, err := s.Store(t.Context(), []byte("SEEDS"), 0); err != nil {
		t.Fatal(err)
	}
	nc, err := nats.Connect("", nats.InProcessServer(server))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	raw, err := nc.Request("$JS.API.STREAM.MSG.GET.IDENTITY", []byte(`{"last_by_subj":"identity"}`), 5*time.Second)
	if err != nil || bytes.Contains(raw.Data, []byte("U0VFRFM")) || bytes.Contains(raw.Data, []byte("SEEDS")) {
		t.Errorf("got %q and %v, want nothing that can be read", raw.Data, err)
	}
	other := openShared(t, client, append([]byte("an"), sharedSecret...))
	if data, _, err := other.Load(t.Context()); diag.CodeOf(err) != diag.CodeClusterSecret || data != nil {
		t.Errorf("got %q and %v, want %s", data, err, diag.CodeClusterSecret)
	}
}
