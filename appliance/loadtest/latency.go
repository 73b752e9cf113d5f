// SPDX-License-Identifier: Apache-2.0

package loadtest

import (
	"slices"
	"time"
)

// Latency is how long things took. Each of them counts, none is estimated.
type Latency struct {
	P50, P99, Max time.Duration
}

// latencyOf sorts what it is given; nil is for nothing.
func latencyOf(all []time.Duration) *Latency {
	if len(all) == 0 {
		return nil
	}
	slices.Sort(all)
	// The smallest one that so many of a hundred do not exceed.
	at := func(percent int) time.Duration { return all[(len(all)*percent+99)/100-1] }
	return &Latency{P50: at(50), P99: at(99), Max: at(100)}
}
