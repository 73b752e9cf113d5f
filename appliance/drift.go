// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"cmp"
	"context"
	"time"

	"github.com/holdfast-mq/holdfast/bootstrap"
)

const (
	// driftEvery is how often the server is compared with the configuration, and
	// driftLimit bounds what one comparison may take.
	driftEvery = 5 * time.Minute
	driftLimit = time.Minute
)

func (a *Appliance) driftEvery() time.Duration { return cmp.Or(a.opts.DriftEvery, driftEvery) }

// lookForDrift compares the server with the configuration in force and tells of what
// differs. It changes nothing: somebody may have had a reason.
func (a *Appliance) lookForDrift(ctx context.Context) {
	if !a.converged() || !a.applying.TryLock() {
		return // an apply looks for itself
	}
	defer a.applying.Unlock()
	ctx, cancel := context.WithTimeout(ctx, driftLimit)
	defer cancel()
	history, err := a.revisions().History(ctx)
	if err != nil {
		a.log.Warn("not compared with the configuration", keyErr, err)
		return
	}
	plan, err := a.compare(ctx, newChange(a.config(), ""), history)
	if err != nil {
		a.log.Warn("not compared with the configuration", keyErr, err)
		return
	}
	a.mu.Lock()
	before := a.plan.Digest()
	a.plan, a.compared = plan.Standing(), time.Now()
	a.mu.Unlock()
	if plan.Digest() != before && !plan.Empty() {
		a.log.Warn("the server differs from the configuration", keyWhat, plan.Summary(), keyFix, "see `holdfast plan`")
		a.warn(plan.Warnings())
	}
}

// Drift counts the standing differences by what it takes to end them, and says when
// the server was last compared; zero before the first time.
func (a *Appliance) Drift() (byOp map[string]int, compared time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	byOp = map[string]int{}
	for _, op := range bootstrap.Ops() {
		if op.Changes() || op == bootstrap.Blocked {
			byOp[string(op)] = a.plan.Count(op)
		}
	}
	return byOp, a.compared
}
