// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

// Start runs the server and returns when JetStream has recovered its streams and
// in-process connections work; the client port is still closed. On an error, or
// when ctx is done first, the server has been stopped again.
//
// It looks for a taken client port before the recovery, which may take minutes.
func (e *Engine) Start(ctx context.Context) error {
	if e.begun.Swap(true) || e.stopping.Load() {
		return errors.New("start the engine: it was started or stopped before")
	}
	if err := e.run(ctx); err != nil {
		e.recovery.enter(PhaseFailed)
		return errors.Join(err, e.Stop())
	}
	e.ran.Store(true)
	e.recovery.enter(PhaseRunning)
	go e.watch()
	return nil
}

func (e *Engine) run(ctx context.Context) error {
	if err := portFree(ctx, e.settings); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("start the engine: %w", context.Cause(ctx))
	}
	e.recovery.begin(e.settings.StoreDir)
	m, err := e.unlock(ctx)
	if err != nil {
		return err
	}
	if err := forgetStop(e.settings.StoreDir); err != nil {
		return diag.Fail(diag.CodeEngine, err, "the directory must be writable for the user that Holdfast runs as")
	}
	e.recovery.begin(e.settings.StoreDir) // what was converted has another size
	e.recovery.checked(m)
	return e.collect(func() error { return e.recover(ctx) })
}

// recover starts the server and waits until it has recovered its streams.
func (e *Engine) recover(ctx context.Context) error {
	returned := make(chan struct{})
	e.mu.Lock()
	e.returned = returned
	e.mu.Unlock()
	go func() {
		defer close(returned)
		e.server.Start()
	}()
	select {
	case <-returned:
	case <-e.recorded:
	case <-ctx.Done():
		return fmt.Errorf("start the engine: %w", context.Cause(ctx))
	}
	// The server's Start returns after a fatal error as if all were well, and
	// JetStreamEnabled says yes then.
	if err := e.failure(); err != nil {
		return err
	}
	if e.Clustered() {
		e.server.ReadyForConnections(routesLimit) // healthz says what is not
	}
	if err := e.healthz(server.HealthzOptions{JSEnabledOnly: true}); err != nil {
		return diag.Fail(diag.CodeEngine, fmt.Errorf("start the engine: %w", err), engineHint)
	}
	if err := e.unstageEarlier(); err != nil {
		return diag.Fail(diag.CodeEngine, fmt.Errorf("remove what was staged before the start: %w", err), engineHint)
	}
	e.rememberJetStream()
	return nil
}

// watch tells of a server that stopped though nobody here asked it to. It ends
// with the server.
func (e *Engine) watch() {
	e.server.WaitForShutdown()
	if !e.stopping.Load() {
		e.record(diag.Fail(diag.CodeEngine, errors.New("run nats-server: it stopped by itself"), engineHint))
	}
}
