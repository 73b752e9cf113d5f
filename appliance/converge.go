// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/holdfast-mq/holdfast/appliance/config"
	"github.com/holdfast-mq/holdfast/appliance/diag"
	"github.com/holdfast-mq/holdfast/bootstrap"
	"github.com/holdfast-mq/holdfast/bootstrap/identity"
	"github.com/holdfast-mq/holdfast/bootstrap/jetstream"
)

// Who applies when nobody asked.
const (
	byStart      = "start"
	byReload     = "reload"
	byFileChange = "file change"
	// byLeading is the file of the node that began to lead its cluster.
	byLeading = "leading node"
	// byRetry tries again what could not be done.
	byRetry = "retry"
)

// change is a configuration on its way to the server.
type change struct {
	cfg      *config.Config
	topology bootstrap.Topology
	accounts []identity.Account
	// digest is that of topology and accounts: the same wish has the same digest.
	digest   string
	by       string
	consents bootstrap.Consents
	rollback bool
	// asked is true when somebody runs `holdfast apply`, and shown the digest of the
	// plan that was agreed to; "" for any.
	asked bool
	shown string
	// progress, if not nil, is told how many of the actions are done, and what takes
	// long in the present one.
	progress func(done, total int, now string)
}

func newChange(cfg *config.Config, by string) change {
	c := change{cfg: cfg, topology: bootstrap.FromConfig(cfg, cfg.Nodes()), accounts: identityAccounts(cfg), by: by}
	c.digest = bootstrap.Digest(c.topology, c.accounts)
	return c
}

// newChange is a configuration that was read while the node runs: how many nodes there are
// is what the node was started with, whatever the block `cluster:` says by now.
func (a *Appliance) newChange(cfg *config.Config, by string) change {
	now := *cfg
	now.Cluster = a.opts.Config.Cluster
	return newChange(&now, by)
}

// outcome is what became of a change.
type outcome struct {
	report   bootstrap.Report
	revision uint64 // 0 when there was nothing to record
}

// converge moves the node to a configuration, as far as the consents reach, and
// remembers what became of it. Accounts, users, streams and consumers change in no
// other way: at start, on reload and with `holdfast apply` it is the same.
func (a *Appliance) converge(ctx context.Context, c change) (outcome, error) {
	a.applying.Lock()
	defer a.applying.Unlock()
	a.setChanging(c.by)
	defer a.setChanging("")

	if err := a.heldBack(); err != nil {
		return outcome{}, err
	}
	if err := a.catchUp(ctx); err != nil {
		return outcome{}, err
	}
	history, err := a.revisions().History(ctx)
	if err != nil {
		// Without it nobody knows whether the file is a stale one.
		return outcome{}, err
	}
	plan, err := a.compare(ctx, c, history)
	if err != nil {
		return outcome{}, err
	}
	if old, latest, stale := history.Stale(c.digest, plan.Undoes()); stale && !c.rollback {
		fault := staleFault(old, latest)
		if !c.asked {
			// The file of the node itself, and not one that somebody tried.
			a.remember(plan.Standing(), plan.Untouched("the file is older than what was applied"), fault)
		}
		return outcome{}, fault
	}
	if !c.asked && !a.engine.Leads() && a.grows() == "" {
		// One node applies; the others say how their file differs from what there is.
		a.remember(plan.Standing(), plan.Untouched("another node leads, and applies its file"), nil)
		a.current.Store(c.cfg)
		return outcome{}, nil
	}
	if c.shown != "" && c.shown != plan.Digest() {
		return outcome{}, diag.Fail(diag.CodePlanMoved, errors.New("the plan is not the one that was shown: something changed in the meantime"),
			"run it again and look at the new plan")
	}
	if pending, ok := history.Pending(); ok && pending.Digest == c.digest {
		// Somebody agreed to it, and it was cut short.
		c.consents.Confirmed = c.consents.Confirmed || pending.Confirmed
		c.consents.Allow = append(slices.Clone(c.consents.Allow), pending.Allow...)
	}
	return a.carryOut(ctx, c, plan, history)
}

