// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

func TestDrainTellsClientsAndThenSendsThemAway(t *testing.T) {
	r := newRealm(t, "shop")
	e := started(t, r, r.settings(t), nil)
	addr, err := e.OpenClientPort()
	if err != nil {
		t.Fatal(err)
	}
	told := make(chan struct{}, 2)
	gone := make(chan struct{}, 2)
	opts := []nats.Option{
		nats.NoReconnect(), nats.Timeout(patience),
		nats.LameDuckModeHandler(func(*nats.Conn) {
			if err := e.Health(); err != nil {
				t.Errorf("got health %v while clients are sent away, want none", err)
			}
			if e.JetStreamReady() == nil {
				t.Error("got a ready engine while clients are sent away")
			}
			told <- struct{}{}
		}),
		nats.ClosedHandler(func(*nats.Conn) { gone <- struct{}{} }),
	}
	// The in-process client is sent away like one over TCP.
	connect(t, r, e, "shop", opts...)
	login, _ := r.login(t, "shop")
	if _, err := nats.Connect("nats://"+addr.String(), append(opts, login)...); err != nil {
		t.Fatal(err)
	}

	if err := e.Drain(t.Context()); err != nil {
		t.Fatalf("Drain: %v", err)
	}
	for range 2 {
		waitFor(t, told, "a client was not told")
		waitFor(t, gone, "a client was not sent away")
	}
	if got := e.Progress().Phase; got != PhaseStopped {
		t.Errorf("got phase %s, want %s", got, PhaseStopped)
	}
	if c, err := net.Dial("tcp", addr.String()); err == nil {
		c.Close()
		t.Error("got a connection after Drain, want the port closed")
	}
	select {
	case err := <-e.Fatal():
		t.Errorf("got %v, want no fatal error from a stop that was asked for", err)
	default:
	}
}

func TestDrainStopsAtOnceWhenItsContextEnds(t *testing.T) {
	r := newRealm(t, "shop")
	s := r.settings(t)
	s.LameDuckDuration, s.LameDuckGrace = 10*time.Minute, 9*time.Minute
	e := started(t, r, s, nil)
	addr, err := e.OpenClientPort()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	login, _ := r.login(t, "shop")
	if _, err := nats.Connect("nats://"+addr.String(), login, nats.NoReconnect(), nats.Timeout(patience),
		nats.LameDuckModeHandler(func(*nats.Conn) { cancel() })); err != nil {
		t.Fatal(err)
	}
	if err := e.Drain(ctx); err != nil {
		t.Fatalf("Drain: %v", err)
	}
	if ctx.Err() == nil {
		t.Error("got a Drain that ended before the client was told")
	}
	if got := e.Progress().Phase; got != PhaseStopped {
		t.Errorf("got phase %s, want %s", got, PhaseStopped)
	}
}

func TestDrainWithoutAnOpenPortStops(t *testing.T) {
	r := newRealm(t, "shop")
	s := r.settings(t)
	s.LameDuckDuration, s.LameDuckGrace = 10*time.Minute, 9*time.Minute
	e := started(t, r, s, nil)
	connect(t, r, e, "shop")
	if err := e.Drain(t.Context()); err != nil {
		t.Fatalf("Drain: %v", err)
	}
	if _, err := e.InProcessConn(); err == nil {
		t.Error("got a connection after Drain")
	}
}

func TestStopMayBeCalledAtAnyTime(t *testing.T) {
	r := newRealm(t)
	e := newEngine(t, r, r.settings(t), nil)
	if err := errors.Join(e.Stop(), e.Stop()); err != nil {
		t.Errorf("got %v from a stop before the start", err)
	}
	if err := e.Start(t.Context()); err == nil {
		t.Error("got no error from a Start after Stop")
	}
	if _, err := e.OpenClientPort(); diag.CodeOf(err) != diag.CodeListen {
		t.Errorf("got %v from OpenClientPort after Stop, want code %s", err, diag.CodeListen)
	}
	if e.Health() == nil {
		t.Error("got a healthy engine after Stop")
	}
}

func TestStopDoesNotWaitForEver(t *testing.T) {
	r := newRealm(t)
	e := started(t, r, r.settings(t), nil)
	e.stopLimit = 1
	if err := e.Stop(); diag.CodeOf(err) != diag.CodeStopTimeout {
		t.Errorf("got %v, want code %s", err, diag.CodeStopTimeout)
	}
	e.stopLimit = patience
	if err := e.Stop(); err != nil {
		t.Errorf("got %v from a second Stop, want it to wait for the first", err)
	}
}

func waitFor(t *testing.T, c <-chan struct{}, complaint string) {
	t.Helper()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-c:
	case <-timer.C:
		t.Fatal(complaint)
	}
}
