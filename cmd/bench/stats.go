// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"
	"slices"
)

// median returns the middle of the values, the mean of the two middle ones
// when their number is even, and 0 of none.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(values))
	mid := len(s) / 2
	if len(s)%2 == 1 {
		return s[mid]
	}
	return (s[mid-1] + s[mid]) / 2
}

// ratios divides pair by pair. Neighbours in time share the machine's mood, so
// their ratio is steadier than that of two medians.
func ratios(ours, theirs []float64) []float64 {
	out := make([]float64, 0, len(ours))
	for i := range min(len(ours), len(theirs)) {
		if theirs[i] != 0 {
			out = append(out, ours[i]/theirs[i])
		}
	}
	return out
}

// summary is a row in three numbers and their spread.
type summary struct {
	Holdfast float64 `json:"holdfast"` // median
	Peer     float64 `json:"peer"`     // median
	Ratio    float64 `json:"ratio"`    // median of the pairs' ratios
	Min      float64 `json:"ratio_min"`
	Max      float64 `json:"ratio_max"`
}

func summarise(ours, theirs []float64) summary {
	s := summary{Holdfast: median(ours), Peer: median(theirs)}
	if r := ratios(ours, theirs); len(r) > 0 {
		s.Ratio, s.Min, s.Max = median(r), slices.Min(r), slices.Max(r)
	}
	return s
}

// lowerBound is the lower end of a 95 % confidence interval of the median, whatever
// the values are distributed like: the largest order statistic that lies above the
// median with a probability of at most 2.5 %. It is 0 with fewer than six values,
// which have no such interval.
func lowerBound(values []float64) float64 {
	n := len(values)
	// chance is that of at most k values below the median.
	chance, term, k := 0.0, math.Pow(0.5, float64(n)), -1
	for i := range n {
		chance += term
		if chance > 0.025 {
			break
		}
		k = i
		term *= float64(n-i) / float64(i+1)
	}
	if k < 0 {
		return 0
	}
	return slices.Sorted(slices.Values(values))[k]
}
