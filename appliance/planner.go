// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/holdfast-mq/holdfast/appliance/admin"
	"github.com/holdfast-mq/holdfast/appliance/config"
	"github.com/holdfast-mq/holdfast/appliance/diag"
)

// tellCopyEvery is how often whoever applies is told how far a copy is.
const tellCopyEvery = 200 * time.Millisecond

// shownRevisions is how many revisions a plan comes with.
const shownRevisions = 50

// Plan says what applying a configuration would do, and does nothing.
func (a *Appliance) Plan(ctx context.Context, r admin.PlanRequest) (admin.PlanAnswer, error) {
	if err := a.running(); err != nil {
		return admin.PlanAnswer{}, err
	}
	cfg, own, problems, err := a.requested(r)
	if err != nil {
		return admin.PlanAnswer{}, err
	}
	history, err := a.revisions().History(ctx)
	if err != nil {
		return admin.PlanAnswer{}, err
	}
	c := a.newChange(cfg, "")
	plan, err := a.compare(ctx, c, history)
	if err != nil {
		return admin.PlanAnswer{}, err
	}
	out := admin.PlanAnswer{
		Own: own, Plan: plan, Digest: plan.Digest(), Problems: admin.Problems(problems),
		NeedRestart: needRestart(a.startedWith(), cfg),
	}
	if old, _, stale := history.Stale(c.digest, plan.Undoes()); stale {
		old.Objects = nil
		out.Stale = &old
	}
	for _, rev := range history[max(0, len(history)-shownRevisions):] {
		rev.Objects = nil
		out.Revisions = append(out.Revisions, rev)
	}
	return out, nil
}

// Apply moves the node to a configuration that somebody saw the plan of.
func (a *Appliance) Apply(ctx context.Context, r admin.ApplyRequest, progress func(admin.Progress)) (admin.ApplyAnswer, error) {
	if err := a.running(); err != nil {
		return admin.ApplyAnswer{}, err
	}
	cfg, own, _, err := a.requested(r.PlanRequest)
	if err != nil {
		return admin.ApplyAnswer{}, err
	}
	c := a.newChange(cfg, r.By)
	c.consents, c.rollback, c.asked, c.shown = r.Consents, r.Rollback, true, r.Digest
	var last time.Time
	c.progress = func(done, total int, now string) {
		if now == "" || time.Since(last) > tellCopyEvery {
			last = time.Now()
			progress(admin.Progress{Done: done, Total: total, Now: now})
		}
	}
	out, err := a.converge(ctx, c)
	select {
	case a.applied <- struct{}{}:
	default: // wait has not looked at the one before yet
	}
	if err != nil {
		a.log.Error("configuration not applied", keyUser, r.By, keyErr, err)
		return admin.ApplyAnswer{}, err
	}
	a.log.Info("configuration applied", keyUser, r.By, keyDigest, digest(cfg), "revision", out.revision)
	a.tellApplied(out.report, false)
	if own {
		a.asRead.Store(cfg)
		a.reloaded(nil)
	}
	return admin.ApplyAnswer{Own: own, Report: out.report, Revision: out.revision, NeedRestart: needRestart(a.startedWith(), cfg)}, nil
}

// ownFiles are the files that the node reads at its next start, whatever was applied
// since.
func (a *Appliance) ownFiles() []string {
	if a.opts.Watched != nil {
		return a.opts.Watched()
	}
	return a.opts.Config.Files()
}

// running refuses to plan while the server is not there to be compared with.
func (a *Appliance) running() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.phase != admin.PhaseRunning {
		return diag.Fail(diag.CodeNotReady, fmt.Errorf("the node is %s", a.phase), "`holdfast status` shows how far it is; try again when it runs")
	}
	if a.changing != "" {
		return diag.Fail(diag.CodeNotReady, fmt.Errorf("the node is applying a configuration already, by %s", a.changing),
			"wait until it is done; the log shows how far it is")
	}
	return nil
}

// requested loads the configuration that a request is about.
func (a *Appliance) requested(r admin.PlanRequest) (cfg *config.Config, own bool, problems diag.List, err error) {
	texts := r.Texts
	if own = a.ownFile(r.File); own {
		texts = nil
	}
	cfg, problems = a.opts.Load(texts)
	if problems.Err() == nil {
		return cfg, own, problems, nil
	}
	var errs []error
	code := diag.Code("")
	for _, p := range problems {
		if p.Severity == diag.Error {
			errs, code = append(errs, errors.New(p.String())), p.Code
		}
	}
	return nil, own, nil, diag.FailPermanently(code, errors.Join(errs...), "correct it; `holdfast check FILE` shows each problem with its line")
}

// ownFile reports whether a file is the one that the node reads.
func (a *Appliance) ownFile(file string) bool {
	mine := a.opts.Config.Files()
	if len(mine) == 0 || file == "" {
		return file == ""
	}
	abs, err := filepath.Abs(mine[0])
	if err != nil {
		return false
	}
	one, errA := os.Stat(abs)
	two, errB := os.Stat(file)
	return abs == filepath.Clean(file) || errA == nil && errB == nil && os.SameFile(one, two)
}
