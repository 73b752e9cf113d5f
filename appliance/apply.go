// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"
	"time"

	"github.com/holdfast-mq/holdfast/appliance/diag"
	"github.com/holdfast-mq/holdfast/appliance/service"
	"github.com/holdfast-mq/holdfast/bootstrap"
)

const (
	// startLimit bounds the apply of a start: after it the client port opens all the
	// same, for the streams that exist, and the apply goes on. A thousand streams take
	// a fraction of it; a large stream that is half made anew can take longer.
	startLimit = 5 * time.Minute
	// readyLimit bounds how long units ordered after this one are kept waiting
	// for the first apply.
	readyLimit = 30 * time.Second
	// retryFirst and retryLast are the pauses between tries to create what
	// could not be created.
	retryFirst = 2 * time.Second
	retryLast  = time.Minute
	// retryShared is the longest pause in a cluster: what another node did comes without
	// word of it, and what could not be done may have waited for a node.
	retryShared = 5 * time.Second
	// lastsFor is how long what a node of a cluster can't apply or read has to last before
	// it is told: at a start, and when another node begins to lead, there are some seconds
	// in which the cluster is not ready for it.
	lastsFor = 30 * time.Second
)

// apply makes the node what its configuration says, as far as that needs nobody's
// consent. What can't be done now is tried again by wait; only an error in accounts
// and users is returned.
func (a *Appliance) apply(ctx context.Context, by string) error {
	whole := ctx
	if by == byStart {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, startLimit)
		defer cancel()
	}
	begun, last := time.Now(), time.Now()
	c := newChange(a.config(), by)
	c.progress = func(done, total int, now string) {
		if time.Since(last) < progressEvery {
			return
		}
		last = time.Now()
		a.log.Info("applying the configuration", keyCount, done, keyTotal, total, keyWhat, now)
		line := fmt.Sprintf("applying the configuration: %d of %d %s", done, total, now)
		if time.Since(begun) < readyLimit {
			a.opts.Notify.Extend(startExtension, line)
		} else {
			a.opts.Notify.Ready(line)
		}
	}
	first := a.firstApply()
	out, err := a.converge(ctx, c)
	if wrong, ok := errors.AsType[identityError](err); ok {
		return wrong.error
	}
	a.tellNotApplied(err)
	if err := a.leadStraight(whole); err != nil && whole.Err() == nil {
		a.log.Error("messages are led to group commit, which does not run, and can't be published", keyErr, err, keyFix, "restart the node")
	}
	a.tellApplied(out.report, first)
	return nil
}

// tellNotApplied logs why a configuration was not applied, when that is another
// reason than the last time.
func (a *Appliance) tellNotApplied(err error) {
	passes := err
	if errors.Is(err, errNoLeader) || diag.CodeOf(err) == diag.CodeStale {
		passes = nil // the one others say, and the other stays as it is
	}
	if !a.lasts("configuration", passes, time.Now()) {
		return
	}
	if a.news("configuration", err) && !errors.Is(err, errNoLeader) && a.heldBack() == nil {
		a.log.Error("configuration not applied", keyErr, err, keyFix, diag.Hint(err))
	}
}

// lasts reports whether an error has been there for long enough to be told; one of a
// single node always has. It is true of no error, too.
func (a *Appliance) lasts(of string, err error, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err == nil {
		delete(a.failing, of)
		return true
	}
	if _, known := a.failing[of]; !known {
		a.failing[of] = now
	}
	return a.cluster == nil || now.Sub(a.failing[of]) >= lastsFor
}

// news reports whether an error is to be told: not when it is what was told of the
// same thing the last time.
func (a *Appliance) news(of string, err error) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err == nil {
		delete(a.told, of)
		return false
	}
	before, known := a.told[of]
	a.told[of] = err.Error()
	return !known || before != err.Error()
}

func (a *Appliance) firstApply() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.report == nil
}

// tellApplied logs what was done, and on the first apply what stands.
func (a *Appliance) tellApplied(r bootstrap.Report, first bool) {
	done := map[bootstrap.Op]int{}
	a.forgetActions(r)
	for _, res := range r.Results {
		act := res.Action
		if act.Stream == "" || !act.Op.Changes() {
			continue // accounts and users are told of one by one
		}
		again := !a.news(actionKey(act), res.Err)
		switch res.Outcome {
		case bootstrap.Done:
			done[act.Op]++
			if act.Op == bootstrap.Create {
				a.log.Debug("created", keyAction, string(act.Kind), keyAccount, act.Account, keyStream, act.Stream, keyConsumer, act.Consumer)
				continue
			}
			for _, c := range act.Changes {
				a.log.Info("changed", keyAction, string(act.Op), keyAccount, act.Account, keyStream, act.Stream, keyConsumer, act.Consumer, keyWhat, c.String())
			}
		case bootstrap.Failed:
			if again {
				continue
			}
			a.log.Error("not done", keyAction, string(act.Op), keyAccount, act.Account, keyStream, act.Stream, keyConsumer, act.Consumer,
				keyWhere, act.Pos.String(), keyErr, res.Err, keyFix, diag.Hint(res.Err))
		}
	}
	if n := done[bootstrap.Create]; n > 0 {
		a.log.Info("streams and consumers created", keyCount, n)
	}
	if first {
		a.warn(r.Remaining().Warnings())
	}
}

