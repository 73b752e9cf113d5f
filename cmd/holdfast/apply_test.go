// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-mq/holdfast/appliance/admin"
	"github.com/holdfast-mq/holdfast/appliance/diag"
	"github.com/holdfast-mq/holdfast/bootstrap"
)

// outcomes are the results of all actions of a plan that ended so.
func outcomes(p bootstrap.Plan, how func(bootstrap.Action) bootstrap.Result) bootstrap.Report {
	var r bootstrap.Report
	for _, a := range p.Actions {
		res := how(a)
		res.Action = a
		r.Results = append(r.Results, res)
	}
	return r
}

// asOrdered ends each action as a node would that does all it may.
func asOrdered(c bootstrap.Consents) func(bootstrap.Action) bootstrap.Result {
	return func(a bootstrap.Action) bootstrap.Result {
		switch {
		case a.Op == bootstrap.Keep, a.Op.Changes() && c.Cover(a):
			return bootstrap.Result{Outcome: bootstrap.Done}
		case a.Op == bootstrap.Unmanaged:
			return bootstrap.Result{Outcome: bootstrap.Skipped, Reason: "is not in the file"}
		case a.Consent == bootstrap.Allowed:
			return bootstrap.Result{Outcome: bootstrap.Skipped, Reason: "needs `holdfast apply --allow-destructive " + a.Allowance() + "`"}
		}
		return bootstrap.Result{Outcome: bootstrap.Skipped, Reason: a.Reason}
	}
}

// obedient is a node that does what a plan says, as revision 13.
func obedient(p bootstrap.Plan) *planner {
	return &planner{
		answer: admin.PlanAnswer{Own: true, Plan: p, Digest: "shown"},
		apply: func(r admin.ApplyRequest, _ func(admin.Progress)) (admin.ApplyAnswer, error) {
			return admin.ApplyAnswer{Own: true, Revision: 13, Report: outcomes(p, asOrdered(r.Consents))}, nil
		},
	}
}

// atTerminal applies with somebody at the terminal who writes an answer.
func atTerminal(t *testing.T, dir, answer string, change func(*applying)) (said, error) {
	t.Helper()
	in, keys, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if _, err := keys.WriteString(answer); err != nil {
		t.Fatal(err)
	}
	if err := keys.Close(); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	a := applying{std: stdio{in: in, out: &out, err: &errs}, g: &globals{dataDir: dir, output: "text"}, isTerminal: func(any) bool { return true }}
	if change != nil {
		change(&a)
	}
	err = a.run(t.Context(), nil)
	return said{out: out.String(), err: errs.String()}, err
}

func TestApplyAsksWithWhatIsAtStakeAndDoesWhatWasShown(t *testing.T) {
	n := obedient(everyClass())
	dir, _ := n.serve(t)
	got, err := atTerminal(t, dir, "y\n", func(a *applying) { a.allow = []string{"shop/ORDERS", "shop/QUEUE"} })
	if code := exitError(0); !errors.As(err, &code) || code != 1 { // one could not be read
		t.Errorf("got %v, want exit code 1", err)
	}
	want := "Removes at least 1,200 messages from 1 stream: shop/ORDERS\nMakes anew: shop/QUEUE\nCan't be taken back: shop/AUDIT\nApply? [y/N] "
	if got.err != want {
		t.Errorf("got the question %q, want %q", got.err, want)
	}
	sameAsFile(t, filepath.Join("testdata", "apply", "every.txt"), strings.ReplaceAll(got.out, dir, "DIR"))
	sent := admin.ApplyRequest{Digest: "shown", Consents: bootstrap.Consents{Confirmed: true, Allow: []string{"shop/ORDERS", "shop/QUEUE"}}, By: "x"}
	if len(n.applied) != 1 {
		t.Fatalf("got %d requests, want 1", len(n.applied))
	}
	n.applied[0].By = "x" // the server's work
	if diff := cmp.Diff(sent, n.applied[0]); diff != "" {
		t.Errorf("got another request (-want +got):\n%s", diff)
	}
}

