// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/svc"
	"golang.org/x/sys/windows/svc/mgr"

	"github.com/holdfast-mq/holdfast/appliance/acl"
	"github.com/holdfast-mq/holdfast/appliance/diag"
)

// orderLimit is how long a start or stop by hand may take without a sign that it gets on.
const orderLimit = 2 * hint

// Start starts the service and waits until it is ready.
func Start(ctx context.Context) (State, error) {
	return order(ctx, "start", func(ctx context.Context, h *mgr.Service) error {
		if err := h.Start(); err != nil && !errors.Is(err, windows.ERROR_SERVICE_ALREADY_RUNNING) {
			return err
		}
		return await(ctx, h, svc.Running)
	})
}

// Stop stops the service and waits for its end.
func Stop(ctx context.Context) (State, error) { return order(ctx, "stop", stop) }

// Restart stops and starts the service, and waits until it is ready.
func Restart(ctx context.Context) (State, error) {
	return order(ctx, "restart", func(ctx context.Context, h *mgr.Service) error {
		if err := stop(ctx, h); err != nil {
			return err
		}
		if err := h.Start(); err != nil {
			return err
		}
		return await(ctx, h, svc.Running)
	})
}

func stop(ctx context.Context, h *mgr.Service) error {
	_, err := h.Control(svc.Stop)
	if errors.Is(err, windows.ERROR_SERVICE_CANNOT_ACCEPT_CTRL) {
		err = stopLater(ctx, h)
	}
	if err != nil && !errors.Is(err, windows.ERROR_SERVICE_NOT_ACTIVE) {
		return err
	}
	return await(ctx, h, svc.Stopped)
}

// stopLater stops a service that takes no orders now: Windows passes none on to one that
// starts, and one that stops has had it.
func stopLater(ctx context.Context, h *mgr.Service) error {
	s, err := query(h)
	if err != nil || s.State != svc.StartPending {
		return err
	}
	if err := await(ctx, h, svc.Running); err != nil {
		if s, asked := query(h); asked == nil && s.State == svc.Stopped {
			return nil
		}
		return err
	}
	_, err = h.Control(svc.Stop)
	return err
}

func order(ctx context.Context, verb string, do func(context.Context, *mgr.Service) error) (State, error) {
	if err := needElevation(verb+" the service", name+" service "+verb); err != nil {
		return State{}, err
	}
	h, err := open(windows.SERVICE_ALL_ACCESS)
	if errors.Is(err, windows.ERROR_SERVICE_DOES_NOT_EXIST) {
		return State{State: StateNotInstalled}, diag.Fail(diag.CodeNotInstalled, errors.New(verb+" the service: it is not installed"), name+" service install")
	}
	if err != nil {
		return State{}, fmt.Errorf("%s the service: %w", verb, err)
	}
	defer func() { _ = h.Close() }()
	if err := do(ctx, h); err != nil {
		fix := "the Event Log (source " + acl.Service + ") and " + LogDir() + "\\holdfast.log say why"
		if code := endedWith(0); errors.As(err, &code) && code == permanent {
			fix = "`" + name + " check` shows a mistake in the configuration; " + fix
		}
		return State{}, diag.Fail(diag.CodeService, fmt.Errorf("%s the service: %w", verb, err), fix)
	}
	return Status(ctx)
}

// await waits for a state for as long as the service gives signs that it gets on.
func await(ctx context.Context, h *mgr.Service, want svc.State) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	var seen svc.Status
	until := time.Now().Add(orderLimit)
	for {
		s, err := query(h)
		switch {
		case err != nil:
			return err
		case s.State == want:
			return nil
		case s.State == svc.Stopped:
			return stoppedBy(s)
		case s.CheckPoint != seen.CheckPoint || s.State != seen.State:
			seen, until = s, time.Now().Add(orderLimit)
		case time.Now().After(until):
			return fmt.Errorf("no sign of it for %s", orderLimit)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// endedWith is the exit code of a service that has said it.
type endedWith uint32

func (e endedWith) Error() string {
	if e == permanent {
		return fmt.Sprintf("it ended with exit code %d, which no restart heals", uint32(e))
	}
	return fmt.Sprintf("it ended with exit code %d", uint32(e))
}

func stoppedBy(s svc.Status) error {
	if s.ServiceSpecificExitCode != 0 {
		return endedWith(s.ServiceSpecificExitCode)
	}
	return fmt.Errorf("it ended: %w", windows.Errno(s.Win32ExitCode))
}
