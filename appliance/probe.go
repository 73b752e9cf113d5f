// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/holdfast-mq/holdfast/appliance/disk"
)

const (
	// probeEvery is how often the disk is tried with a write. A disk that fails while
	// nobody publishes is noticed by it, and everybody is to know within 5 s.
	probeEvery = 2 * time.Second
	// probeWait is how long a write is waited for where the volume is looked at; one
	// that takes longer is asked after with the next look.
	probeWait = 20 * time.Millisecond
	// hungAfter is when a write that does not come back is a disk that has failed:
	// publishers have given up waiting by then.
	hungAfter = 15 * time.Second
)

// probe tries the disk. The write has a goroutine of its own: on a disk that hangs it
// comes back late or never, and the volume has to be looked at meanwhile.
type probe struct {
	flushes disk.Flushes
	failed  atomic.Uint64 // writes that did not work, since the start

	// What follows is for the goroutine that tries.
	asked time.Time  // when the latest began
	write chan error // of the one that has not come back; nil when there is none
	last  error
}

// try returns what is known of the disk, and tries it when it is time. The first time
// it waits for the write.
func (p *probe) try(now time.Time, write func() (time.Duration, error)) error {
	var patience time.Duration
	switch {
	case p.write != nil:
	case p.asked.IsZero():
		p.begin(now, write)
		patience = hungAfter
	case now.Sub(p.asked) >= probeEvery:
		p.begin(now, write)
		patience = probeWait
	}
	p.await(patience)
	if p.write != nil && now.Sub(p.asked)+patience >= hungAfter {
		return fmt.Errorf("a write of a few bytes has not come back for %s", (now.Sub(p.asked) + patience).Round(time.Second))
	}
	return p.last
}

func (p *probe) begin(now time.Time, write func() (time.Duration, error)) {
	p.asked = now
	done := make(chan error, 1)
	p.write = done
	go func() {
		took, err := write()
		switch {
		case err != nil:
			p.failed.Add(1)
		case took > 0:
			p.flushes.Add(took, time.Now())
		}
		done <- err
	}()
}

// await waits for the write that has not come back, at most so long.
func (p *probe) await(most time.Duration) {
	select {
	case p.last = <-p.write: // never, when there is none
		p.write = nil
		return
	default:
	}
	if p.write == nil || most == 0 {
		return
	}
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case p.last = <-p.write:
		p.write = nil
	case <-timer.C:
	}
}