func TestApplyTakesOnlyYesForAYes(t *testing.T) {
	n := obedient(bootstrap.Plan{Actions: []bootstrap.Action{stream(bootstrap.Create, "ORDERS")}})
	dir, _ := n.serve(t)
	for _, answer := range []string{"", "\n", "n\n", "no\n", "yep\n", "yes no\n"} {
		got, err := atTerminal(t, dir, answer, nil)
		if err == nil || err.Error() != "nothing was applied" || !strings.HasPrefix(got.err, "Apply? [y/N] ") {
			t.Errorf("%q: got %v after %q, want a question and nothing applied", answer, err, got.err)
		}
	}
	if len(n.applied) > 0 {
		t.Fatalf("got %d requests, want none", len(n.applied))
	}
	for _, answer := range []string{"y\n", "Y\n", "yes\n", " YES \n", "y"} {
		if got, err := atTerminal(t, dir, answer, nil); err != nil || !strings.HasSuffix(got.out, "applied revision 13: 1 created\n") {
			t.Errorf("%q: got %v and %q, want it applied", answer, err, got.out)
		}
	}
}

func TestApplyRefusesBeforeAnythingIsDone(t *testing.T) {
	old := applied(3, "start", nil)
	change := bootstrap.Plan{Actions: []bootstrap.Action{stream(bootstrap.Create, "ORDERS"), lowered("EVENTS", 1), stream(bootstrap.Keep, "SAME")}}
	for name, c := range map[string]struct {
		plan  bootstrap.Plan
		stale bool
		args  []string
		code  int
		says  string
	}{
		"nobody to ask":         {plan: change, code: 2, says: "holdfast: nothing was applied: there is no terminal to ask on\nhint: look at the plan, then add --yes\n"},
		"nobody to ask in JSON": {plan: change, args: []string{"-o", "json"}, code: 2, says: "with --output json nobody is asked"},
		"a stream misspelt": {plan: change, args: []string{"--yes", "--allow-destructive", "shop/EVENTS", "--allow-destructive", "shop/EVNTS"}, code: 2,
			says: "holdfast: nothing was applied: --allow-destructive shop/EVNTS: the plan has nothing of that kind for it\nhint: these need it in this plan: shop/EVENTS\n"},
		"a stream that loses nothing": {plan: change, args: []string{"--yes", "--allow-destructive", "shop/ORDERS"}, code: 2, says: "shop/EVENTS"},
		"a plan without": {plan: bootstrap.Plan{}, args: []string{"--yes", "--allow-destructive", "shop/ORDERS"}, code: 2,
			says: "hint: no stream needs it in this plan: leave it out\n"},
		"stale": {plan: change, stale: true, args: []string{"--yes"}, code: 3,
			says: "holdfast: nothing was applied: a newer configuration was applied since this one\nhint: put the newer file in place; or go back on purpose with `holdfast apply --rollback`\n"},
		"stale in JSON": {plan: change, stale: true, args: []string{"--yes", "-o", "json"}, code: 3, says: `"code": "HF2207"`},
	} {
		n := obedient(c.plan)
		if c.stale {
			n.answer.Stale = &old
		}
		dir, _ := n.serve(t)
		got := invoke(t, append([]string{"apply", "--data-dir", dir}, c.args...)...)
		if got.code != c.code || !strings.Contains(got.err, c.says) {
			t.Errorf("%s: got exit code %d and %q, want %d and %q", name, got.code, got.err, c.code, c.says)
		}
		if len(n.applied) > 0 {
			t.Errorf("%s: got %d requests to apply, want none", name, len(n.applied))
		}
	}
}

func TestApplyDoesNotAskWhereNothingWouldBeChanged(t *testing.T) {
	n := obedient(bootstrap.Plan{Actions: []bootstrap.Action{stream(bootstrap.Keep, "SAME"), stream(bootstrap.Unmanaged, "KV_x")}})
	n.apply = nil
	dir, _ := n.serve(t)
	if got := invoke(t, "apply", "--data-dir", dir); got.code != 0 || !strings.HasSuffix(got.out, "\nnothing to change\n") || got.err != "" {
		t.Errorf("got exit code %d, %q and %q, want 0 and no question", got.code, got.out, got.err)
	}

	n = obedient(bootstrap.Plan{Actions: []bootstrap.Action{lowered("ORDERS", 5), lowered("EVENTS", 5)}})
	dir, _ = n.serve(t)
	got := invoke(t, "apply", "--data-dir", dir)
	want := "applied revision 13: nothing was changed\n" +
		"left: stream shop/ORDERS: drop: needs `holdfast apply --allow-destructive shop/ORDERS`\n" +
		"left: stream shop/EVENTS: drop: needs `holdfast apply --allow-destructive shop/EVENTS`\n"
	if got.code != 3 || !strings.HasSuffix(got.out, want) || got.err != "" {
		t.Errorf("got exit code %d, %q and %q, want 3 and what is left", got.code, got.out, got.err)
	}
	if c := n.applied[0].Consents; c.Confirmed {
		t.Errorf("got consents %+v, want none: nobody agreed", c)
	}
}

