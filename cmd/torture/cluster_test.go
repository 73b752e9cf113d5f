// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// copied is the same holding on three nodes, each its own.
func copied(h holding) []holding {
	h.first = 1
	out := []holding{h, h, h}
	for i := range out {
		out[i].messages = maps.Clone(h.messages)
	}
	return out
}

func TestCopiesThatAreNotTheSameAreFound(t *testing.T) {
	for name, test := range map[string]struct {
		does func(copies []holding)
		want []at
	}{
		"the same":                      {func([]holding) {}, nil},
		"one lacks a message":           {func(c []holding) { delete(c[2].messages, 2) }, []at{{unequal, 2}}},
		"one has one more":              {func(c []holding) { delete(c[0].messages, 2); delete(c[1].messages, 2) }, []at{{unequal, 2}}},
		"the first lacks one":           {func(c []holding) { delete(c[0].messages, 2) }, []at{{unequal, 2}, {unequal, 2}}},
		"one sequence, two contents":    {func(c []holding) { c[1].messages[3] = stored{"c", 7} }, []at{{unequal, 3}}},
		"one sequence, two messages":    {func(c []holding) { c[1].messages[3] = stored{"x", 102} }, []at{{unequal, 3}}},
		"one counts differently":        {func(c []holding) { c[1].count++ }, []at{{unequal, 0}}},
		"one goes on to another end":    {func(c []holding) { c[1].last++ }, []at{{unequal, 0}}},
		"one begins somewhere else":     {func(c []holding) { c[2].first++ }, []at{{unequal, 0}}},
		"all lack what they did before": {func(c []holding) { delete(c[0].messages, 1); delete(c[1].messages, 1); delete(c[2].messages, 1) }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			_, h := kept(false)
			copies := copied(h)
			test.does(copies)
			same(t, judgeCopies("S", []string{"n1", "n2", "n3"}, copies), test.want...)
		})
	}
}

// What all three nodes agree on can be a history that nobody was told.
func TestEqualCopiesAreStillComparedWithTheBooks(t *testing.T) {
	l, h := kept(false)
	l.publishing("e", 9)
	for name, test := range map[string]struct {
		h    holding
		want []at
	}{
		"a lost message":                       {without(h, 3), []at{{lost, 3}}},
		"an old sequence with another payload": {with(h, 4, stored{"e", 9}), []at{{reused, 4}}},
	} {
		t.Run(name, func(t *testing.T) {
			copies := copied(test.h)
			same(t, judgeCopies("S", []string{"n1", "n2", "n3"}, copies))
			same(t, l.judgeStored(copies[1]), test.want...)
		})
	}
}

func TestWhatOneNodeShowsMustFitWhatOthersShowed(t *testing.T) {
	for name, test := range map[string]struct {
		does func(*ledger)
		want []at
	}{
		"the same":                          {func(l *ledger) { l.observed(4, "d", 103) }, nil},
		"another payload":                   {func(l *ledger) { l.observed(4, "d", 7) }, []at{{changed, 4}}},
		"a message that nobody sent":        {func(l *ledger) { l.observed(5, "x", 7) }, []at{{changed, 5}}},
		"another than was acknowledged":     {func(l *ledger) { l.observed(4, "e", 104) }, []at{{reused, 4}}},
		"another than one saw before":       {func(l *ledger) { l.observed(5, "e", 104); l.observed(5, "f", 105) }, []at{{reused, 5}}},
		"then another is acknowledged":      {func(l *ledger) { l.observed(5, "e", 104); l.delivered(delivery{5, 5, 1}, "f", 105) }, []at{{reused, 5}}},
		"acknowledged by one on its own":    {func(l *ledger) { l.alone("e", 5, "n1") }, []at{{minority, 5}}},
		"noted findings are not told again": {func(l *ledger) { l.alone("e", 5, "n1"); l.noted() }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			l, _ := kept(false)
			l.publishing("e", 104)
			l.publishing("f", 105)
			test.does(l)
			same(t, l.noted(), test.want...)
		})
	}
}

// What one node showed must be there in the end, like what was acknowledged.
func TestAnEndBeforeWhatWasSeenIsFound(t *testing.T) {
	l, h := kept(false)
	l.publishing("e", 104)
	l.observed(5, "e", 104)
	same(t, l.judgeStored(h), at{backwards, 0})
}

