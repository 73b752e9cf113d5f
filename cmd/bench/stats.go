// SPDX-License-Identifier: Apache-2.0

package main

import "slices"

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
