// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/holdfast-mq/holdfast/appliance/admin"
	"github.com/holdfast-mq/holdfast/appliance/config"
	"github.com/holdfast-mq/holdfast/appliance/ingest"
	"github.com/holdfast-mq/holdfast/appliance/loadtest"
)

// benched is a node on whose disk group commit pays, and a scratch stream.
type benched struct {
	*running
	place   loadtest.Place
	request admin.BenchRequest
}

func bench(t *testing.T) *benched {
	t.Helper()
	a := open(t, options(t, t.TempDir(), shop, &logged{}))
	a.flush = time.Millisecond
	b := &benched{running: run(t, a).waitReady(t)}
	login, err := a.Login("shop", "", false)
	if err != nil {
		t.Fatal(err)
	}
	direct, err := loadtest.NewDirect(loadtest.Target{URL: login.LocalURL, Creds: login.Creds})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(direct.Close)
	if b.place, err = direct.Make(t.Context(), loadtest.Wish{WorkQueue: true, MaxBytes: 16 << 20}); err != nil {
		t.Fatal(err)
	}
	b.request = admin.BenchRequest{Account: "shop", Stream: b.place.Stream, Subject: b.place.Subject + ".>", Consumer: b.place.Consumer}
	return b
}

// lead returns when messages are led through group commit, and what ends that.
func (b *benched) lead(t *testing.T) (end func() error) {
	t.Helper()
	end, err := admin.NewClient(b.Addresses()["admin"]).Bench(t.Context(), b.request)
	if err != nil {
		t.Fatal(err)
	}
	return end
}

// gone waits until nothing is led through group commit for a measurement.
func (b *benched) gone(t *testing.T) {
	t.Helper()
	eventually(t, func() error {
		b.applying.Lock()
		defer b.applying.Unlock()
		ours := func(l ingest.Lane) bool { return l.Stream == b.place.Stream }
		if slices.ContainsFunc(b.grouped["shop"], ours) || len(b.scratch["shop"]) > 0 {
			return fmt.Errorf("got lanes %v and %v, want none of the measurement", b.grouped, b.scratch)
		}
		return nil
	})
}

// through counts what went through group commit.
func (b *benched) through() (grouped, all uint64) {
	s := b.ingest.Accounts()["shop"]
	if s == nil {
		return 0, 0
	}
	return s.Grouped.Load(), s.Grouped.Load() + s.Alone.Load()
}

