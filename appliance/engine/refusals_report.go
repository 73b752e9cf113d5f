// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"log/slog"
	"time"
)

const (
	// refusalLogPeriod is how often the log tells of one user and reason.
	refusalLogPeriod = time.Minute
	// sweepPeriod finds connections whose end the server logs nowhere. Its list
	// holds 10,000.
	sweepPeriod = 5 * time.Second
	// sweepPause keeps a flood from making run sweep without a break: a sweep of a
	// full list takes a few milliseconds.
	sweepPause = 200 * time.Millisecond
)

// run sweeps and writes the log until stop.
func (r *refusals) run() {
	defer close(r.done)
	ticker := time.NewTicker(sweepPeriod)
	defer ticker.Stop()
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-r.kick:
		case <-ticker.C:
		case <-r.quit:
			r.sweep()
			r.tell(true)
			return
		}
		r.sweep()
		r.tell(false)
		pause.Reset(sweepPause)
		select {
		case <-pause.C:
		case <-r.quit:
		}
	}
}

// stop ends run and waits for it.
func (r *refusals) stop() {
	r.once.Do(func() { close(r.quit) })
	<-r.done
}

// wake makes run look without waiting for it.
func (r *refusals) wake() {
	select {
	case r.kick <- struct{}{}:
	default:
	}
}

// tell writes a line for each user and reason that has one due. The rest of a
// flood is told when the period is over, or at the end.
func (r *refusals) tell(end bool) {
	type line struct {
		refusalKey
		Refusal
	}
	var lines []line
	now := r.now()
	r.mu.Lock()
	for k, e := range r.entries {
		if e.Count == e.toldCount || !end && now.Sub(e.told) < refusalLogPeriod {
			continue
		}
		l := line{k, e.Refusal}
		l.Count -= e.toldCount
		lines = append(lines, l)
		e.told, e.toldCount = now, e.Count
	}
	r.mu.Unlock()
	for _, l := range lines {
		v := r.named(l.refusalKey, l.Refusal)
		r.log.Warn("client refused", slog.String("account", v.Account), slog.String("user", v.User),
			slog.String("reason", v.Reason), slog.Uint64("count", v.Count), slog.String("example", v.Example))
	}
}
