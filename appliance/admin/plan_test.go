// SPDX-License-Identifier: Apache-2.0

//go:build unix

package admin

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-mq/holdfast/appliance/config"
	"github.com/holdfast-mq/holdfast/appliance/diag"
	"github.com/holdfast-mq/holdfast/bootstrap"
)

// planning is a node that answers plans and applies as it is told.
type planning struct {
	answer PlanAnswer
	err    error
	apply  func(ctx context.Context, progress func(Progress)) (ApplyAnswer, error)

	asked   PlanRequest
	ordered ApplyRequest
}

func (p *planning) Plan(_ context.Context, r PlanRequest) (PlanAnswer, error) {
	p.asked = r
	return p.answer, p.err
}

func (p *planning) Apply(ctx context.Context, r ApplyRequest, progress func(Progress)) (ApplyAnswer, error) {
	p.ordered = r
	return p.apply(ctx, progress)
}

func servePlans(t *testing.T, p *planning) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "admin.sock")
	serve(t, path, Handler(&madeUp{}, &madeUp{}, p, nil, nil))
	return path
}

func somePlan() bootstrap.Plan {
	return bootstrap.Plan{Actions: []bootstrap.Action{
		{Op: bootstrap.Drop, Kind: bootstrap.KindStream, Account: "shop", Stream: "ORDERS", Consent: bootstrap.Allowed,
			Spec: map[string]any{"max_msgs": json.Number("10")}, Changes: []bootstrap.FieldChange{{Field: "max_msgs", Have: json.Number("20"), Want: json.Number("10"),
				Pos: diag.Pos{File: "/x.yaml", Line: 3, Col: 5}}}, Loss: &bootstrap.Loss{Messages: 10, Note: "n"}},
		{Op: bootstrap.Keep, Kind: bootstrap.KindUser, Account: "shop", User: "packer"},
	}}
}

func TestPlanCrossesTheSocket(t *testing.T) {
	p := &planning{answer: PlanAnswer{
		Own: true, Plan: somePlan(), Digest: "d", Problems: []Problem{{Severity: "warning", What: "w"}}, NeedRestart: []string{"listen"},
		Revisions: bootstrap.History{{ID: 7, By: "root", Done: true}}, Stale: &bootstrap.Revision{ID: 3},
	}}
	path := servePlans(t, p)
	want := PlanRequest{File: "/etc/x.yaml", Texts: []config.Text{{Name: "/etc/x.yaml", Data: []byte("a: \x00\xff\n")}, {Name: "/etc/x.d/1.yaml"}}}
	got, err := NewClient(path).Plan(t.Context(), want)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, p.asked); diff != "" {
		t.Errorf("the node was asked otherwise (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(asJSON(t, p.answer), asJSON(t, got)); diff != "" {
		t.Errorf("got another answer (-want +got):\n%s", diff)
	}
	if got.Plan.String() != p.answer.Plan.String() {
		t.Errorf("got the plan\n%s\nwant\n%s", got.Plan, p.answer.Plan)
	}
	p.err = diag.Fail(diag.CodeNotReady, errors.New("the node is recovering"), "wait")
	if _, err := NewClient(path).Plan(t.Context(), want); diag.CodeOf(err) != diag.CodeNotReady || diag.Hint(err) != "wait" {
		t.Errorf("got %v, want the node's own error", err)
	}
}