func TestApplyGoesBackOnlyOnPurpose(t *testing.T) {
	old := applied(3, "start", nil)
	plan := bootstrap.Plan{Actions: []bootstrap.Action{stream(bootstrap.Create, "ORDERS")}}
	for _, stale := range []bool{true, false} {
		n := obedient(plan)
		if stale {
			n.answer.Stale = &old
		}
		dir, _ := n.serve(t)
		got := invoke(t, "apply", "--data-dir", dir, "--yes", "--rollback")
		if got.code != 0 || n.applied[0].Rollback != stale {
			t.Errorf("stale %t: got exit code %d and rollback %t, want 0 and %t", stale, got.code, n.applied[0].Rollback, stale)
		}
		if strings.Contains(got.out, "goes back, which --rollback allows") != stale {
			t.Errorf("stale %t: got %q, want what it means there and only there", stale, got.out)
		}
		if said := strings.Contains(got.err, "--rollback is not needed"); said == stale {
			t.Errorf("stale %t: got %q, want a word when there is nothing to go back to", stale, got.err)
		}
	}
}

func TestApplyExitCodes(t *testing.T) {
	one := func(op bootstrap.Op, o bootstrap.Outcome) admin.ApplyAnswer {
		return admin.ApplyAnswer{Report: bootstrap.Report{Results: []bootstrap.Result{
			{Action: stream(bootstrap.Create, "A"), Outcome: bootstrap.Done}, {Action: stream(op, "B"), Outcome: o},
		}}}
	}
	failedAndLeft := one(bootstrap.Blocked, bootstrap.Skipped)
	failedAndLeft.Report.Results[0].Outcome = bootstrap.Failed
	for name, c := range map[string]struct {
		answer admin.ApplyAnswer
		want   int
	}{
		"done":             {one(bootstrap.Update, bootstrap.Done), 0},
		"unmanaged":        {one(bootstrap.Unmanaged, bootstrap.Skipped), 0},
		"not allowed":      {one(bootstrap.Drop, bootstrap.Skipped), 3},
		"blocked":          {one(bootstrap.Blocked, bootstrap.Skipped), 3},
		"failed":           {one(bootstrap.Update, bootstrap.Failed), 1},
		"failed and left":  {failedAndLeft, 1},
		"not read":         {one(bootstrap.Unknown, bootstrap.Skipped), 1},
		"needs a restart":  {admin.ApplyAnswer{NeedRestart: []string{"listen"}}, 3},
		"nothing declared": {},
	} {
		if got := appliedCode(c.answer); got != c.want {
			t.Errorf("%s: got exit code %d, want %d", name, got, c.want)
		}
	}
}

func TestApplyNamesWhatFailedAndWhatToDo(t *testing.T) {
	var plan bootstrap.Plan
	for i := range 50 {
		plan.Actions = append(plan.Actions, stream(bootstrap.Create, fmt.Sprintf("BAD%02d", i)), lowered(fmt.Sprintf("LEFT%02d", i), 1), stream(bootstrap.Update, fmt.Sprintf("GOOD%02d", i)))
	}
	n := obedient(plan)
	n.answer.NeedRestart = []string{"listen"}
	n.apply = func(r admin.ApplyRequest, _ func(admin.Progress)) (admin.ApplyAnswer, error) {
		report := outcomes(plan, func(a bootstrap.Action) bootstrap.Result {
			if a.Op == bootstrap.Create {
				return bootstrap.Result{Outcome: bootstrap.Failed, Err: diag.Fail(diag.CodeCreate, errors.New("create "+a.Path()+": insufficient storage"), "raise storage.limit")}
			}
			return asOrdered(r.Consents)(a)
		})
		return admin.ApplyAnswer{Own: true, Revision: 13, Report: report, NeedRestart: n.answer.NeedRestart}, nil
	}
	dir, _ := n.serve(t)
	got := invoke(t, "apply", "--yes", "--data-dir", dir)
	if got.code != 1 {
		t.Errorf("got exit code %d, want 1", got.code)
	}
	_, end, _ := strings.Cut(got.out, "Applied last: nothing yet\n\n")
	sameAsFile(t, filepath.Join("testdata", "apply", "failed.txt"), end+"--- stderr ---\n"+got.err)
}

