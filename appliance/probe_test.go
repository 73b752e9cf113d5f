// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestProbeTellsOfADiskThatFailsAndOfOneThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p probe
		took, err := time.Millisecond, error(nil)
		var tries atomic.Int32
		write := func() (time.Duration, error) {
			tries.Add(1)
			later(took)
			return took, err
		}
		try := func() error { return p.try(time.Now(), write) }

		if err := try(); err != nil || tries.Load() != 1 {
			t.Fatalf("got %v and %d tries, want the first to be waited for", err, tries.Load())
		}
		if err := try(); err != nil || tries.Load() != 1 {
			t.Errorf("got %v and %d tries, want none so soon", err, tries.Load())
		}
		err = errors.New("input/output error")
		later(probeEvery)
		if got := try(); !errors.Is(got, err) {
			t.Errorf("got %v, want %v at once", got, err)
		}
		err = nil
		later(probeEvery)
		if got := try(); got != nil {
			t.Errorf("got %v from a disk that works again, want none", got)
		}

		took = time.Minute
		later(probeEvery)
		begun := time.Now()
		if got := try(); got != nil || time.Since(begun) > probeWait {
			t.Errorf("got %v after %s, want a look that goes on", got, time.Since(begun))
		}
		later(hungAfter)
		before := tries.Load()
		if got := try(); got == nil || !strings.Contains(got.Error(), "has not come back for 15s") {
			t.Errorf("got %v, want that the disk hangs", got)
		}
		if tries.Load() != before {
			t.Error("got another write on a disk that hangs, want one")
		}
		later(time.Minute)
		if got := try(); got != nil {
			t.Errorf("got %v when the write came back, want none", got)
		}
		if got := p.failed.Load(); got != 1 {
			t.Errorf("got %d failed writes, want 1", got)
		}
		if got := p.flushes.Lately(time.Now()); got.Count != 3 || got.Max != 60 {
			t.Errorf("got %+v, want the times of three writes", got)
		}
	})
}

// later lets time pass in a bubble.
func later(d time.Duration) { <-time.After(d) }

func TestProbeThatHangsFromTheStartDoesNotHoldItUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p probe
		free := make(chan struct{})
		got := p.try(time.Now(), func() (time.Duration, error) { <-free; return 0, nil })
		if got == nil || !strings.Contains(got.Error(), "has not come back") {
			t.Errorf("got %v, want that the disk hangs", got)
		}
		close(free)
	})
}
