// SPDX-License-Identifier: Apache-2.0

package disk

import (
	"testing"
	"time"
)

func TestFlushesAreRememberedForTenMinutesAndCountedForEver(t *testing.T) {
	var f Flushes
	begun := time.Unix(1_800_000_000, 0)
	f.Add(time.Hour, begun) // of before
	now := begun.Add(11 * time.Minute)
	for i := range 99 {
		f.Add(200*time.Microsecond, now.Add(time.Duration(i)*time.Second))
	}
	f.Add(30*time.Millisecond, now.Add(99*time.Second))

	got := f.Lately(now.Add(100 * time.Second))
	want := Latency{Count: 100, P50: 0.0002, P99: 0.0002, Max: 0.03}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	count, sum, upTo := f.Histogram()
	if count != 101 || sum != time.Hour+99*200*time.Microsecond+30*time.Millisecond {
		t.Errorf("got %d flushes in %s, want all 101", count, sum)
	}
	for bound, want := range map[float64]uint64{0.0001: 0, 0.00025: 99, 0.025: 99, 0.05: 100, 5: 100} {
		if upTo[bound] != want {
			t.Errorf("got %d flushes up to %v s, want %d", upTo[bound], bound, want)
		}
	}
	if got := f.Lately(now.Add(time.Hour)); got != (Latency{}) {
		t.Errorf("got %+v after an hour without one, want none", got)
	}
}
