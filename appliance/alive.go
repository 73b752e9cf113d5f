// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/holdfast-mq/holdfast/bootstrap/identity"
)

const (
	// statusEvery is how often the line in systemctl status is made anew.
	statusEvery = 10 * time.Second
	// stopExtension is what a stop that makes progress asks of systemd: as much as the
	// unit gives it at first (TimeoutStopSec=), for one stream can take that long.
	stopExtension = 90 * time.Second
)

// feedWatchdog tells systemd that the server serves, until ctx is done. The question
// is a message through the server and back, and nothing of streams, disk, peers or
// configuration: a restart makes none of these better, and a slow disk worse.
func (a *Appliance) feedWatchdog(ctx context.Context) {
	a.opts.Notify.Feed(ctx,
		func(ctx context.Context) error { return a.js.RoundTrip(ctx, identity.SystemName) },
		func(err error) {
			if err != nil {
				a.log.Warn("the server does not answer, and systemd is not told that it lives", keyErr, err)
				return
			}
			a.log.Info("the server answers again")
		})
}

// feedUnasked gives systemd signs of life while there is no server to ask, because the
// node is opened anew: systemd watches it since it was ready the first time.
func (a *Appliance) feedUnasked(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var fed sync.WaitGroup
	fed.Go(func() { a.opts.Notify.Feed(ctx, func(context.Context) error { return nil }, func(error) {}) })
	return func() {
		cancel()
		fed.Wait()
	}
}

// tendStatusLine keeps the line in systemctl status true.
func (a *Appliance) tendStatusLine(ctx context.Context) {
	tick := time.NewTicker(statusEvery)
	defer tick.Stop()
	told := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-a.statusLine:
		}
		if line := a.StatusLine(); line != told {
			told = line
			a.opts.Notify.Status(line)
		}
	}
}

// tellStatusLine has the line in systemctl status made anew, for what can't wait.
func (a *Appliance) tellStatusLine() {
	select {
	case a.statusLine <- struct{}{}:
	default: // it is about to be
	}
}

// StatusLine says in one line how the node is.
func (a *Appliance) StatusLine() string {
	if missing := a.Missing(); len(missing) > 0 {
		line := "not ready: " + missing[0]
		if more := len(missing) - 1; more > 0 {
			line += fmt.Sprintf(" (and %d more)", more)
		}
		return line
	}
	if stopped := a.publishingStopped(); stopped != "" {
		return "publishing stopped: " + stopped
	}
	streams := 0
	for _, account := range a.config().Accounts {
		streams += len(account.Streams)
	}
	what := "streams"
	if streams == 1 {
		what = "stream"
	}
	line := fmt.Sprintf("ready, %d %s, %s", streams, what, a.bootstrapLine())
	if trouble := a.clusterLine(); trouble != "" {
		line += "; cluster: " + trouble
	}
	return line
}

func (a *Appliance) bootstrapLine() string {
	byOp, _ := a.Drift()
	differences := 0
	for _, n := range byOp {
		differences += n
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.stale != nil:
		return "configuration older than what was applied, see `holdfast plan`"
	case a.refused != nil:
		return "the latest reload was refused, see the log"
	case differences > 0:
		return fmt.Sprintf("bootstrap left %d to a person, see `holdfast plan`", differences)
	}
	return "bootstrap ok"
}

// askForTime asks systemd for more until done, while the stop makes progress: each
// client that goes, and each stream and consumer that has written its state, ends
// goroutines.
func (a *Appliance) askForTime(now context.Context, done <-chan struct{}) {
	begun, least := time.Now(), runtime.NumGoroutine()
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return
		case <-tick.C:
		}
		line := "draining clients"
		if now.Err() != nil || time.Since(begun) > lameDuck+lameDuckGrace {
			line = "stopping: writing the state of streams and consumers"
		}
		if n := runtime.NumGoroutine(); n < least {
			least = n
			a.opts.Notify.Extend(stopExtension, line)
			continue
		}
		a.opts.Notify.Status(line)
	}
}