func TestApplyWarnsThatTheNextStartReadsAnotherFile(t *testing.T) {
	for own, want := range map[string]string{
		"/etc/holdfast/holdfast.yaml": "its own file is /etc/holdfast/holdfast.yaml\nhint: put new.yaml in its place\n",
		"":                            "its own file is the built-in starter\nhint: start it with --config new.yaml\n",
	} {
		n := obedient(bootstrap.Plan{})
		n.own, n.answer.Own = own, false
		dir, _ := n.serve(t)
		t.Chdir(t.TempDir())
		writeFile(t, "new.yaml", "{}\n")
		got := invoke(t, "apply", "new.yaml", "--data-dir", dir)
		if got.code != 0 || !strings.Contains(got.err, "holdfast: warning: ") || !strings.HasSuffix(got.err, want) {
			t.Errorf("got exit code %d and %q, want 0 and %q", got.code, got.err, want)
		}
	}
}

func TestApplyInJSONIsTheNodesAnswer(t *testing.T) {
	n := obedient(everyClass())
	dir, _ := n.serve(t)
	got := invoke(t, "apply", "--yes", "-o", "json", "--data-dir", dir)
	var answer struct {
		Own      bool
		Revision uint64
		Report   struct{ Results []map[string]any }
	}
	if err := json.Unmarshal([]byte(got.out), &answer); err != nil {
		t.Fatalf("got %v from %q, want JSON", err, got.out)
	}
	if got.code != 1 || got.err != "" || !answer.Own || answer.Revision != 13 || len(answer.Report.Results) != len(everyClass().Actions) {
		t.Errorf("got exit code %d, %q and %+v, want 1 and every result", got.code, got.err, answer)
	}
	if r := answer.Report.Results[0]; r["outcome"] != "done" || r["action"].(map[string]any)["user"] != "packer" {
		t.Errorf("got %v first, want the user", r)
	}
}

func TestApplySaysWhenTheNodeRefuses(t *testing.T) {
	n := obedient(bootstrap.Plan{Actions: []bootstrap.Action{stream(bootstrap.Create, "ORDERS")}})
	n.apply = func(admin.ApplyRequest, func(admin.Progress)) (admin.ApplyAnswer, error) {
		return admin.ApplyAnswer{}, diag.Fail(diag.CodePlanMoved, errors.New("the plan is not the one that was shown"), "run it again")
	}
	dir, _ := n.serve(t)
	got := invoke(t, "apply", "--yes", "--data-dir", dir)
	if got.code != 1 || got.err != "holdfast: the plan is not the one that was shown\nhint: run it again\n" {
		t.Errorf("got exit code %d and %q, want 1 and the node's words", got.code, got.err)
	}
}

func TestApplyGivesAHintWhereTheNodeHasNone(t *testing.T) {
	n := obedient(bootstrap.Plan{})
	n.apply = func(admin.ApplyRequest, func(admin.Progress)) (admin.ApplyAnswer, error) {
		return admin.ApplyAnswer{}, errors.New("broken")
	}
	dir, _ := n.serve(t)
	if got := invoke(t, "apply", "--data-dir", dir); got.code != 1 || got.err != "holdfast: broken\nhint: `holdfast plan` shows what is left\n" {
		t.Errorf("got exit code %d and %q, want 1 and a hint", got.code, got.err)
	}
}

func TestTheQuestionIsOnlyAboutWhatWouldBeDone(t *testing.T) {
	big := lowered("ORDERS", 3)
	big.Loss.Bytes = 3 << 20
	noted := lowered("EVENTS", 0)
	noted.Loss = &bootstrap.Loss{Note: "messages older than 7d"}
	p := bootstrap.Plan{Actions: []bootstrap.Action{big, noted, stream(bootstrap.Create, "NEW")}}
	for allow, want := range map[string]string{
		"":                        "",
		"shop/ORDERS":             "Removes at least 3 messages, 3.0 MiB, from 1 stream: shop/ORDERS\n",
		"shop/EVENTS":             "Removes messages, now or later, from 1 stream: shop/EVENTS\n",
		"shop/ORDERS shop/EVENTS": "Removes at least 3 messages, 3.0 MiB, from 2 streams: shop/ORDERS, shop/EVENTS\n",
	} {
		if got := consequences(p, bootstrap.Consents{Confirmed: true, Allow: strings.Fields(allow)}); got != want {
			t.Errorf("%q: got %q, want %q", allow, got, want)
		}
	}
}

