// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"strings"
	"sync"
	"time"
)

const (
	repeatWindow = 10 * time.Second
	// Different texts of one format, such as a warning for each stream, are all
	// worth a line, up to a point: a client can choose its name.
	textsPerFormat = 50
	// A bound on memory, far above what a node sees in one window.
	mostRemembered = 2000
)

// repeats lets the same line through once per window and counts the others.
// Lines that differ in digits only are the same: ports and connection numbers
// are new each time.
type repeats struct {
	now func() time.Time

	mu   sync.Mutex
	seen map[string]*repeat
}

type repeat struct {
	since      time.Time
	passed     int
	suppressed int
}

func newRepeats(now func() time.Time) *repeats {
	return &repeats{now: now, seen: make(map[string]*repeat)}
}

// allow reports whether the line may be written, and how many like it were not
// since the last one that was.
func (r *repeats) allow(format, text string) (suppressed int, ok bool) {
	now := r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forget(now)
	byText := r.entry("text "+withoutDigits(text), now)
	byFormat := r.entry("format "+withoutDigits(format), now)
	if byText.passed >= 1 || byFormat.passed >= textsPerFormat {
		byText.suppressed++
		return 0, false
	}
	byText.passed++
	byFormat.passed++
	suppressed, byText.suppressed = byText.suppressed, 0
	return suppressed, true
}

// entry returns the entry of a key with its window brought up to date.
func (r *repeats) entry(key string, now time.Time) *repeat {
	e := r.seen[key]
	if e == nil {
		e = &repeat{since: now}
		r.seen[key] = e
	}
	if now.Sub(e.since) >= repeatWindow {
		e.since, e.passed = now, 0
	}
	return e
}

// forget drops what has been quiet for a window, once there is much of it.
func (r *repeats) forget(now time.Time) {
	if len(r.seen) < mostRemembered {
		return
	}
	for key, e := range r.seen {
		if now.Sub(e.since) >= repeatWindow {
			delete(r.seen, key)
		}
	}
	if len(r.seen) >= mostRemembered {
		clear(r.seen)
	}
}

// withoutDigits puts one # in place of each number.
func withoutDigits(s string) string {
	inNumber := false
	return strings.Map(func(c rune) rune {
		digit := c >= '0' && c <= '9'
		again := digit && inNumber
		inNumber = digit
		switch {
		case again:
			return -1
		case digit:
			return '#'
		}
		return c
	}, s)
}
