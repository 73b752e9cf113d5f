// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMedianIsTheMiddle(t *testing.T) {
	for _, c := range []struct {
		name   string
		values []float64
		want   float64
	}{
		{"none", nil, 0},
		{"one", []float64{3}, 3},
		{"odd, unsorted, with an outlier", []float64{100, 1, 2}, 2},
		{"even", []float64{4, 1, 2, 100}, 3},
	} {
		if got := median(c.values); got != c.want {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}

func TestMedianLeavesItsArgumentAlone(t *testing.T) {
	values := []float64{3, 1, 2}
	median(values)
	if diff := cmp.Diff([]float64{3, 1, 2}, values); diff != "" {
		t.Errorf("samples (-want +got):\n%s", diff)
	}
}

func TestRatioIsTheMedianOfPairs(t *testing.T) {
	// The machine was ten times slower during the last pair: the medians' ratio
	// would be 1, the pairs say 2.
	got := summarise([]float64{2, 4, 20}, []float64{1, 4, 10})
	want := summary{Holdfast: 4, Peer: 4, Ratio: 2, Min: 1, Max: 2}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("summary (-want +got):\n%s", diff)
	}
}

func TestRatioNeedsTwoSidesAndADivisor(t *testing.T) {
	if got := ratios([]float64{1, 2, 3}, []float64{0, 4}); !cmp.Equal(got, []float64{0.5}) {
		t.Errorf("got %v, want [0.5]", got)
	}
	if got := summarise([]float64{1}, nil); got != (summary{Holdfast: 1}) {
		t.Errorf("got %+v, want no ratio", got)
	}
}

func TestLowerBoundIsTheOrderStatisticOfTheMedian(t *testing.T) {
	// From the binomial distribution: n values, and which of them in order.
	for n, want := range map[int]float64{0: 0, 5: 0, 6: 1, 8: 1, 9: 2, 12: 3, 15: 4, 20: 6, 25: 8} {
		var values []float64
		for i := n; i > 0; i-- {
			values = append(values, float64(i))
		}
		if got := lowerBound(values); got != want {
			t.Errorf("%d values: got the one in place %v, want %v", n, got, want)
		}
	}
}