func TestApplySaysWhenTheNodeGoesAway(t *testing.T) {
	for _, after := range []int{0, 2} {
		n := obedient(bootstrap.Plan{Actions: []bootstrap.Action{stream(bootstrap.Create, "ORDERS")}})
		n.apply = func(_ admin.ApplyRequest, progress func(admin.Progress)) (admin.ApplyAnswer, error) {
			for i := range after {
				progress(admin.Progress{Done: i, Total: 5})
			}
			panic(http.ErrAbortHandler)
		}
		dir, _ := n.serve(t)
		got := invoke(t, "apply", "--yes", "--data-dir", dir)
		if got.code != 1 || !strings.Contains(got.err, "`holdfast plan` shows what is left\n") || strings.Contains(got.out, "applied revision") {
			t.Errorf("after %d lines: got exit code %d and %q, want 1 and how to go on", after, got.code, got.err)
		}
	}
}

func TestApplyThatIsStoppedLeavesTheNodeToIt(t *testing.T) {
	n := obedient(bootstrap.Plan{Actions: []bootstrap.Action{stream(bootstrap.Create, "ORDERS")}})
	begun, end := make(chan struct{}), make(chan struct{})
	n.apply = func(admin.ApplyRequest, func(admin.Progress)) (admin.ApplyAnswer, error) {
		close(begun)
		<-end
		return admin.ApplyAnswer{}, nil
	}
	dir, _ := n.serve(t)
	t.Cleanup(func() { close(end) })
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-begun
		cancel()
	}()
	var out, errs bytes.Buffer
	a := applying{std: stdio{out: &out, err: &errs}, g: &globals{dataDir: dir, output: "text"}, isTerminal: isTerminal, yes: true}
	err := a.run(ctx, nil)
	if err == nil || err.Error() != "no longer following: the node brings what it has begun to its end" || diag.Hint(err) == "" {
		t.Errorf("got %v, want that the node goes on", err)
	}
}

func TestProgressIsShownOnlyWhenItTakesLong(t *testing.T) {
	for name, c := range map[string]struct {
		terminal bool
		takes    time.Duration
		want     string
	}{
		"short":             {takes: 900 * time.Millisecond},
		"short, terminal":   {takes: 900 * time.Millisecond, terminal: true},
		"long":              {takes: 11500 * time.Millisecond, want: "applying: 1 of 2,000, 1s\napplying: 1 of 2,000, 6s\napplying: 1 of 2,000, 11s\n"},
		"long, on terminal": {takes: 2500 * time.Millisecond, terminal: true, want: "\rapplying: 1 of 2,000, 1s\rapplying: 1 of 2,000, 2s\r" + strings.Repeat(" ", 24) + "\r"},
	} {
		synctest.Test(t, func(t *testing.T) {
			var out bytes.Buffer
			var far applyProgress
			p := newProgress(&out, c.terminal, far.text)
			far.set(admin.Progress{Done: 1, Total: 2000})
			<-time.After(c.takes)
			p.stop()
			if out.String() != c.want {
				t.Errorf("%s: got %q, want %q", name, out.String(), c.want)
			}
		})
	}
}

func TestAllowDestructiveCompletesWhatThePlanNeeds(t *testing.T) {
	dir, _ := obedient(everyClass()).serve(t)
	got := invoke(t, "__complete", "apply", "--data-dir", dir, "--allow-destructive", "shop/ORDERS", "--allow-destructive", "sh")
	if got.out != "shop/QUEUE\n:4\n" {
		t.Errorf("got %q and %q, want the other stream that needs it", got.out, got.err)
	}
	if got := invoke(t, "__complete", "apply", "--data-dir", t.TempDir(), "--allow-destructive", ""); got.out != ":4\n" {
		t.Errorf("got %q without a node, want nothing", got.out)
	}
}