// actionKey is what is told of an action is kept under.
func actionKey(act bootstrap.Action) string { return "action " + string(act.Op) + " " + act.Path() }

// forgetActions forgets what was told of actions that are not asked for any more: when
// they are again, it is another edit.
func (a *Appliance) forgetActions(r bootstrap.Report) {
	asked := map[string]bool{}
	for _, res := range r.Results {
		asked[actionKey(res.Action)] = true
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	maps.DeleteFunc(a.told, func(of, _ string) bool { return strings.HasPrefix(of, "action ") && !asked[of] })
}

// accountNames are the accounts to look into: what the file declares, and
// what it declared before.
func (a *Appliance) accountNames() []string { return a.identity.Accounts() }

// wakes are what ends a pause of wait.
type wakes struct {
	hup   <-chan os.Signal
	files <-chan struct{} // the configuration's files changed
	led   <-chan struct{} // this node began to lead its cluster
	again <-chan struct{} // the node is to be opened anew
}

// wait tries again to create what is missing, until the node is ready, and
// returns when it is to stop or a part broke.
func (a *Appliance) wait(drain context.Context, w wakes, ready bool) error {
	pause, longest := retryFirst, retryLast
	if a.cluster != nil {
		longest = retryShared
	}
	retry := time.NewTimer(pause)
	defer retry.Stop()
	if ready && a.settled() {
		retry.Stop()
	}
	soon := func() {
		if !a.settled() {
			pause = retryFirst
			retry.Reset(pause)
		}
	}
	reload := func(by string) {
		a.opts.Notify.Reloading()
		a.reload(drain, by)
		a.opts.Notify.Ready(a.StatusLine())
		soon()
	}
	drift := time.NewTicker(a.driftEvery())
	defer drift.Stop()
	for {
		select {
		case <-drain.Done():
			return nil
		case err := <-a.engine.Fatal():
			return err
		case err := <-a.broken:
			return err
		case <-w.again:
			return errAgain
		case <-w.hup:
			reload(byReload)
		case <-w.files:
			reload(byFileChange)
		case <-w.led:
			if err := a.apply(drain, byLeading); err != nil {
				a.tellNotApplied(err)
			}
			pause = leadEvery
			retry.Reset(pause)
		case <-a.applied:
			soon()
		case <-drift.C:
			a.lookForDrift(drain)
		case <-retry.C:
			if !a.settled() {
				if err := a.apply(drain, byRetry); err != nil {
					a.tellNotApplied(err)
				}
			}
			most := longest
			if len(a.Missing()) == 0 {
				most = retryLast // nobody waits for what is left
				if !ready {
					a.tellReady()
				}
				if ready = true; a.settled() {
					continue
				}
			}
			pause = min(pause*2, most)
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

// settled is true when no other try can get any further.
func (a *Appliance) settled() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, failing := a.failing["configuration"]
	return a.report != nil && !a.report.Retry() && !failing
}

// unapplied says what is missing of the topology.
func (a *Appliance) unapplied() []string {
	a.mu.Lock()
	report := a.report // replaced as a whole, never changed
	a.mu.Unlock()
	if report == nil {
		return []string{"topology: not applied yet"}
	}
	return lacking(*report, a.keeps)
}

// failures are what could not be done, for status: where in the file it is asked for, why
// it fails and what to do. What has no fix is only waited for.
func failures(r *bootstrap.Report) diag.List {
	if r == nil {
		return nil
	}
	var out diag.List
	for _, res := range r.Results {
		if res.Outcome != bootstrap.Failed || diag.Hint(res.Err) == "" {
			continue
		}
		act := res.Action
		out = append(out, diag.Problem{
			Severity: diag.Error, Code: diag.CodeOf(res.Err), Pos: act.Pos,
			What: fmt.Sprintf("%s %s: %s", act.Kind, act.Path(), reason(res)), Fix: diag.Hint(res.Err),
		})
	}
	return out
}

// keeps reports whether this node is one of those that keep what an action is about.
func (a *Appliance) keeps(act bootstrap.Action) bool {
	key, ok := a.identity.PublicKey(act.Account)
	return a.cluster == nil || !ok || a.engine.Keeps(key, act.Stream, act.Consumer)
}

// lacking says what of a report keeps a node from being ready. What only other nodes keep,
// of which none answers, does not: this one can do all of its own work, and it is no
// better to have its clients sent to another one. The status of the cluster says it.
func lacking(r bootstrap.Report, keeps func(bootstrap.Action) bool) []string {
	var out []string
	for _, res := range r.Results {
		if res.Lacking() && !(res.Action.Silent && !keeps(res.Action)) {
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
