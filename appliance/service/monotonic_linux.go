// SPDX-License-Identifier: Apache-2.0

package service

import "golang.org/x/sys/unix"

// monotonicUsec is the clock that systemd compares a reload with.
func monotonicUsec() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return 0
	}
	return ts.Nano() / 1000
}
