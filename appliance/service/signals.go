// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// Signals turns SIGINT and SIGTERM into two contexts: the first signal ends
// drain, the second ends now. A broken pipe on stdout or stderr is an error of
// that write and not the end of the queue. stop gives the signals back.
func Signals(parent context.Context) (drain, now context.Context, stop func()) {
	drain, cancelDrain := context.WithCancel(parent)
	now, cancelNow := context.WithCancel(parent)
	ch := make(chan os.Signal, 2)
	signal.Notify(ch, os.Interrupt, syscall.SIGTERM)
	ignorePipe()
	done := make(chan struct{})
	go func() {
		for _, cancel := range []func(){cancelDrain, cancelNow} {
			select {
			case <-ch:
				cancel()
			case <-done:
				return
			}
		}
	}()
	return drain, now, func() {
		signal.Stop(ch)
		close(done)
		cancelDrain()
		cancelNow()
	}
}
