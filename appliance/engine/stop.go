// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

// Drain sends the clients away little by little, so that they find another
// server, hands leaderships to other nodes and stops the server. When ctx is done first it
// stops at once. Without an open client port there is nobody to send away.
func (e *Engine) Drain(ctx context.Context) error {
	e.mu.Lock()
	open := e.addr != nil
	e.mu.Unlock()
	if !open || ctx.Err() != nil {
		return e.Stop()
	}
	e.stopping.Store(true)
	e.recovery.enter(PhaseStopping)
	done := make(chan struct{})
	go func() {
		defer close(done)
		// Neither of the two ever ends without the other: a lame duck that is
		// overtaken by Stop returns early.
		e.server.LameDuckShutdown()
		e.server.WaitForShutdown()
		e.refusals.stop()
	}()
	select {
	case <-done:
		e.recovery.enter(PhaseStopped)
		e.settle()
		return e.unstage()
	case <-ctx.Done():
		return e.Stop()
	}
}

// Stop stops the server at once and cleanly: clients are cut off and every
// stream writes its state. It waits for the end, but not for ever; what an
// unfinished stop leaves behind is what a power cut leaves, and is recovered the
// same way. It may be called at any time and more than once.
func (e *Engine) Stop() error {
	e.stopping.Store(true)
	e.recovery.enter(PhaseStopping)
	e.mu.Lock()
	returned := e.returned
	e.mu.Unlock()

	done := make(chan struct{})
	go func() {
		defer close(done)
		// The server's Start can't stand a Shutdown before it restores streams: it
		// goes on to use what Shutdown has taken away, and panics.
		if returned != nil {
			select {
			case <-returned:
			case <-e.recovery.restoring:
			}
		}
		e.server.Shutdown()
		e.server.WaitForShutdown()
		// A recovery that was cut short ends a little later.
		if returned != nil {
			<-returned
		}
		e.refusals.stop()
	}()
	timer := time.NewTimer(e.stopLimit)
	defer timer.Stop()
	select {
	case <-done:
		e.recovery.enter(PhaseStopped)
		e.settle()
		return e.unstage()
	case <-timer.C:
		return diag.Fail(diag.CodeStopTimeout, fmt.Errorf("stop the engine: not done after %v", e.stopLimit),
			"nothing acknowledged is lost; the next start recovers as it does after a power cut")
	}
}

// settle notes what the streams have, once the server has written all of it. On a volume
// that takes nothing any more there is no note, and the next start is as after a crash.
func (e *Engine) settle() {
	if !e.ran.Swap(false) {
		return
	}
	if err := rememberStop(e.settings.StoreDir, e.ring()); err != nil {
		e.log.log.Warn("what the streams have is not noted for the next start", "err", err)
	}
}
