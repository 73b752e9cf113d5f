// SPDX-License-Identifier: Apache-2.0

package jetstream

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/holdfast-mq/holdfast/appliance/diag"
	"github.com/holdfast-mq/holdfast/bootstrap"
)

const (
	skippedStopped   = "stopped before this action"
	skippedForeign   = "is not in the file"
	skippedStream    = "its stream was not made"
	skippedConfirm   = "needs `holdfast apply`"
	skippedAllowance = "needs `holdfast apply --allow-destructive "

	// noAccount is the API's error of a node that does not know the account.
	noAccount      = 10035
	noAccountLimit = 5 * time.Second
)

// Order is how a plan is to be executed.
type Order struct {
	Consents bootstrap.Consents
	// Progress, if not nil, is called after each action that was tried.
	Progress func(done, total int)
	// Copied, if not nil, is called now and then while the messages of a stream are
	// copied.
	Copied func(stream string, done, total uint64)
	// Stopped, if not nil, says why nothing is stored in files now; "" while it is. The
	// server neither makes nor changes such streams meanwhile.
	Stopped func() string
	// Step, if not nil, is called after each request that changed something. Tests
	// end the process in it.
	Step func(what string)
}

func (o Order) step(what string) {
	if o.Step != nil {
		o.Step(what)
	}
}

func (o Order) copied(stream string, done, total uint64) {
	const every = 256
	if o.Copied != nil && done%every == 0 {
		o.Copied(stream, done, total)
	}
}

// Execute does what a plan does to streams and consumers, as far as the consents
// reach, and leaves everything else alone. Each request has its own time limit, and
// an action that fails stops only what depends on it. It can be interrupted and
// repeated at any point: what is as planned is done.
func (c *Client) Execute(ctx context.Context, plan bootstrap.Plan, order Order) bootstrap.Report {
	var report bootstrap.Report
	missing := make(map[string]bool)
	done, total := 0, 0
	for _, a := range plan.Actions {
		if a.Op.Changes() && order.Consents.Cover(a) {
			total++
		}
	}
	for _, a := range plan.Actions {
		r := bootstrap.Result{Action: a}
		stream := a.Account + "/" + a.Stream
		switch {
		case a.Op == bootstrap.Keep:
			r.Outcome = bootstrap.Done
		case !a.Op.Changes() || !order.Consents.Cover(a):
			r.Outcome, r.Reason = bootstrap.Skipped, whyNot(a)
		case ctx.Err() != nil:
			r.Outcome, r.Reason = bootstrap.Skipped, skippedStopped
		case missing[stream]:
			r.Outcome, r.Reason = bootstrap.Skipped, skippedStream
		default:
			r.Outcome, r.Err = bootstrap.Done, c.do(ctx, a, order)
			if done++; order.Progress != nil {
				order.Progress(done, total)
			}
		}
		if r.Err != nil {
			r.Outcome = bootstrap.Failed
			_, r.Refused = errors.AsType[refusal](r.Err)
			missing[stream] = missing[stream] || a.Kind == bootstrap.KindStream && a.Op == bootstrap.Create
		}
		report.Results = append(report.Results, r)
	}
	return report
}

func whyNot(a bootstrap.Action) string {
	switch {
	case a.Op == bootstrap.Unmanaged:
		return skippedForeign
	case a.Consent == bootstrap.Confirmed:
		return skippedConfirm
	case a.Consent == bootstrap.Allowed:
		return skippedAllowance + a.Allowance() + "`"
	}
	return a.Reason
}

// refusal is an error of a request after which all is as it was before.
type refusal struct{ error }

func (r refusal) Unwrap() error { return r.error }

func (c *Client) do(ctx context.Context, a bootstrap.Action, order Order) error {
	t := target(a)
	switch {
	case a.Op == bootstrap.Create:
		if err := c.createObject(ctx, t, a.Spec); err != nil {
			if code(err) != 0 {
				err = refusal{err}
			}
			return order.fault(diag.CodeCreate, "create "+t.String(), err)
		}
	case a.Op == bootstrap.Recreate:
		return c.recreate(ctx, a, order)
	default:
		return c.update(ctx, t, a.Spec, order)
	}
	order.step("create " + t.String())
	return nil
}

// createObject makes a stream or consumer. In a cluster a node that has just come may be chosen
// to keep it before it knows the account, and refuses it for all; that is over soon.
func (c *Client) createObject(ctx context.Context, t object, spec map[string]any) error {
	begun := time.Now()
	for {
		err := c.request(ctx, t.account, t.subject("CREATE"), t.creation(spec, "create"), &struct{}{})
		if code(err) != noAccount || time.Since(begun) > noAccountLimit {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(sendAgain):
		}
	}
}

func (c *Client) recreate(ctx context.Context, a bootstrap.Action, order Order) error {
	if a.Kind == bootstrap.KindStream {
		if why := order.stopped(); why != "" {
			return diag.Fail(diag.CodeRecreate, fmt.Errorf("make %s anew: %s%s", target(a), stoppedText, why), stoppedHint)
		}
		return c.recreateStream(ctx, a.Account, a.Stream, a.Spec, order)
	}
	return c.recreateConsumer(ctx, a.Account, a.Stream, a.Consumer, a.Spec, order)
}

// update changes fields of what exists. What the file does not say stays as it is on
// the server, so the present configuration is read first; and it is read again
// afterwards, for the server accepts some changes without making them.
func (c *Client) update(ctx context.Context, t object, set map[string]any, order Order) error {
	fail := func(err error) error {
		return order.fault(diag.CodeUpdate, "update "+t.String(), err)
	}
	have, err := c.config(ctx, t)
	if err != nil {
		return fail(refusal{err})
	}
	before := have
	if t.consumer == "" && (bootstrap.Widening(have) || widens(have, set)) {
		if err := c.widen(ctx, t, have, copies(set), widenLimit, order); err != nil {
			return fail(err)
		}
		if have, err = c.config(ctx, t); err != nil || len(set) == 0 {
			return err
		}
	}
	want := bootstrap.Merged(have, set)
	if t.consumer != "" {
		// The update of a consumer ignores it; a request of its own changes it.
		if until, ok := set["pause_until"]; ok {
			text, _ := until.(string)
			if err := c.setPause(ctx, t.account, t.stream, t.consumer, text); err != nil {
				return fail(err)
			}
			order.step("pause " + t.String())
		}
		delete(want, "pause_until")
	}
	if err := c.request(ctx, t.account, t.subject("UPDATE"), t.creation(want, "update"), &struct{}{}); err != nil {
		// In a cluster a change can be taken by some and fail later.
		if now, unread := c.config(ctx, t); code(err) != 0 && unread == nil && reflect.DeepEqual(before, now) {
			err = refusal{err}
		}
		return fail(err)
	}
	order.step("update " + t.String())
	if have, err = c.config(ctx, t); err != nil {
		return fail(err)
	}
	if unmet := bootstrap.Unmet(t.kind(), set, want, have); len(unmet) > 0 {
		return diag.Fail(diag.CodeUpdate, fmt.Errorf("update %s: the server took the change and did not make it: %s", t, unmet[0]),
			"this version of the server does not change this field: put the server's value in the file")
	}
	return nil
}
