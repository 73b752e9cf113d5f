// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/holdfast-mq/holdfast/appliance/diag"
	"github.com/holdfast-mq/holdfast/appliance/service"
	"github.com/holdfast-mq/holdfast/bootstrap"
)

const (
	// applyLimit bounds one apply: after it the client port opens all the same,
	// for the streams that exist. A thousand streams take a fraction of it.
	applyLimit = 5 * time.Minute
	// readyLimit bounds how long units ordered after this one are kept waiting
	// for the first apply.
	readyLimit = 30 * time.Second
	// retryFirst and retryLast are the pauses between tries to create what
	// could not be created.
	retryFirst = 2 * time.Second
	retryLast  = time.Minute
)

// apply creates what is declared and missing, and remembers what became of it.
func (a *Appliance) apply(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, applyLimit)
	defer cancel()
	begun := time.Now()
	// An account that could not be read is in the plan, as unknown.
	observed, err := a.js.Observe(ctx, a.accountNames())
	if err != nil {
		a.log.Warn("not everything could be read", keyErr, err)
	}
	a.mu.Lock()
	topology := a.topology
	a.mu.Unlock()
	plan := bootstrap.Diff(topology, observed)
	total := plan.Count(bootstrap.Create)
	last := time.Now()
	report := a.js.Execute(ctx, plan, func(done, _ int) {
		if time.Since(last) < progressEvery {
			return
		}
		last = time.Now()
		a.log.Info("creating streams and consumers", keyCount, done, keyTotal, total)
		line := fmt.Sprintf("creating streams and consumers: %d of %d", done, total)
		if time.Since(begun) < readyLimit {
			a.opts.Notify.Extend(startExtension, line)
		} else {
			a.opts.Notify.Ready(line)
		}
	})
	a.mu.Lock()
	first := a.report == nil
	a.plan, a.report = plan, &report
	a.mu.Unlock()
	a.tellApplied(report, first)
}

// tellApplied logs what was done, and on the first apply what stands.
func (a *Appliance) tellApplied(r bootstrap.Report, first bool) {
	created := 0
	for _, res := range r.Results {
		act := res.Action
		if act.Op != bootstrap.Create {
			continue
		}
		switch res.Outcome {
		case bootstrap.Done:
			created++
			a.log.Debug("created", keyAction, string(act.Kind), keyAccount, act.Account, keyStream, act.Stream, keyConsumer, act.Consumer)
		case bootstrap.Failed:
			a.log.Error("not created", keyAccount, act.Account, keyStream, act.Stream, keyConsumer, act.Consumer,
				keyWhere, act.Pos.String(), keyErr, res.Err, keyFix, diag.Hint(res.Err))
		}
	}
	if created > 0 {
		a.log.Info("streams and consumers created", keyCount, created)
	}
	if first {
		a.warn(a.plan.Warnings())
	}
}

// accountNames are the accounts to look into: what the file declares, and
// what it declared before.
func (a *Appliance) accountNames() []string { return a.identity.Accounts() }

// wait tries again to create what is missing, until the node is ready, and
// returns when it is to stop or a part broke.
func (a *Appliance) wait(drain context.Context, hup <-chan os.Signal, ready bool) error {
	pause := retryFirst
	retry := time.NewTimer(pause)
	defer retry.Stop()
	if ready {
		retry.Stop()
	}
	for {
		select {
		case <-drain.Done():
			return nil
		case err := <-a.engine.Fatal():
			return err
		case err := <-a.broken:
			return err
		case <-hup:
			a.opts.Notify.Reloading()
			a.reload(drain)
			a.opts.Notify.Ready("reloaded")
			if !a.converged() {
				pause = retryFirst
				retry.Reset(pause)
			}
		case <-retry.C:
			if !a.converged() {
				a.apply(drain)
			}
			if len(a.Missing()) == 0 {
				a.tellReady()
				continue
			}
			pause = min(pause*2, retryLast)
			retry.Reset(pause)
		}
	}
}

func (a *Appliance) watchHangups() (<-chan os.Signal, func()) { return service.Hangups() }

func (a *Appliance) converged() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.report != nil && a.report.Converged()
}

// unapplied says what is missing of the topology.
func (a *Appliance) unapplied() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.report == nil {
		return []string{"topology: not applied yet"}
	}
	var out []string
	for _, res := range a.report.Results {
		if res.Action.Op == bootstrap.Create && res.Outcome != bootstrap.Done || res.Action.Op == bootstrap.Unknown {
			out = append(out, fmt.Sprintf("topology: %s %s: %s", res.Action.Kind, res.Action.Path(), reason(res)))
		}
	}
	return out
}

func reason(res bootstrap.Result) string {
	switch {
	case res.Err != nil && errors.Is(res.Err, context.DeadlineExceeded):
		return "no answer in time"
	case res.Err != nil:
		return res.Err.Error()
	case res.Reason != "":
		return res.Reason
	}
	return res.Action.Reason
}
