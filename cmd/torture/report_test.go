// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"strings"
	"testing"
)

func TestVerdict(t *testing.T) {
	for name, test := range map[string]struct {
		weak  bool
		done  int
		found map[kind]int
		want  string
	}{
		"strong without loss":      {false, 3, nil, ""},
		"strong with one":          {false, 3, map[kind]int{lost: 1}, "FAILED"},
		"strong with anything":     {false, 3, map[kind]int{miscounted: 1}, "FAILED"},
		"strong, not finished":     {false, 2, nil, "not finished"},
		"weak with loss":           {true, 3, map[kind]int{lost: 1, recreated: 2}, ""},
		"weak without":             {true, 3, map[kind]int{recreated: 2}, "no loss shown: the judge sees nothing"},
		"weak, did not come back":  {true, 3, map[kind]int{lost: 1, unstarted: 1}, "FAILED"},
		"weak, came back as other": {true, 3, map[kind]int{lost: 1, identity: 1}, "FAILED"},
	} {
		t.Run(name, func(t *testing.T) {
			tally := &tally{mode: mode{name: "m", weak: test.weak}, asked: 3, done: test.done, found: test.found}
			if got := tally.failure(); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestAModeWithGroupCommitHasToShowBatches(t *testing.T) {
	for grouped, want := range map[int]string{24: "too few batches: group commit was not under test", 25: ""} {
		tally := &tally{mode: mode{name: "strict", grouped: true}, asked: 3, done: 3, acked: 100, grouped: grouped}
		if got := tally.failure(); got != want {
			t.Errorf("%d of 100 in batches: got %q, want %q", grouped, got, want)
		}
	}
}

func TestProgressSaysHowToRepeatAFailure(t *testing.T) {
	tally := &tally{mode: mode{name: "strict"}, fs: "xfs"}
	var out bytes.Buffer
	var found []finding
	for seq := range uint64(5) {
		found = append(found, finding{lost, "LIMITS", seq + 1, "l0-7"})
	}
	tally.progress(&out, line{cut: 4, of: 9, seed: 42, phase: load, found: found})
	for _, want := range []string{"lost 5\n", "lost: LIMITS 1: l0-7\n", "lost: LIMITS 3: l0-7\n", "-mode strict -fs xfs -cuts 4 -seed 42 -keep\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("got %q, want it to contain %q", out.String(), want)
		}
	}
	if strings.Contains(out.String(), "LIMITS 4") {
		t.Errorf("got %q, want three messages of five", out.String())
	}
}

func TestProgressOfAWeakModeOnlyCounts(t *testing.T) {
	tally := &tally{mode: mode{name: "stock", weak: true}, fs: "ext4"}
	var out bytes.Buffer
	tally.progress(&out, line{cut: 1, of: 1, phase: load, found: []finding{{lost, "LIMITS", 1, "l0-7"}}})
	if got := strings.Count(out.String(), "\n"); got != 1 {
		t.Errorf("got %d lines, want 1:\n%s", got, out.String())
	}
}