func TestIsolationHasToLastFromTheRequestToTheAnswer(t *testing.T) {
	var i isolation
	if i.of(1) != 0 {
		t.Error("got an isolated node before anything happened")
	}
	i.set(1, true)
	before := i.of(1)
	if before == 0 || i.of(1) != before || i.of(2) != 0 || i.of(atLarge) != 0 {
		t.Errorf("got %d, %d and %d, want node 1 alone isolated", before, i.of(2), i.of(atLarge))
	}
	i.set(0, false)
	i.set(1, true)
	if i.of(1) == before || i.lasted(1, before) || i.lasted(1, 0) || i.asked != 0 {
		t.Error("got the same isolation after it had ended")
	}
	if !i.lasted(1, i.of(1)) || i.asked != 1 {
		t.Errorf("got %d requests to a node that is cut off, want 1", i.asked)
	}
}

func TestLongestTimeWithoutAnAcknowledgementHasNoEndYet(t *testing.T) {
	var p pulse
	start := time.Unix(1000, 0)
	second := func(n int) time.Time { return start.Add(time.Duration(n) * time.Second) }
	p.begin(start)
	p.beat(second(1))
	p.beat(second(4))
	p.beat(second(5))
	if gap, n := p.longest(second(6)); gap != 3*time.Second || n != 3 {
		t.Errorf("got %s and %d, want 3s and 3", gap, n)
	}
	if gap, _ := p.longest(second(15)); gap != 10*time.Second {
		t.Errorf("got %s, want the 10s that have not ended", gap)
	}
}

func TestModesOfThreeNodesAreJudged(t *testing.T) {
	strict, weak := clusterModes()[0], clusterModes()[1]
	for name, test := range map[string]struct {
		mode  clusterMode
		ends  []string
		found []finding
		want  string

		observed int
	}{
		"all well":                  {strict, []string{"kill", "end"}, nil, "", 1},
		"no end":                    {strict, []string{"kill"}, nil, "not finished", 1},
		"a finding":                 {strict, []string{"kill"}, []finding{{kind: minority}}, "FAILED", 1},
		"weak, and loses":           {weak, []string{"power-three"}, []finding{{kind: lost}}, "", 1},
		"weak, and goes on":         {weak, []string{"power-three"}, []finding{{kind: reused}}, "", 1},
		"weak, and loses nothing":   {weak, []string{"power-three", "end"}, nil, "no loss shown: the judge sees nothing", 1},
		"weak, and does not start":  {weak, []string{"power-three"}, []finding{{kind: unstarted}}, "FAILED", 1},
		"nobody looked":             {strict, []string{"kill", "end"}, nil, "nothing read from a node's own copy: the observers see nothing", 0},
		"nobody asked the minority": {strict, []string{"unplug", "end"}, nil, "nothing asked of a node that was cut off: a minority was not under test", 1},
	} {
		var out bytes.Buffer
		tr := &trial{score: newScore(test.mode, 1), round: 1, out: &out}
		tr.observed = test.observed
		for i, f := range test.ends {
			p := passage{fault: f}
			if i == len(test.ends)-1 {
				p.found = test.found
			}
			tr.note(tr, p)
		}
		if got := tr.failure(); got != test.want {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
		clusterTable(&out, []*score{tr.score})
		if !strings.Contains(out.String(), test.ends[0]) {
			t.Errorf("%s: got no line of %s in\n%s", name, test.ends[0], &out)
		}
	}
}

func TestUsageForThreeNodesIsRefused(t *testing.T) {
	for _, args := range [][]string{
		{"-mode", "strict-alone"}, {"-faults", "flood"}, {"-rounds", "0"}, {"-rounds", "1,1"}, {"-fs", "btrfs"}, {"more"},
	} {
		var stderr bytes.Buffer
		if got := run(t.Context(), append([]string{clusterVerb}, args...), &stderr, &stderr); got != 2 {
			t.Errorf("%q: got exit code %d, want 2\n%s", args, got, &stderr)
		}
	}
}

// Weak modes are there to lose messages, and stock nodes have no first start to disturb.
func TestFaultsFitTheMode(t *testing.T) {
	names := func(m clusterMode) []string {
		var out []string
		tr := &trial{score: newScore(m, 1), o: clusterOptions{faults: faultNames()}}
		for _, f := range tr.faults() {
			out = append(out, f.name)
		}
		return out
	}
	modes := clusterModes()
	for i, want := range [][]string{faultNames(), {"power-three"}, {"power-three"}, faultNames()[1:]} {
		if d := cmp.Diff(want, names(modes[i])); d != "" {
			t.Errorf("%s (-want +got):\n%s", modes[i].name, d)
		}
	}
}
