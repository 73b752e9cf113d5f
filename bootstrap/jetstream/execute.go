// SPDX-License-Identifier: Apache-2.0

package jetstream

import (
	"context"
	"fmt"

	"github.com/holdfast-mq/holdfast/appliance/diag"
	"github.com/holdfast-mq/holdfast/bootstrap"
)

const (
	skippedStopped = "stopped before this action"
	skippedDiffers = "this version changes nothing that exists"
	skippedForeign = "is not in the file"
	skippedStream  = "its stream was not made"
)

// Execute makes what the plan creates and leaves everything else alone. Each
// action has its own time limit, and one that fails stops only what depends on
// it. It can be interrupted and repeated at any point: what exists as planned is
// done. progress, if not nil, is called after each creation.
func (c *Client) Execute(ctx context.Context, plan bootstrap.Plan, progress func(done, total int)) bootstrap.Report {
	var report bootstrap.Report
	missing := make(map[string]bool)
	done, total := 0, plan.Count(bootstrap.Create)
	for _, a := range plan.Actions {
		r := bootstrap.Result{Action: a}
		stream := a.Account + "/" + a.Stream
		switch {
		case a.Op == bootstrap.Keep:
			r.Outcome = bootstrap.Done
		case a.Op != bootstrap.Create:
			r.Outcome, r.Reason = bootstrap.Skipped, whyNot(a)
		case ctx.Err() != nil:
			r.Outcome, r.Reason = bootstrap.Skipped, skippedStopped
		case missing[stream]:
			r.Outcome, r.Reason = bootstrap.Skipped, skippedStream
		default:
			r.Outcome, r.Err = bootstrap.Done, c.create(ctx, a)
		}
		if r.Err != nil {
			r.Outcome = bootstrap.Failed
			missing[stream] = missing[stream] || a.Kind == bootstrap.KindStream
		}
		if a.Op == bootstrap.Create {
			if done++; progress != nil {
				progress(done, total)
			}
		}
		report.Results = append(report.Results, r)
	}
	return report
}

func whyNot(a bootstrap.Action) string {
	switch a.Op {
	case bootstrap.Differs:
		return skippedDiffers
	case bootstrap.Unmanaged:
		return skippedForeign
	}
	return a.Reason
}

func (c *Client) create(ctx context.Context, a bootstrap.Action) error {
	subject, req := "STREAM.CREATE."+a.Stream, any(a.Spec)
	what := fmt.Sprintf("create stream %q in account %q", a.Stream, a.Account)
	if a.Kind == bootstrap.KindConsumer {
		subject = "CONSUMER.CREATE." + a.Stream + "." + a.Consumer
		// Without the action an existing consumer would be changed.
		req = map[string]any{"stream_name": a.Stream, "config": a.Spec, "action": "create"}
		what = fmt.Sprintf("create consumer %q of stream %q in account %q", a.Consumer, a.Stream, a.Account)
	}
	var answer struct{}
	if err := c.request(ctx, a.Account, subject, req, &answer); err != nil {
		return diag.Fail(diag.CodeCreate, fmt.Errorf("%s: %w", what, err), createHint(err))
	}
	return nil
}
