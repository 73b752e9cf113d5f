// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"testing"
	"time"

	"golang.org/x/sys/windows/svc"
)

// managed runs a node under a handler, as the service manager does.
type managed struct {
	t      *testing.T
	orders chan svc.ChangeRequest
	told   chan svc.Status
	ended  chan [2]uint32 // specific, code
	exited chan int
}

func manage(t *testing.T, node func(drain, now context.Context, n Notifier) int) *managed {
	m := &managed{t, make(chan svc.ChangeRequest), make(chan svc.Status), make(chan [2]uint32, 1), make(chan int, 1)}
	h := &handler{node: node, exit: func(code int) { m.exited <- code }}
	go func() {
		specific, code := h.Execute(nil, m.orders, m.told)
		var s uint32
		if specific {
			s = 1
		}
		m.ended <- [2]uint32{s, code}
	}()
	return m
}

func (m *managed) want(state svc.State, checkPoint uint32) svc.Status {
	m.t.Helper()
	select {
	case s := <-m.told:
		if s.State != state || s.CheckPoint != checkPoint {
			m.t.Fatalf("got state %d, check point %d, want %d, %d", s.State, s.CheckPoint, state, checkPoint)
		}
		return s
	case <-time.After(30 * time.Second):
		m.t.Fatal("nothing was told")
	}
	return svc.Status{}
}

func (m *managed) wantEnd(specific, code uint32) {
	m.t.Helper()
	select {
	case got := <-m.ended:
		if got != [2]uint32{specific, code} {
			m.t.Errorf("got specific %d, exit code %d, want %d, %d", got[0], got[1], specific, code)
		}
	case <-time.After(30 * time.Second):
		m.t.Fatal("the service did not end")
	}
}

func TestServiceTellsThatALongStartGetsOn(t *testing.T) {
	m := manage(t, func(drain, _ context.Context, n Notifier) int {
		n.Extend(2*time.Minute, "recovering")
		n.Extend(30*time.Second, "recovering")
		n.Ready("ready")
		n.Status("2 streams")
		<-drain.Done()
		n.Stopping()
		n.Extend(time.Minute, "writing")
		return 0
	})
	m.want(svc.StartPending, 0)
	if s := m.want(svc.StartPending, 1); s.WaitHint != 240_000 {
		t.Errorf("got a hint of %d ms, want twice what was asked for", s.WaitHint)
	}
	m.want(svc.StartPending, 2)
	if s := m.want(svc.Running, 0); s.Accepts != svc.AcceptStop|svc.AcceptPreShutdown {
		t.Errorf("got %b accepted, want a stop and the announcement of a shutdown", s.Accepts)
	}
	m.want(svc.Running, 0)
	m.orders <- svc.ChangeRequest{Cmd: svc.PreShutdown}
	m.want(svc.StopPending, 1)
	m.want(svc.StopPending, 2)
	m.wantEnd(0, 0)
}

func TestServiceIsAsCrashedWhenItsNodeBreaks(t *testing.T) {
	m := manage(t, func(_, _ context.Context, n Notifier) int {
		n.Ready("ready")
		return 1
	})
	m.want(svc.StartPending, 0)
	m.want(svc.Running, 0)
	select {
	case code := <-m.exited:
		if code != 1 {
			t.Errorf("got exit code %d, want 1", code)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("the process was not ended: nobody starts it again")
	}
}

func TestServiceStaysStoppedWhereARestartDoesNotHeal(t *testing.T) {
	m := manage(t, func(context.Context, context.Context, Notifier) int { return 78 })
	m.want(svc.StartPending, 0)
	m.wantEnd(1, 78)
	if len(m.exited) > 0 {
		t.Error("the process was ended: it would be started again")
	}
}
