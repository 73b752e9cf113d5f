// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/svc"

	"github.com/holdfast-mq/holdfast/appliance/acl"
	"github.com/holdfast-mq/holdfast/appliance/diag"
)

const (
	// hint is how long the service manager waits for the next sign of a start or stop.
	hint = time.Minute
	// stopLimit is how long a stop may go without a sign that it gets on; then clients
	// are cut off. A shutdown of the machine waits no longer than preshutdown.
	stopLimit = 45 * time.Second
	// cutLimit is how long the rest may take; then the process ends. What was
	// acknowledged is on the disk.
	cutLimit    = 20 * time.Second
	preshutdown = stopLimit + cutLimit
)

// UnderManager runs a node for the service manager of Windows, which started this
// process. exit ends the process.
//
// A node that breaks ends the process without a word to the manager: that is a crash,
// and starts it again. What a restart does not heal (exit code 78) is a stop with that
// code, and stays so.
func UnderManager(node func(drain, now context.Context, n Notifier) (code int), exit func(int)) error {
	err := svc.Run(acl.Service, &handler{node: node, exit: exit})
	if errors.Is(err, windows.ERROR_FAILED_SERVICE_CONTROLLER_CONNECT) {
		return diag.Fail(diag.CodeUsage, errors.New("run the service: it was not started by the service manager"),
			"without --scm it runs in the foreground; `"+name+" service start` starts the service")
	}
	if err != nil {
		return fmt.Errorf("run the service: %w", err)
	}
	return nil
}

type handler struct {
	node func(drain, now context.Context, n Notifier) int
	exit func(int)
}

// Execute implements svc.Handler.
func (h *handler) Execute(_ []string, orders <-chan svc.ChangeRequest, tell chan<- svc.Status) (specific bool, code uint32) {
	drain, endDrain := context.WithCancel(context.Background())
	now, endNow := context.WithCancel(context.Background())
	defer endDrain()
	defer endNow()
	heard, over, ended := make(chan news), make(chan struct{}), make(chan int, 1)
	defer close(over)
	n := Notifier{tell: func(what news) {
		select {
		case heard <- what:
		case <-over:
		}
	}}
	go func() { ended <- h.node(drain, now, n) }()

	s := svc.Status{State: svc.StartPending, Accepts: svc.AcceptStop | svc.AcceptPreShutdown, WaitHint: ms(hint)}
	tell <- s
	limit := time.NewTimer(0)
	<-limit.C
	for {
		select {
		case code := <-ended:
			return h.end(code, s.State == svc.StopPending)
		case what := <-heard:
			s = after(s, what)
			tell <- s
			if s.State == svc.StopPending && what.extend > 0 && now.Err() == nil {
				limit.Reset(stopLimit)
			}
		case <-limit.C:
			if now.Err() != nil {
				h.exit(1)
			}
			endNow()
			limit.Reset(cutLimit)
		case o := <-orders:
			switch {
			case o.Cmd == svc.Interrogate:
				tell <- s
			case o.Cmd != svc.Stop && o.Cmd != svc.PreShutdown && o.Cmd != svc.Shutdown, s.State == svc.StopPending:
			default:
				s = svc.Status{State: svc.StopPending, CheckPoint: 1, WaitHint: ms(hint)}
				tell <- s
				limit.Reset(stopLimit)
				endDrain()
			}
		}
	}
}

// after is the state of the service once a node has told something of itself. Each
// word of a start or stop is a sign that it gets on.
func after(s svc.Status, what news) svc.Status {
	switch {
	case s.State == svc.StopPending:
		s.CheckPoint++
	case what.ready:
		s.State, s.CheckPoint, s.WaitHint = svc.Running, 0, 0
	case s.State == svc.StartPending:
		s.CheckPoint++
		s.WaitHint = ms(max(what.extend*2, hint))
	}
	return s
}

// permanent is the exit code of what a restart does not heal.
const permanent = 78

func (h *handler) end(code int, asked bool) (specific bool, exit uint32) {
	switch {
	case code == 0 && asked:
		return false, 0
	case code == permanent, asked:
		return true, uint32(code)
	}
	h.exit(max(code, 1))
	return true, uint32(code) // not reached, but in tests
}

func ms(d time.Duration) uint32 { return uint32(d.Milliseconds()) }
