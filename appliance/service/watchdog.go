// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"os"
	"strconv"
	"time"
)

// watchdogShare is the part of systemd's patience that one question may take. A
// question that is not answered leaves time for two more before the process is
// killed.
const watchdogShare = 4

// Feed gives systemd a sign of life for as long as alive returns nil, until ctx is
// done. It returns at once when systemd does not ask for one (WatchdogSec=, see
// sd_watchdog_enabled(3)).
//
// tell gets the first error of a row, and nil when alive is well again. Whoever
// calls Feed must end it before the stop: systemd does not watch a stop, but a sign
// of life makes it begin again.
func (n Notifier) Feed(ctx context.Context, alive func(context.Context) error, tell func(error)) {
	limit := watchdog(os.Getpid())
	if n.socket == "" || limit <= 0 {
		return
	}
	pause := limit / watchdogShare
	tick := time.NewTicker(pause)
	defer tick.Stop()
	well := true
	for {
		err := ask(ctx, pause, alive)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			n.send("WATCHDOG=1")
		}
		if well != (err == nil) {
			well = err == nil
			tell(err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func ask(ctx context.Context, limit time.Duration, alive func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return alive(ctx)
}

// watchdog is how long systemd waits for a sign of life of the process pid; 0 when it
// does not, or watches another one.
func watchdog(pid int) time.Duration {
	if who := os.Getenv("WATCHDOG_PID"); who != "" && who != strconv.Itoa(pid) {
		return 0
	}
	usec, err := strconv.ParseInt(os.Getenv("WATCHDOG_USEC"), 10, 64)
	if err != nil || usec < watchdogShare || usec > int64(time.Duration(1<<63-1)/time.Microsecond) {
		return 0
	}
	return time.Duration(usec) * time.Microsecond
}
