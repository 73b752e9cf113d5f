// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

// Reopen closes all streams and reads them again, while the process and the
// connections of clients go on. A stream that could not be written once, for the
// volume was full or the disk failed, takes nothing any more until then, whatever the
// disk can do meanwhile. It takes as long as a recovery; requests that come meanwhile
// find nobody, and stock clients ask again. It also switches JetStream on again where
// the server has switched it off after such an error.
func (e *Engine) Reopen() error { return e.reopen(func() error { return nil }) }

// reopen does something to the store while the streams are closed. They are read again
// also when that does not work.
func (e *Engine) reopen(between func() error) error {
	cfg := cmp.Or(e.server.JetStreamConfig(), e.jetStream.Load())
	if cfg == nil || e.stopping.Load() {
		return notReady(errors.New("JetStream is not running"))
	}
	if e.closing() {
		// To begin now would be to open streams that the server has not closed.
		return notReady(errors.New("the server is still closing its streams"))
	}
	again := *cfg
	again.StoreDir = e.settings.StoreDir // the server adds its own directory below
	e.recovery.enter(PhaseRecovering)
	defer func() {
		if !e.stopping.Load() {
			e.recovery.enter(PhaseRunning)
		}
	}()
	return e.collect(func() error {
		if err := e.server.ShutdownJetStream(); err != nil {
			return fmt.Errorf("close the streams: %w", err)
		}
		done := between()
		if err := e.server.EnableJetStream(&again); err != nil {
			return errors.Join(done, diag.Fail(diag.CodeEngine, fmt.Errorf("read the streams again: %w", err),
				"look at the disk that the data directory is on; restart Holdfast when it can be written"))
		}
		e.rememberJetStream()
		return done
	})
}

// closing is true while the server switches JetStream off on its own account.
func (e *Engine) closing() bool {
	return !e.server.JetStreamEnabled() && e.server.JetStreamConfig() != nil
}

// rememberJetStream keeps what JetStream runs with: the server forgets it when it
// switches JetStream off.
func (e *Engine) rememberJetStream() {
	if cfg := e.server.JetStreamConfig(); cfg != nil {
		e.jetStream.Store(cfg)
	}
}
