// SPDX-License-Identifier: Apache-2.0

package tune

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"
)

// Verdict is what a comparison comes to.
type Verdict string

// The verdicts.
const (
	Helps   Verdict = "helps"
	Hurts   Verdict = "hurts"
	Nothing Verdict = "no effect" // or a small one
	Unclear Verdict = "unclear"   // there was too much else going on to tell
)

const (
	// worthwhile is how much better something has to be, with the whole of its interval:
	// the moods of a machine last longer than a pair.
	worthwhile = 0.05
	// small is an effect that does not matter: an interval within it leaves none other.
	small = 0.25
	// EnoughPairs is the least number that has an interval.
	EnoughPairs = 8
	// tail is the chance on each side that the interval is wrong: many figures are looked
	// at, and one in twenty of nothing would be taken for something.
	tail = 0.005
	// leftover is the beginning of the directories in which loads run; `holdfast bench
	// disk` removes old ones by it.
	leftover = "bench-disk-tune-"
)

// Trial compares two states of something under a load, by turns.
type Trial struct {
	Dir   string // on the disk
	Load  string
	Pairs int
	Each  time.Duration // of each half of a pair
	Space int64         // bytes that may be written at once
	// Do is what is measured, where Load is empty; it yields Figure in Unit.
	Do           func(context.Context) (float64, error)
	Figure, Unit string
	More         bool // more is better
	// Before and After put the states in place.
	Before, After func() error
	// Step, if not nil, is told how many pairs are done.
	Step func(pairs int)
}

// Comparison is what a trial has shown of one figure: of ratios pair by pair, for
// neighbours in time share the mood of the machine.
type Comparison struct {
	Figure string  `json:"figure"`
	Unit   string  `json:"unit"`
	More   bool    `json:"more_is_better"`
	Before float64 `json:"before"` // medians
	After  float64 `json:"after"`
	// Ratio is the median of After/Before; Low and High bound it with at least 99 %.
	Ratio   float64 `json:"ratio"`
	Low     float64 `json:"low"`
	High    float64 `json:"high"`
	Pairs   int     `json:"pairs"`
	Verdict Verdict `json:"verdict"`
}

// Run measures. It leaves neither files nor the second state behind: Before is put in
// place at the end, however it ends.
func (t Trial) Run(ctx context.Context) (_ []Comparison, err error) {
	kind, err := t.kind()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(t.Dir, leftover)
	if err != nil {
		return nil, fmt.Errorf("measure: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	b := bench{dir: dir, each: t.Each, space: t.Space}
	if err := kind.prepare(ctx, b); err != nil {
		return nil, err
	}
	before, after := make([][]float64, len(kind.figures)), make([][]float64, len(kind.figures))
	defer func() { err = errors.Join(err, t.Before()) }()
	for pair := range t.Pairs {
		order := []bool{false, true}
		if pair%2 == 1 { // who comes second finds the disk as the first has left it
			order = []bool{true, false}
		}
		for _, second := range order {
			put, samples := t.Before, before
			if second {
				put, samples = t.After, after
			}
			if err := put(); err != nil {
				return nil, err
			}
			got, err := kind.run(ctx, b)
			if err != nil {
				return nil, err
			}
			for i, v := range got {
				samples[i] = append(samples[i], v)
			}
		}
		if t.Step != nil {
			t.Step(pair + 1)
		}
	}
	var out []Comparison
	for i, f := range kind.figures {
		out = append(out, compare(f, before[i], after[i]))
	}
	return out, nil
}

func (t Trial) kind() (loadKind, error) {
	if t.Do != nil {
		return loadKind{
			figures: []figure{{t.Figure, t.Unit, t.More}},
			prepare: func(context.Context, bench) error { return nil },
			run: func(ctx context.Context, _ bench) ([]float64, error) {
				v, err := t.Do(ctx)
				return []float64{v}, err
			},
		}, nil
	}
	kind, ok := loads()[t.Load]
	if !ok {
		return kind, fmt.Errorf("measure: there is no load %q", t.Load)
	}
	return kind, nil
}

// compare sums up the pairs of one figure.
func compare(f figure, before, after []float64) Comparison {
	ratios := make([]float64, len(before))
	for i := range before {
		ratios[i] = after[i] / before[i]
	}
	c := Comparison{Figure: f.name, Unit: f.unit, More: f.more, Before: median(before), After: median(after), Ratio: median(ratios), Pairs: len(ratios), Verdict: Unclear}
	c.Low, c.High = interval(ratios)
	better, worse := c.High <= 1-worthwhile, c.Low >= 1+worthwhile
	if f.more {
		better, worse = worse, better
	}
	switch {
	case len(ratios) < EnoughPairs:
	case better:
		c.Verdict = Helps
	case worse:
		c.Verdict = Hurts
	case c.Low >= 1/(1+small) && c.High <= 1+small:
		c.Verdict = Nothing
	}
	return c
}

func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(values))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// interval bounds the median with a confidence of at least 99 %, whatever the values are
// distributed like: the k-th smallest and largest, where fewer than k of n lie on one
// side of it with a probability of at most tail. Fewer than eight values have no such
// interval; theirs is all they span.
func interval(values []float64) (low, high float64) {
	s := slices.Sorted(slices.Values(values))
	n := len(s)
	if n == 0 {
		return 0, 0
	}
	term, chance, k := 1.0, 0.0, -1
	for range n {
		term /= 2
	}
	for i := range n {
		if chance += term; chance > tail {
			break
		}
		k = i
		term *= float64(n-i) / float64(i+1)
	}
	k = max(k, 0)
	return s[k], s[n-1-k]
}