// carryOut does what the plan says and keeps the books of it.
func (a *Appliance) carryOut(ctx context.Context, c change, plan bootstrap.Plan, history bootstrap.History) (outcome, error) {
	var out outcome
	rev, fresh, err := a.begin(ctx, c, plan, history)
	if err != nil {
		return out, err
	}
	out.revision = rev.ID
	if out.report, err = a.execute(ctx, c, plan, history); err != nil {
		return out, err
	}
	a.remember(out.report.Remaining(), &out.report, nil)
	a.current.Store(c.cfg)
	if out.revision != 0 && ctx.Err() == nil {
		end, news := history.Ended(rev, fresh, out.report, c.topology.Objects())
		if !news {
			return out, nil
		}
		if err := a.revisions().Finish(ctx, end); err != nil {
			return out, err
		}
		a.step("finish revision")
	}
	return out, nil
}

// begin records that a configuration is about to be applied. A revision is begun before
// the first change and finished after the last, so that a start after a crash in between
// knows what was agreed to. One that could not be carried out as a whole is gone on with
// however often it is tried, and by whatever node: only another configuration makes
// another one, and somebody who asks for more than a node does by itself. The ID is 0
// when there is nothing to record. fresh is true when nothing of it was tried before.
func (a *Appliance) begin(ctx context.Context, c change, plan bootstrap.Plan, history bootstrap.History) (rev bootstrap.Revision, fresh bool, err error) {
	asksMore := c.asked && plan.Covered(c.consents) > plan.Covered(bootstrap.Consents{})
	if rev, open, ok := history.Standing(c.digest); ok && !asksMore {
		switch {
		case !open:
			return bootstrap.Revision{}, false, nil
		case rev.Done:
			return rev, false, nil
		}
		if fresh = rev.Objects == nil; fresh { // its beginning was cut short
			rev.Objects = c.topology.Objects()
			err = a.revisions().Resume(ctx, rev)
		}
		return rev, fresh, err
	}
	latest, _ := history.Latest()
	rev = bootstrap.Revision{
		After: latest.ID, Time: time.Now().UTC(), Node: a.dir.NodeName(), By: c.by, Files: c.cfg.Files(),
		Digest: c.digest, Objects: c.topology.Objects(), Allow: c.consents.Allow, Confirmed: c.consents.Confirmed,
		Rollback: c.rollback, Summary: plan.Summary(),
	}
	if rev.ID, err = a.revisions().Begin(ctx, rev); err == nil {
		a.step("begin revision")
	}
	return rev, true, err
}

// identityError is a failed change of accounts and users: without these nothing
// else makes sense, so a start ends with it.
type identityError struct{ error }

func (e identityError) Unwrap() error { return e.error }

// execute changes accounts and users, which streams live in, and then the streams.
func (a *Appliance) execute(ctx context.Context, c change, plan bootstrap.Plan, history bootstrap.History) (bootstrap.Report, error) {
	changes, err := a.identity.Apply(c.accounts)
	if err != nil {
		return bootstrap.Report{}, identityError{err}
	}
	a.tellIdentity(changes)
	a.rememberKeys()
	if len(changes.Made) > 0 {
		a.step("save identity")
	}
	if err := errors.Join(a.writeCreds(), a.publishIdentity(ctx)); err != nil {
		a.log.Warn("credentials not brought up to date, tried again soon", keyErr, err)
	}
	if len(changes.Made) > 0 {
		a.step("publish identity")
	}

	who, what := plan.Split()
	report, err := a.executeStreams(ctx, c, what, history)
	if err := a.group(ctx, c.cfg); err != nil && ctx.Err() == nil {
		a.log.Warn("group commit not brought up to date, messages go one by one", keyErr, err)
	}
	report.Results = append(resultsOf(who), report.Results...)
	return report, err
}

// resultsOf are those of accounts and users, which change all together.
func resultsOf(who bootstrap.Plan) []bootstrap.Result {
	var out []bootstrap.Result
	for _, act := range who.Actions {
		res := bootstrap.Result{Action: act, Outcome: bootstrap.Done}
		if !act.Op.Changes() {
			res.Outcome = bootstrap.Skipped
		}
		out = append(out, res)
	}
	return out
}

// mostRounds bounds how often streams are compared again after some were made anew.
const mostRounds = 3

