// SPDX-License-Identifier: Apache-2.0

package certs

import "time"

const day = 24 * time.Hour

// How long certificates last, and when the node acts or warns.
const (
	caYears     = 30
	serverLife  = 397 * day
	renewBefore = serverLife / 3
	// aheadBy is how much later than one issued now a certificate may end before
	// it counts as made under a wrong clock.
	aheadBy = 30 * day
	// A new CA has to reach every client by hand, so that the warning comes early.
	warnCA = 365 * day
	warn   = 30 * day
)

// earliest is 2026-01-01, in Unix seconds. It has passed for certain: a clock
// that shows less is not set.
const earliest = 1767225600

// ClockIsSet reports whether a time can be the present one.
func ClockIsSet(now time.Time) bool { return clockIsSet(now) }

func clockIsSet(now time.Time) bool { return now.Unix() >= earliest }

// validFrom is the beginning of every certificate made here. Clients without a
// clock live in 1970.
func validFrom() time.Time { return time.Unix(0, 0).UTC() }

func caEnd(now time.Time) time.Time {
	if !clockIsSet(now) {
		now = time.Unix(earliest, 0)
	}
	return now.UTC().Truncate(time.Second).AddDate(caYears, 0, 0)
}

// serverEnd is when a certificate issued now ends: never after its CA, and with
// it when the time is not known.
func serverEnd(now, ca time.Time) time.Time {
	end := now.UTC().Truncate(time.Second).Add(serverLife)
	if !clockIsSet(now) || end.After(ca) {
		return ca
	}
	return end
}
