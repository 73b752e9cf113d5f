// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

func TestStartReturnsWhatTheServerCallsFatal(t *testing.T) {
	r := newRealm(t)
	s := r.settings(t)
	if err := os.WriteFile(filepath.Join(s.StoreDir, "jetstream"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	e := newEngine(t, r, s, nil)

	err := e.Start(t.Context())
	want := "start jetstream in " + s.StoreDir + ": storage directory is not a directory"
	if err == nil || err.Error() != want || diag.CodeOf(err) != diag.CodeEngine {
		t.Fatalf("got %v (%s), want %q", err, diag.CodeOf(err), want)
	}
	if got := e.Progress().Phase; got != PhaseFailed {
		t.Errorf("got phase %s, want %s", got, PhaseFailed)
	}
	if e.Health() == nil || e.JetStreamReady() == nil {
		t.Error("got a healthy engine after a fatal error")
	}
	select {
	case err := <-e.Fatal():
		t.Errorf("got %v delivered as well, want it returned only", err)
	default:
	}
	if _, err := e.InProcessConn(); diag.CodeOf(err) != diag.CodeNotReady {
		t.Errorf("got %v from a failed engine, want code %s", err, diag.CodeNotReady)
	}
}

// The reason why nothing here asks the server: it says that JetStream is enabled
// though it could not start.
func TestServerClaimsJetStreamAfterAFatalError(t *testing.T) {
	r := newRealm(t)
	s := r.settings(t)
	if err := os.WriteFile(filepath.Join(s.StoreDir, "jetstream"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	e := newEngine(t, r, s, nil)
	e.server.Start()
	if !e.server.JetStreamEnabled() || !e.server.Running() {
		t.Error("the server tells the truth now: JetStreamEnabled may be trusted")
	}
	if e.failure() == nil {
		t.Error("got no recorded error")
	}
}

func TestStartRunsOnlyOnce(t *testing.T) {
	r := newRealm(t)
	e := started(t, r, r.settings(t), nil)
	if err := e.Start(t.Context()); err == nil {
		t.Error("got no error from a second Start")
	}
	if err := e.Health(); err != nil {
		t.Errorf("got %v, want the running engine left alone", err)
	}
}

func TestStartGivesUpWhenItsContextEnds(t *testing.T) {
	r := newRealm(t, "shop")
	s := r.settings(t)
	e := started(t, r, s, nil)
	fill(t, r, e, "shop", 60, 1)
	if err := e.Stop(); err != nil {
		t.Fatal(err)
	}

	// Cancelled with the first stream back, the recovery is cut short.
	ctx, cancel := context.WithCancel(t.Context())
	again := newEngine(t, r, s, onLine{"Restored", cancel})
	err := again.Start(ctx)
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v, want %v", err, context.Canceled)
	}
	if p := again.Progress(); p.Phase != PhaseFailed {
		t.Errorf("got phase %s, want %s", p.Phase, PhaseFailed)
	}

	third := started(t, r, s, nil)
	js, err := jetstream.New(connect(t, r, third, "shop"), jetstream.WithDefaultTimeout(patience))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 60 {
		st, err := js.Stream(t.Context(), fmt.Sprintf("S%d", i))
		if err != nil {
			t.Fatalf("stream S%d after a recovery that was cut short: %v", i, err)
		}
		if got := st.CachedInfo().State.Msgs; got != 1 {
			t.Errorf("got %d messages in S%d, want 1", got, i)
		}
	}
}

// interrupted is a resolver whose start is the moment of a stop.
type interrupted struct {
	server.AccountResolver
	stop func()
}

func (i interrupted) Start(s *server.Server) error {
	i.stop()
	return i.AccountResolver.Start(s)
}

// The server panics when it is shut down between its system account and its
// resolver.
func TestStartCanBeCutShortBeforeItRestoresStreams(t *testing.T) {
	r := newRealm(t, "shop")
	e := newEngine(t, r, r.settings(t), nil)
	ctx, cancel := context.WithCancel(t.Context())
	e.server.SetAccountResolver(interrupted{e.resolver, func() {
		cancel()
		// Time for a stop that does not wait to take everything away.
		down := make(chan struct{})
		go func() { defer close(down); e.server.WaitForShutdown() }()
		select {
		case <-down:
		case <-time.After(100 * time.Millisecond):
		}
	}})
	if err := e.Start(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
	if err := e.Stop(); err != nil {
		t.Errorf("got %v from Stop, want none", err)
	}
}

func TestFatalTellsOfAServerThatStopsByItself(t *testing.T) {
	r := newRealm(t)
	e := started(t, r, r.settings(t), nil)
	e.server.Shutdown()
	err := <-e.Fatal()
	if diag.CodeOf(err) != diag.CodeEngine {
		t.Errorf("got %v, want code %s", err, diag.CodeEngine)
	}
}

// Why the data directory needs a lock of its own.
func TestTwoServersStartOnOneStore(t *testing.T) {
	r := newRealm(t)
	s := r.settings(t)
	started(t, r, s, nil)
	other := newEngine(t, r, s, nil)
	if err := other.Start(t.Context()); err != nil {
		t.Errorf("got %v: the server locks its store now, and so the data directory need not", err)
	}
}

// A memory limit of 0 sends the server down another path through its defaults.
func TestLimitsAndDurabilityReachTheStore(t *testing.T) {
	for _, memory := range []int64{0, 1 << 20} {
		r := newRealm(t)
		s := r.settings(t)
		s.SyncAlways, s.SyncInterval, s.Domain, s.MaxMemoryBytes = true, 0, "edge", memory
		c := started(t, r, s, nil).server.JetStreamConfig()
		if !c.SyncAlways || c.Domain != "edge" || c.MaxStore != s.MaxStoreBytes || c.MaxMemory != memory || !c.Strict {
			t.Errorf("got %+v, want strict durability, domain edge, %d and %d bytes", c, s.MaxStoreBytes, memory)
		}
		s = r.settings(t)
		s.SyncInterval, s.MaxMemoryBytes = 1500*time.Millisecond, memory
		c = started(t, r, s, nil).server.JetStreamConfig()
		if c.SyncAlways || c.SyncInterval != s.SyncInterval {
			t.Errorf("got sync always %v, interval %v, want %v", c.SyncAlways, c.SyncInterval, s.SyncInterval)
		}
	}
}