func (a *Appliance) executeStreams(ctx context.Context, c change, plan bootstrap.Plan, history bootstrap.History) (bootstrap.Report, error) {
	order := jetstream.Order{Consents: c.consents, Step: a.opts.Step, Stopped: a.publishingStopped}
	if c.progress != nil {
		done, total := 0, plan.Covered(c.consents)
		order.Progress = func(d, t int) {
			done, total = d, t
			c.progress(d, t, "")
		}
		order.Copied = func(stream string, d, t uint64) {
			c.progress(done, total, fmt.Sprintf("copying %s: %s of %s messages", stream, humanize.Comma(int64(d)), humanize.Comma(int64(t))))
		}
	}
	var before []bootstrap.Result // what earlier rounds did
	for round := 1; ; round++ {
		a.forgetNotes(plan, c.consents)
		report := a.js.Execute(ctx, plan, order)
		if round == mostRounds || !moved(ctx, report) {
			report.Results = append(before, report.Results...)
			return report, nil
		}
		// What was made anew may have been another thing than what is wanted now: a
		// recreation that an earlier process began.
		for _, op := range bootstrap.Ops() {
			if op.Changes() {
				before = append(before, report.Made(op)...)
			}
		}
		next, err := a.compareStreams(ctx, c, history)
		if err != nil {
			report.Results = append(before, report.Results...)
			return report, err
		}
		plan = next
	}
}

// moved reports whether a comparison after a report can find something new.
func moved(ctx context.Context, r bootstrap.Report) bool {
	return ctx.Err() == nil && r.Moved()
}

// compare says what there is to do for a configuration.
func (a *Appliance) compare(ctx context.Context, c change, history bootstrap.History) (bootstrap.Plan, error) {
	changes, err := a.identity.Plan(c.accounts)
	if err != nil {
		return bootstrap.Plan{}, identityError{err}
	}
	plan := identityPlan(c.cfg, changes)
	streams, err := a.compareStreams(ctx, c, history)
	plan.Actions = append(plan.Actions, streams.Actions...)
	return plan, err
}

func (a *Appliance) compareStreams(ctx context.Context, c change, history bootstrap.History) (bootstrap.Plan, error) {
	// An account that could not be read is in the plan, as unknown.
	observed, err := a.js.Observe(ctx, a.accountNames())
	if a.lasts("reading streams", err, time.Now()) && a.news("reading streams", err) {
		a.log.Warn("not everything could be read", keyErr, err)
	}
	return bootstrap.Diff(c.topology, observed, history.Applied()), ctx.Err()
}

// identityPlan is what happens to accounts and users, as actions.
func identityPlan(cfg *config.Config, changes identity.Changes) bootstrap.Plan {
	var p bootstrap.Plan
	for _, m := range changes.Made {
		act := bootstrap.Action{Op: bootstrap.Update, Kind: bootstrap.KindAccount, Account: m.Account, User: m.User, Reason: m.What, Pos: cfg.At("accounts", m.Account)}
		if m.Kind == identity.KindUser {
			act.Kind, act.Pos = bootstrap.KindUser, cfg.At("accounts", m.Account, "users", m.User)
		}
		switch m.What {
		case identity.Created:
			act.Op, act.Reason = bootstrap.Create, ""
		case identity.Removed:
			act.Op, act.Reason = bootstrap.Remove, "is not in the file any more; its connections are cut and its credentials end"
		}
		p.Actions = append(p.Actions, act)
	}
	for _, m := range changes.Unmanaged {
		p.Actions = append(p.Actions, bootstrap.Action{Op: bootstrap.Unmanaged, Kind: bootstrap.KindAccount, Account: m.Account,
			Reason: "is not in the file; its streams and users stay as they are", Stamped: true})
	}
	return p
}

func staleFault(old, latest bootstrap.Revision) error {
	parts := ""
	if !latest.Whole() {
		parts = ", in part"
	}
	return diag.Fail(diag.CodeStale,
		fmt.Errorf("apply configuration: it is that of revision %d of %s, and revision %d of %s, by %s, was applied since%s",
			old.ID, old.Time.Format(time.DateTime), latest.ID, latest.Time.Format(time.DateTime), latest.By, parts),
		"put the newer file in place; or go back on purpose with `holdfast apply --rollback`")
}

// remember keeps what stands between the node and its configuration. stale is the
// reason why a configuration was not applied at all.
func (a *Appliance) remember(remaining bootstrap.Plan, report *bootstrap.Report, stale error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.plan, a.report, a.stale, a.compared = remaining, report, stale, time.Now()
}

// revisions are the books of what was applied.
func (a *Appliance) revisions() jetstream.Revisions {
	return a.js.Revisions(identity.InternalName, a.nodes())
}

func (a *Appliance) setChanging(by string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.changing = by
}

func (a *Appliance) step(what string) {
	if a.opts.Step != nil {
		a.opts.Step(what)
	}
}