func TestPlanKeepsEveryDigitOfALargeNumber(t *testing.T) {
	p := &planning{answer: PlanAnswer{Plan: bootstrap.Plan{Actions: []bootstrap.Action{{Op: bootstrap.Update, Kind: bootstrap.KindConsumer,
		Changes: []bootstrap.FieldChange{{Field: "opt_start_seq", Have: json.Number("9007199254740993"), Want: json.Number("18446744073709551615")}}}}}}}
	got, err := NewClient(servePlans(t, p)).Plan(t.Context(), PlanRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if want := "opt_start_seq: 9007199254740993 on the server, 18446744073709551615 in the file"; !strings.Contains(got.Plan.String(), want) {
		t.Errorf("got\n%s\nwant %q", got.Plan, want)
	}
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestApplyTellsHowFarItIsAndThenItsEnd(t *testing.T) {
	plan := somePlan()
	want := ApplyAnswer{Own: true, Revision: 8, NeedRestart: []string{"listen"}, Report: bootstrap.Report{Results: []bootstrap.Result{
		{Action: plan.Actions[0], Outcome: bootstrap.Failed, Err: diag.Fail(diag.CodeUpdate, errors.New("update: no"), "do it")},
		{Action: plan.Actions[1], Outcome: bootstrap.Done},
	}}}
	p := &planning{apply: func(_ context.Context, progress func(Progress)) (ApplyAnswer, error) {
		progress(Progress{Done: 1, Total: 2})
		progress(Progress{Done: 2, Total: 2})
		return want, nil
	}}
	order := ApplyRequest{Digest: "d", Rollback: true, Consents: bootstrap.Consents{Confirmed: true, Allow: []string{"shop/ORDERS"}}, By: "somebody else",
		PlanRequest: PlanRequest{File: "/x.yaml"}}
	var far []Progress
	got, err := NewClient(servePlans(t, p)).Apply(t.Context(), order, func(p Progress) { far = append(far, p) })
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]Progress{{Done: 1, Total: 2}, {Done: 2, Total: 2}}, far); diff != "" {
		t.Errorf("got other progress (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(asJSON(t, want), asJSON(t, got)); diff != "" {
		t.Errorf("got another answer (-want +got):\n%s", diff)
	}
	if err := got.Report.Results[0].Err; diag.CodeOf(err) != diag.CodeUpdate || diag.Hint(err) != "do it" {
		t.Errorf("got %v, want the error with code and hint", err)
	}
	order.By = p.ordered.By
	if diff := cmp.Diff(order, p.ordered); diff != "" || order.By == "somebody else" {
		t.Errorf("the node was told otherwise, by %q (-want +got):\n%s", order.By, diff)
	}
}

func TestApplyAnswersALineAtATime(t *testing.T) {
	more := make(chan struct{})
	p := &planning{apply: func(_ context.Context, progress func(Progress)) (ApplyAnswer, error) {
		progress(Progress{Done: 1, Total: 2})
		<-more // until the first line was read
		return ApplyAnswer{}, diag.Fail(diag.CodePlanMoved, errors.New("moved"), "again")
	}}
	path := servePlans(t, p)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://holdfast/v1/apply", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := NewClient(path).http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if got := resp.Header.Get("Content-Type"); got != "application/jsonl" {
		t.Errorf("got content type %q, want application/jsonl", got)
	}
	lines := bufio.NewReader(resp.Body)
	first, err := lines.ReadString('\n')
	close(more)
	if want := `{"progress":{"done":1,"total":2}}` + "\n"; err != nil || first != want {
		t.Errorf("got %q, %v, want %q", first, err, want)
	}
	rest, err := io.ReadAll(lines)
	if want := `{"failure":{"code":"HF2209","what":"moved","fix":"again"}}` + "\n"; err != nil || string(rest) != want {
		t.Errorf("got %q, %v, want %q", rest, err, want)
	}
}

func TestApplyFailsWithTheNodesOwnError(t *testing.T) {
	p := &planning{apply: func(context.Context, func(Progress)) (ApplyAnswer, error) {
		return ApplyAnswer{}, diag.Fail(diag.CodeStale, errors.New("it is stale"), "go back")
	}}
	_, err := NewClient(servePlans(t, p)).Apply(t.Context(), ApplyRequest{}, func(Progress) {})
	if err == nil || err.Error() != "it is stale" || diag.CodeOf(err) != diag.CodeStale || diag.Hint(err) != "go back" {
		t.Errorf("got %v, want the node's own error", err)
	}
}

func TestApplySaysWhenTheNodeGoesAwayInTheMiddle(t *testing.T) {
	p := &planning{apply: func(_ context.Context, progress func(Progress)) (ApplyAnswer, error) {
		progress(Progress{Done: 1, Total: 2})
		panic(http.ErrAbortHandler) // the connection ends without an answer
	}}
	_, err := NewClient(servePlans(t, p)).Apply(t.Context(), ApplyRequest{}, func(Progress) {})
	if err == nil || !strings.Contains(err.Error(), "the node went away") || !strings.Contains(diag.Hint(err), "brought to its end") {
		t.Errorf("got %v, hint %q, want that the node went away and what is next", err, diag.Hint(err))
	}
}

func TestApplyGoesOnWhenWhoeverAskedIsGone(t *testing.T) {
	begun, outcome := make(chan struct{}), make(chan error, 1)
	gone := make(chan struct{})
	p := &planning{apply: func(ctx context.Context, progress func(Progress)) (ApplyAnswer, error) {
		close(begun)
		<-gone
		progress(Progress{Done: 1, Total: 1}) // to nobody
		outcome <- ctx.Err()
		return ApplyAnswer{}, nil
	}}
	path := servePlans(t, p)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-begun
		cancel()
	}()
	if _, err := NewClient(path).Apply(ctx, ApplyRequest{}, func(Progress) {}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
	close(gone)
	select {
	case err := <-outcome:
		if err != nil {
			t.Errorf("got %v in the node, want it to go on", err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("got no end of the apply within 30 s, want one")
	}
}

func TestPlansWantJSONAndPOST(t *testing.T) {
	path := servePlans(t, &planning{})
	for _, target := range []string{"/v1/plan", "/v1/apply"} {
		for method, want := range map[string]int{http.MethodPost: http.StatusUnprocessableEntity, http.MethodGet: http.StatusMethodNotAllowed} {
			req, err := http.NewRequestWithContext(t.Context(), method, "http://holdfast"+target, bytes.NewReader([]byte("{broken")))
			if err != nil {
				t.Fatal(err)
			}
			resp, err := NewClient(path).http.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err != nil || resp.StatusCode != want {
				t.Errorf("%s %s: got status %d, %v, want %d", method, target, resp.StatusCode, err, want)
			}
			if method == http.MethodPost && !strings.Contains(string(body), string(diag.CodeUsage)) {
				t.Errorf("%s: got %q, want code %s", target, body, diag.CodeUsage)
			}
		}
	}
}
