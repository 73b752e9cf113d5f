// SPDX-License-Identifier: Apache-2.0

package tune

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

func TestIntervalIsThatOfTheOrderStatistics(t *testing.T) {
	for n, want := range map[int][2]float64{
		1: {1, 1}, 7: {1, 7}, 8: {1, 8}, 10: {1, 10}, 11: {1, 11}, 12: {2, 11}, 20: {4, 17}, // tables of the sign test
	} {
		var values []float64
		for i := n; i >= 1; i-- {
			values = append(values, float64(i))
		}
		if low, high := interval(values); low != want[0] || high != want[1] {
			t.Errorf("%d values: got %v to %v, want %v to %v", n, low, high, want[0], want[1])
		}
	}
}

func TestVerdictNeedsEnoughOfIt(t *testing.T) {
	times := func(v float64, n int) []float64 { return slices.Repeat([]float64{v}, n) }
	for name, c := range map[string]struct {
		before, after []float64
		more          bool
		want          Verdict
	}{
		"less is better":           {times(2, 8), times(1, 8), false, Helps},
		"more is better":           {times(2, 8), times(1, 8), true, Hurts},
		"more is more":             {times(1, 8), times(2, 8), true, Helps},
		"too few pairs":            {times(2, 7), times(1, 7), false, Unclear},
		"too little":               {times(1, 8), times(0.97, 8), false, Nothing},
		"hardly":                   {times(1, 8), []float64{0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.96}, false, Unclear},
		"not sure":                 {times(1, 8), []float64{0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 1.1}, false, Unclear},
		"one outlier among twelve": {times(1, 12), append(times(0.5, 11), 1.1), false, Helps},
	} {
		if got := compare(figure{"f", "s", c.more}, c.before, c.after); got.Verdict != c.want || got.Pairs != len(c.before) {
			t.Errorf("%s: got %+v, want %s", name, got, c.want)
		}
	}
}

// A trial goes by turns, ends in the first state, and leaves nothing behind.
func TestTrialGoesByTurnsAndPutsBack(t *testing.T) {
	dir := t.TempDir()
	var states []string
	put := func(s string) func() error { return func() error { states = append(states, s); return nil } }
	trial := Trial{
		Dir: dir, Pairs: 2, Each: time.Millisecond, Space: 16 << 20, Before: put("a"), After: put("b"), Figure: "f", Unit: "s",
		Do: func(context.Context) (float64, error) {
			if states[len(states)-1] == "a" {
				return 2, nil
			}
			return 1, nil
		},
	}
	got, err := trial.Run(t.Context())
	if err != nil || len(got) != 1 || got[0].Before != 2 || got[0].After != 1 || got[0].Ratio != 0.5 {
		t.Errorf("got %+v, %v, want what was measured on the right side", got, err)
	}
	if want := []string{"a", "b", "b", "a", "a"}; !slices.Equal(states, want) {
		t.Errorf("got states %v, want %v", states, want)
	}
	states, trial.Do = nil, func(context.Context) (float64, error) { return 0, errors.New("broken") }
	if _, err := trial.Run(t.Context()); err == nil || states[len(states)-1] != "a" {
		t.Errorf("got %v and states %v, want an error, and the first state in place", err, states)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("got %v left, %v, want nothing", left, err)
	}
}

func TestEveryLoadYieldsItsFigures(t *testing.T) {
	for name := range loads() {
		dir := t.TempDir()
		none := func() error { return nil }
		got, err := Trial{Dir: dir, Load: name, Pairs: 1, Each: 30 * time.Millisecond, Space: 16 << 20, Before: none, After: none}.Run(t.Context())
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, c := range got {
			if c.Before <= 0 || c.After <= 0 || c.Figure == "" || c.Unit == "" {
				t.Errorf("%s: got %+v, want both sides measured", name, c)
			}
		}
		if left, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(left) > 0 {
			t.Errorf("%s: got %v left, %v, want nothing", name, left, err)
		}
	}
}