// flood has many publish n messages each, and wait for each acknowledgement.
func (b *benched) flood(t *testing.T, n int) {
	t.Helper()
	const publishers = 32
	var wg sync.WaitGroup
	errs := make(chan error, publishers)
	for i := range publishers {
		js := b.jetStream(t)
		wg.Go(func() {
			defer js.Conn().Close() // or a stop would wait for it
			for range n {
				ack, err := js.Publish(t.Context(), fmt.Sprintf("%s.%d", b.place.Subject, i), []byte("x"))
				if err == nil && ack.Stream != b.place.Stream {
					err = errors.New("acknowledged by stream " + ack.Stream)
				}
				if err != nil {
					errs <- err
					return
				}
			}
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		t.Fatal(err)
	}
}

func (b *benched) stored(t *testing.T) uint64 {
	t.Helper()
	js := b.jetStream(t)
	defer js.Conn().Close()
	s, err := js.Stream(t.Context(), b.place.Stream)
	if err != nil {
		t.Fatal(err)
	}
	return s.CachedInfo().State.LastSeq
}

func TestBenchGroupsUntilItEndsAndAppliesDoNotEndIt(t *testing.T) {
	b := bench(t)
	b.flood(t, 5)
	if _, all := b.through(); all != 0 {
		t.Errorf("got %d messages through group commit before anybody asked, want none", all)
	}
	end := b.lead(t)
	b.flood(t, 20)
	grouped, all := b.through()
	if grouped == 0 || all != 32*20 {
		t.Errorf("got %d messages grouped, of %d, want some of %d", grouped, all, 32*20)
	}
	if _, err := b.converge(t.Context(), newChange(b.config(), byReload)); err != nil {
		t.Fatal(err)
	}
	b.flood(t, 20)
	if _, after := b.through(); after != 2*all {
		t.Errorf("got %d messages through group commit after an apply, want %d", after, 2*all)
	}

	if err := end(); err != nil {
		t.Error(err)
	}
	b.gone(t)
	b.flood(t, 5)
	if _, after := b.through(); after != 2*all {
		t.Errorf("got %d messages through group commit after the end, want %d as before", after, 2*all)
	}
	if got, want := b.stored(t), uint64(32*50); got != want {
		t.Errorf("got %d messages stored, want the %d acknowledged", got, want)
	}
	b.stop(t)
}

// TestBenchGroupsAcknowledgements is what a work queue of the file has, too.
func TestBenchGroupsAcknowledgements(t *testing.T) {
	b := bench(t)
	end := b.lead(t)
	js := b.jetStream(t)
	c, err := js.Consumer(t.Context(), b.place.Stream, b.place.Consumer)
	if err != nil {
		t.Fatal(err)
	}
	acknowledged := 0
	// The first ones go before it is known where the stream begins.
	eventually(t, func() error {
		b.flood(t, 5)
		msgs, err := c.Fetch(32*5, jetstream.FetchMaxWait(patience))
		if err != nil {
			t.Fatal(err)
		}
		for m := range msgs.Messages() {
			if err := m.Ack(); err != nil {
				t.Fatal(err)
			}
			acknowledged++
		}
		if b.ingest.Accounts()["shop"].AcksGrouped.Load() == 0 {
			return errors.New("got no acknowledgements grouped, want some")
		}
		return nil
	})
	eventually(t, func() error {
		s, err := js.Stream(t.Context(), b.place.Stream)
		if err != nil {
			return err
		}
		if left := s.CachedInfo().State.Msgs; left != 0 {
			return fmt.Errorf("got %d messages after %d acknowledgements, want none", left, acknowledged)
		}
		return nil
	})
	js.Conn().Close()
	if err := end(); err != nil {
		t.Error(err)
	}
	b.gone(t)
	b.stop(t)
}

func TestBenchEndsWithTheNode(t *testing.T) {
	b := bench(t)
	led, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- b.Bench(context.Background(), b.request, func() { close(led) }) }()
	select {
	case <-led:
	case err := <-ended:
		t.Fatal(err)
	}
	if err := b.Bench(t.Context(), b.request, func() {}); err == nil || !strings.Contains(err.Error(), "measured already") {
		t.Errorf("got %v for a second one, want that there is one", err)
	}
	b.stop(t)
	select {
	case err := <-ended:
		if !errors.Is(err, errStopping) {
			t.Errorf("got %v, want %v", err, errStopping)
		}
	case <-time.After(patience):
		t.Error("got no end after that of the node, want one")
	}
}

func TestBenchRefusesWhatIsNoScratchStream(t *testing.T) {
	b := bench(t)
	js := b.jetStream(t)
	defer js.Conn().Close()
	scratch := map[string]string{"holdfast.bench": "scratch"}
	for _, c := range []jetstream.StreamConfig{
		{Name: "FOREIGN", Subjects: []string{"f.>"}, AllowAtomicPublish: true},
		{Name: "SINGLE", Subjects: []string{"s.>"}, Metadata: scratch},
		{Name: "BARE", Subjects: []string{"b.>"}, Metadata: scratch, AllowAtomicPublish: true},
	} {
		if _, err := js.CreateStream(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		change func(r *admin.BenchRequest)
		want   string
	}{
		"declared":         {func(r *admin.BenchRequest) { r.Stream = "ORDERS" }, "is declared"},
		"unknown":          {func(r *admin.BenchRequest) { r.Stream = "NONE" }, "does not exist"},
		"unknown account":  {func(r *admin.BenchRequest) { r.Account = "none" }, `account "none" is not in the file`},
		"not marked":       {func(r *admin.BenchRequest) { r.Stream, r.Subject = "FOREIGN", "f.>" }, "not made by `holdfast bench`"},
		"no batches":       {func(r *admin.BenchRequest) { r.Stream, r.Subject = "SINGLE", "s.>" }, "no atomic batches"},
		"another subject":  {func(r *admin.BenchRequest) { r.Subject = "orders.>" }, `want "orders.>"`},
		"no consumer":      {func(r *admin.BenchRequest) { r.Stream, r.Subject = "BARE", "b.>" }, "only consumer"},
		"another consumer": {func(r *admin.BenchRequest) { r.Consumer = "x" }, "only consumer"},
	} {
		r := b.request
		c.change(&r)
		err := b.Bench(t.Context(), r, func() { t.Errorf("%s: got it led, want it refused", name) })
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
	b.gone(t)

	b.stop(t)
}

func TestBenchSaysWhyADeclaredStreamWouldNotBeGrouped(t *testing.T) {
	b := bench(t)
	many := make([]config.Subject, mostMapped)
	for i := range many {
		many[i] = config.Subject(fmt.Sprintf("many.%d", i))
	}
	older, cfg := errors.New("older than what was applied"), b.config()
	for _, c := range []struct {
		name string
		set  func(cfg *config.Config)
		want string
	}{
		{"interval", func(cfg *config.Config) { cfg.Storage.Durability = "interval" }, "no fsync to share"},
		{"subjects", func(cfg *config.Config) {
			// Declared streams come first by their names.
			cfg.Accounts = map[string]config.Account{"shop": {Streams: map[string]config.Stream{"FIRST": {Subjects: many}}}}
		}, "50 subjects"},
		{"disk", func(*config.Config) { b.flush = 0 }, "a flush of this disk takes 0s only"},
		{"stale", func(*config.Config) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.stale = older
		}, older.Error()},
	} {
		other := *cfg
		c.set(&other)
		b.current.Store(&other)
		err := b.Bench(t.Context(), b.request, func() { t.Errorf("%s: got it led, want it refused", c.name) })
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
	}
	b.stop(t)
}

func TestScratchStreamIsNoDifference(t *testing.T) {
	b := bench(t)
	plan, err := b.compare(t.Context(), newChange(b.config(), ""), nil)
	if err != nil || strings.Contains(plan.String(), b.place.Stream) {
		t.Errorf("got %v and\n%s\nwant nothing of the scratch stream", err, plan)
	}
	b.stop(t)
}
