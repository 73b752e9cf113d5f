// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go/jetstream"
)

// full is what a publisher is told while the brake is on.
const full = jetstream.ErrorCode(10002)

func TestBrakeStopsPublishersAndNobodyElse(t *testing.T) {
	r := newRealm(t, "shop", "unused")
	s := r.settings(t)
	limited := func(c *jwt.AccountClaims) {
		c.Limits.JetStreamLimits = jwt.JetStreamLimits{MemoryStorage: 1 << 20, DiskStorage: 1 << 24, Streams: 9, Consumer: 7, MaxAckPending: 99}
	}
	s.Preload[r.public(t, "shop")] = r.account(t, "shop", limited)
	h := &logged{}
	e := started(t, r, s, h)
	js, err := jetstream.New(connect(t, r, e, "shop"))
	if err != nil {
		t.Fatal(err)
	}
	configs := []jetstream.StreamConfig{
		{Name: "LIMITS", Subjects: []string{"limits.>"}, MaxBytes: 1 << 20},
		{Name: "WORK", Subjects: []string{"work.>"}, Retention: jetstream.WorkQueuePolicy, AllowAtomicPublish: true},
		{Name: "MEMORY", Subjects: []string{"memory.>"}, Storage: jetstream.MemoryStorage},
	}
	for _, c := range configs {
		if _, err := js.CreateStream(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	publish := func(subject string) error {
		_, err := js.Publish(t.Context(), subject, []byte("m"))
		return err
	}
	for _, subject := range []string{"limits.a", "work.a", "work.b", "memory.a"} {
		if err := publish(subject); err != nil {
			t.Fatal(err)
		}
	}
	worker, err := js.CreateConsumer(t.Context(), "WORK", jetstream.ConsumerConfig{Durable: "worker"})
	if err != nil {
		t.Fatal(err)
	}
	before, err := js.AccountInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	accounts := []string{s.Preload[r.public(t, "shop")], r.account(t, "unused"), r.account(t, "SYS")}

	for range 2 { // again is no news
		if err := e.Brake(true, accounts); err != nil {
			t.Fatal(err)
		}
	}
	for _, subject := range []string{"limits.a", "work.a"} {
		if err, apiErr := publish(subject), new(jetstream.APIError); !errors.As(err, &apiErr) || apiErr.ErrorCode != full {
			t.Errorf("%s: got %v, want error %d", subject, err, full)
		}
	}
	if err := publish("memory.b"); err != nil {
		t.Errorf("got %v for a stream in memory, want it stored", err)
	}
	batch, err := worker.Fetch(2)
	if err != nil {
		t.Fatal(err)
	}
	done := 0
	for m := range batch.Messages() {
		if err := m.DoubleAck(t.Context()); err != nil {
			t.Errorf("got %v for an acknowledgement, want it taken", err)
		}
		done++
	}
	if done != 2 {
		t.Errorf("got %d messages, want those that were stored before", done)
	}
	if _, err := js.CreateConsumer(t.Context(), "LIMITS", jetstream.ConsumerConfig{Durable: "late"}); err != nil {
		t.Errorf("got %v for a new consumer, want it made", err)
	}
	limits, err := js.Stream(t.Context(), "LIMITS")
	if err != nil {
		t.Fatal(err)
	}
	if err := limits.Purge(t.Context()); err != nil {
		t.Errorf("got %v for a purge, want it done", err)
	}
	if err, apiErr := publish("limits.a"), new(jetstream.APIError); !errors.As(err, &apiErr) || apiErr.ErrorCode != full {
		t.Errorf("into a purged stream: got %v, want error %d", err, full)
	}

	// Whoever set the brake has said so.
	if i := slices.IndexFunc(h.all(), func(l string) bool { return strings.HasPrefix(l, "WARN") && strings.Contains(l, "limits exceeded") }); i >= 0 {
		t.Errorf("got %q in the log while the brake is on, want nothing of refused publishers", h.all()[i])
	}
	if !slices.ContainsFunc(h.all(), func(l string) bool { return strings.HasPrefix(l, "DEBUG") && strings.Contains(l, "limits exceeded") }) {
		t.Error("got nothing of refused publishers at DEBUG: the server says it in other words")
	}
	if err := e.Brake(false, accounts); err != nil {
		t.Fatal(err)
	}
	for _, subject := range []string{"limits.a", "work.a"} {
		if err := publish(subject); err != nil {
			t.Errorf("%s: got %v after the brake, want it stored", subject, err)
		}
	}
	after, err := js.AccountInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before.Limits, after.Limits); diff != "" {
		t.Errorf("limits after the brake differ (-before +after):\n%s", diff)
	}
}

// TestBrakeLetsGoWhateverStreamsHaveSetAside has an account whose limit and whose streams
// are together more than the store: the server takes that when it starts, and not as a
// change.
func TestBrakeLetsGoWhateverStreamsHaveSetAside(t *testing.T) {
	r := newRealm(t, "shop")
	s := r.settings(t)
	const limit = 800 << 20
	s.MaxStoreBytes = 1000 << 20
	s.Preload[r.public(t, "shop")] = r.account(t, "shop", func(c *jwt.AccountClaims) {
		c.Limits.JetStreamLimits = jwt.JetStreamLimits{MemoryStorage: 1 << 20, DiskStorage: limit, Streams: 9, Consumer: 7}
	})
	e := started(t, r, s, nil)
	js, err := jetstream.New(connect(t, r, e, "shop"))
	if err != nil {
		t.Fatal(err)
	}
	for subject, size := range map[string]int64{"a": 400 << 20, "b": 300 << 20} {
		if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: strings.ToUpper(subject), Subjects: []string{subject}, MaxBytes: size}); err != nil {
			t.Fatal(err)
		}
		if _, err := js.Publish(t.Context(), subject, []byte("m")); err != nil {
			t.Fatal(err)
		}
	}
	accounts := []string{s.Preload[r.public(t, "shop")]}
	for range 2 {
		if err := e.Brake(true, accounts); err != nil {
			t.Fatal(err)
		}
		if _, err := js.Publish(t.Context(), "a", []byte("m")); err == nil {
			t.Error("got a message stored, want publishers stopped")
		}
		if err := e.Brake(false, accounts); err != nil {
			t.Fatal(err)
		}
		if _, err := js.Publish(t.Context(), "a", []byte("m")); err != nil {
			t.Errorf("got %v, want publishers to go on", err)
		}
		info, err := js.AccountInfo(t.Context())
		if err != nil || info.Limits.MaxStore != limit {
			t.Errorf("got a limit of %d and %v, want %d again", info.Limits.MaxStore, err, limit)
		}
	}
}
