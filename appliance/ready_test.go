// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-mq/holdfast/appliance/engine"
	"github.com/holdfast-mq/holdfast/bootstrap"
)

// TestWhatOnlyOthersKeepDoesNotKeepANodeFromBeingReady has streams of which nobody
// answered, or that could not be read for another reason.
func TestWhatOnlyOthersKeepDoesNotKeepANodeFromBeingReady(t *testing.T) {
	unknown := func(stream, consumer string, silent bool) bootstrap.Result {
		return bootstrap.Result{Outcome: bootstrap.Skipped, Action: bootstrap.Action{
			Op: bootstrap.Unknown, Kind: bootstrap.KindStream, Account: "shop", Stream: stream, Consumer: consumer, Reason: "why", Silent: silent,
		}}
	}
	r := bootstrap.Report{Results: []bootstrap.Result{
		unknown("AWAY", "", true), unknown("AWAY", "c", true), unknown("HERE", "", true), unknown("HERE", "far", true), unknown("HERE", "near", true),
		unknown("UNREAD", "", false),
		{Outcome: bootstrap.Failed, Action: bootstrap.Action{Op: bootstrap.Create, Account: "shop", Stream: "NEW"}, Err: errors.New("no")},
	}}
	keeps := func(a bootstrap.Action) bool { return a.Stream == "HERE" && a.Consumer != "far" }
	got := strings.Join(lacking(r, keeps), "\n")
	for _, want := range []string{"shop/HERE: why", "shop/HERE/near: why", "shop/UNREAD: why", "shop/NEW: no"} {
		if !strings.Contains(got, want) {
			t.Errorf("got %q, want %q in it", got, want)
		}
	}
	if strings.Contains(got, "AWAY") || strings.Contains(got, "far") {
		t.Errorf("got %q, want nothing of what only others keep", got)
	}
	if r.Converged() || !r.Retry() {
		t.Error("got a report that is done with, want it tried again")
	}
}

// TestWhatPassesByItselfIsNotTold has a node of a cluster fail for a moment, and for long.
func TestWhatPassesByItselfIsNotTold(t *testing.T) {
	begun := time.Unix(1000, 0)
	fault := errors.New("no answer")
	for name, c := range map[string]struct {
		cluster *cluster
		err     error
		after   time.Duration
		want    bool
	}{
		"at first":              {&cluster{}, fault, 0, false},
		"still the same moment": {&cluster{}, fault, lastsFor - time.Second, false},
		"another reason by now": {&cluster{}, errors.New("refused"), lastsFor, true},
		"nothing":               {&cluster{}, nil, 0, true},
		"a single node":         {nil, fault, 0, true},
	} {
		a := &Appliance{cluster: c.cluster, failing: map[string]time.Time{}}
		a.lasts("x", fault, begun)
		if got := a.lasts("x", c.err, begun.Add(c.after)); got != c.want {
			t.Errorf("%s: got %t, want %t", name, got, c.want)
		}
	}
	a := &Appliance{cluster: &cluster{}, failing: map[string]time.Time{}}
	a.lasts("x", fault, begun)
	a.lasts("x", nil, begun.Add(time.Second))
	if a.lasts("x", fault, begun.Add(lastsFor)) {
		t.Error("got it told, want it begun anew after it had worked")
	}
}

// TestNoFiguresBeforeTheyAreCounted: "0 of 0" would look like a store that is gone.
func TestNoFiguresBeforeTheyAreCounted(t *testing.T) {
	for want, p := range map[string]engine.Progress{
		"counting what is stored":              {Phase: engine.PhaseNew},
		"encrypting streams: 1 of 2, now shop": {Phase: engine.PhaseNew, Doing: "encrypting", StreamsDone: 1, StreamsTotal: 2, Current: "shop"},
		"recovering streams: 0 of 1, 0 B of 5": {Phase: engine.PhaseRecovering, StreamsTotal: 1, BytesTotal: 5},
	} {
		if got := recoveryLine(p); !strings.HasPrefix(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
