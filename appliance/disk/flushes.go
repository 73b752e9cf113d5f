// SPDX-License-Identifier: Apache-2.0

package disk

import (
	"slices"
	"sync"
	"time"
)

// flushBounds are the upper bounds by which flushes are counted: from a disk with a
// protected cache to one that is in trouble.
var flushBounds = [...]time.Duration{
	50 * time.Microsecond, 100 * time.Microsecond, 250 * time.Microsecond, 500 * time.Microsecond,
	time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond,
	50 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond, time.Second, 5 * time.Second,
}

// Flushes remembers how long flushes took while a node was working. It may be used
// by several goroutines.
type Flushes struct {
	mu     sync.Mutex
	recent []flushed // oldest first
	counts [len(flushBounds)]uint64
	sum    time.Duration
	all    uint64
}

type flushed struct {
	at   time.Time
	took time.Duration
}

// Add takes a flush that ended at a time.
func (f *Flushes) Add(took time.Duration, at time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.forget(at)
	f.recent = append(f.recent, flushed{at, took})
	f.sum += took
	f.all++
	for i, bound := range flushBounds {
		if took <= bound {
			f.counts[i]++
		}
	}
}

// Lately is how long the flushes of the last ten minutes took.
func (f *Flushes) Lately(now time.Time) Latency {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.forget(now)
	took := make([]time.Duration, len(f.recent))
	for i, r := range f.recent {
		took[i] = r.took
	}
	return latency(took)
}

func (f *Flushes) forget(now time.Time) {
	keep := slices.IndexFunc(f.recent, func(r flushed) bool { return now.Sub(r.at) <= rememberFor })
	if keep < 0 {
		keep = len(f.recent)
	}
	f.recent = slices.Delete(f.recent, 0, keep)
}

// Histogram is how many flushes there were, how long all took together, and how many
// of them took no longer than each bound, in seconds.
func (f *Flushes) Histogram() (count uint64, sum time.Duration, upTo map[float64]uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	upTo = make(map[float64]uint64, len(flushBounds))
	for i, bound := range flushBounds {
		upTo[bound.Seconds()] = f.counts[i]
	}
	return f.all, f.sum, upTo
}
