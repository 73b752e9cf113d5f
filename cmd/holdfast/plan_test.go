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
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-mq/holdfast/appliance"
	"github.com/holdfast-mq/holdfast/appliance/admin"
	"github.com/holdfast-mq/holdfast/appliance/diag"
	"github.com/holdfast-mq/holdfast/bootstrap"
)

// planner is a node that answers plans and applies as it is told, through a real
// socket.
type planner struct {
	own    string
	answer admin.PlanAnswer
	err    error
	apply  func(admin.ApplyRequest, func(admin.Progress)) (admin.ApplyAnswer, error)

	mu      sync.Mutex
	planned []admin.PlanRequest
	applied []admin.ApplyRequest
}

func (n *planner) CA() string                                      { return "" }
func (n *planner) Users() []admin.User                             { return nil }
func (n *planner) Login(string, string, bool) (admin.Login, error) { return admin.Login{}, nil }
func (n *planner) ExportIdentity() ([]byte, error)                 { return nil, nil }
func (n *planner) Status(context.Context) (admin.Status, error)    { return n.status(), nil }
func (n *planner) ChangeUser(context.Context, admin.CredsOp, string, string, time.Duration) error {
	return nil
}

func (n *planner) status() admin.Status {
	var s admin.Status
	if n.own != "" {
		s.Node.ConfigFiles = []string{n.own, "overlay.yaml"}
	}
	return s
}

func (n *planner) Plan(_ context.Context, r admin.PlanRequest) (admin.PlanAnswer, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.planned = append(n.planned, r)
	return n.answer, n.err
}

func (n *planner) Apply(_ context.Context, r admin.ApplyRequest, progress func(admin.Progress)) (admin.ApplyAnswer, error) {
	n.mu.Lock()
	n.applied = append(n.applied, r)
	n.mu.Unlock()
	if n.apply == nil {
		return admin.ApplyAnswer{Own: n.answer.Own}, nil
	}
	return n.apply(r, progress)
}

// serve has the node answer in a data directory until the test ends, or until the
// function is called.
func (n *planner) serve(t *testing.T) (dataDir string, end func()) {
	t.Helper()
	dir := t.TempDir()
	l, err := admin.Listen(appliance.FindSocket(dir))
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: admin.Handler(n, n, n, nil, nil)}
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(l) }()
	t.Cleanup(func() {
		_ = s.Close()
		<-done
	})
	return dir, func() { _ = s.Close() }
}

// said is what one invocation said.
type said struct {
	code     int
	out, err string
}

// invoke runs the command line with nobody at the other end of stdin.
func invoke(t *testing.T, args ...string) said {
	t.Helper()
	in, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	var out, errs bytes.Buffer
	code := run(args, stdio{in: in, out: &out, err: &errs})
	return said{code, out.String(), errs.String()}
}

func sameAsFile(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s: got another text (-want +got):\n%s", file, diff)
	}
}

func writeFile(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func applied(id uint64, by string, change func(*bootstrap.Revision)) bootstrap.Revision {
	r := bootstrap.Revision{
		ID: id, Time: time.Date(2026, 11, 20+int(id), 20, 52, 9, 0, time.UTC), Node: "hf-plant7", By: by,
		Digest: fmt.Sprintf("%016x", id), Done: true, Summary: "3 to create, 1 as declared",
	}
	if change != nil {
		change(&r)
	}
	return r
}

func stream(op bootstrap.Op, name string) bootstrap.Action {
	return bootstrap.Action{Op: op, Kind: bootstrap.KindStream, Account: "shop", Stream: name, Pos: diag.Pos{File: "/etc/holdfast/holdfast.yaml", Line: 9, Col: 5}}
}

// lowered is a stream that loses messages.
func lowered(name string, messages uint64) bootstrap.Action {
	a := stream(bootstrap.Drop, name)
	a.Consent = bootstrap.Allowed
	a.Changes = []bootstrap.FieldChange{{Field: "max_msgs", Have: 2000, Want: 800, Pos: diag.Pos{File: "/etc/holdfast/holdfast.yaml", Line: 12, Col: 7}}}
	a.Reason = "lowers the limit: the oldest messages over it are removed"
	a.Loss = &bootstrap.Loss{Messages: messages}
	return a
}

// everyClass has an action of each kind.
func everyClass() bootstrap.Plan {
	anew, oneWay, updated, drifted, blocked := stream(bootstrap.Recreate, "QUEUE"), stream(bootstrap.OneWay, "AUDIT"), stream(bootstrap.Update, "EVENTS"),
		stream(bootstrap.Update, "HAND"), stream(bootstrap.Blocked, "FIRST")
	anew.Consent, anew.Reason = bootstrap.Allowed, "the server does not change storage of an existing stream"
	anew.Changes = []bootstrap.FieldChange{{Field: "storage", Have: "file", Want: "memory"}}
	oneWay.Consent, oneWay.Reason = bootstrap.Confirmed, "the server never takes it back"
	oneWay.Changes = []bootstrap.FieldChange{{Field: "deny_delete", Have: nil, Want: true}}
	updated.Changes = []bootstrap.FieldChange{{Field: "max_age", Have: 3600000000000, Want: 604800000000000}}
	drifted.Consent, drifted.Drift = bootstrap.Confirmed, true
	drifted.Changes = []bootstrap.FieldChange{{Field: "description", Have: "by hand", Want: "events"}}
	blocked.Reason = "first_seq only counts when a stream is made"
	foreign, unread := stream(bootstrap.Unmanaged, "KV_x"), stream(bootstrap.Unknown, "DARK")
	foreign.Reason, unread.Reason = "was not made by Holdfast", "no answer in time"
	user := bootstrap.Action{Op: bootstrap.Remove, Kind: bootstrap.KindUser, Account: "shop", User: "packer", Reason: "is not in the file any more"}
	return bootstrap.Plan{Actions: []bootstrap.Action{
		user, lowered("ORDERS", 1200), anew, oneWay, updated, drifted, blocked, stream(bootstrap.Create, "NEW"), foreign, unread, stream(bootstrap.Keep, "SAME"),
	}}
}

func thousand() bootstrap.Plan {
	var p bootstrap.Plan
	for i := range 1000 {
		a := stream(bootstrap.Create, fmt.Sprintf("S%04d", i))
		switch {
		case i%100 == 7:
			a = lowered(a.Stream, 30)
		case i%3 == 0:
			a.Op = bootstrap.Keep
		}
		p.Actions = append(p.Actions, a)
	}
	return p
}

func TestPlanShowsWhatThereIsToKnow(t *testing.T) {
	small := bootstrap.Plan{Actions: []bootstrap.Action{stream(bootstrap.Create, "ORDERS"), stream(bootstrap.Keep, "EVENTS")}}
	same := bootstrap.Plan{Actions: small.Actions[1:]}
	old := applied(3, "start", nil)
	for name, c := range map[string]struct {
		answer admin.PlanAnswer
		args   []string
		code   int
	}{
		"small": {answer: admin.PlanAnswer{Own: true, Plan: small, NeedRestart: []string{"listen", "storage"},
			Revisions: bootstrap.History{applied(8, "start", nil), applied(9, "root", nil)}}, code: 3},
		"same":     {answer: admin.PlanAnswer{Own: true, Plan: same, Revisions: bootstrap.History{applied(1, "start", nil)}}},
		"first":    {answer: admin.PlanAnswer{Own: true, Plan: small}, code: 3},
		"every":    {answer: admin.PlanAnswer{Own: true, Plan: everyClass(), Revisions: bootstrap.History{applied(2, "file change", nil)}}, code: 3},
		"thousand": {answer: admin.PlanAnswer{Own: true, Plan: thousand(), Revisions: bootstrap.History{applied(2, "reload", nil)}}, code: 3},
		"stale": {answer: admin.PlanAnswer{Own: true, Plan: small, Stale: &old, Revisions: bootstrap.History{old, applied(4, "reload", nil),
			applied(5, "marta", func(r *bootstrap.Revision) { r.Rollback = true })}}, code: 3},
		"staleempty": {answer: admin.PlanAnswer{Own: true, Plan: same, Stale: &old, Revisions: bootstrap.History{old, applied(5, "marta", nil)}}, code: 3},
		"notown":     {answer: admin.PlanAnswer{Plan: small, Revisions: bootstrap.History{applied(1, "start", nil)}}, code: 3},
		"refused": {answer: admin.PlanAnswer{Own: true, Plan: small, Revisions: bootstrap.History{applied(1, "start", nil),
			applied(2, "leading node", func(r *bootstrap.Revision) { r.Partial, r.Unchanged = true, true })}}, code: 3},
		"history": {answer: admin.PlanAnswer{Own: true, Plan: same, Revisions: bootstrap.History{
			applied(1, "start", nil), applied(2, "marta", nil), applied(4, "file change", nil),
			applied(5, "root", func(r *bootstrap.Revision) { r.Rollback, r.Digest = true, applied(2, "", nil).Digest }),
			applied(6, "leading node", func(r *bootstrap.Revision) { r.Partial, r.Summary = true, "1 created, 1 failed" }),
			applied(7, "file change", func(r *bootstrap.Revision) { r.Partial, r.Unchanged, r.Summary = true, true, "1 failed" }),
			applied(8, "reload", func(r *bootstrap.Revision) { r.Done, r.Summary = false, "1 that removes messages, 2 to update" }),
		}}, args: []string{"--history"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir, _ := (&planner{answer: c.answer, own: "/etc/holdfast/holdfast.yaml"}).serve(t)
			got := invoke(t, append([]string{"plan", "--data-dir", dir}, c.args...)...)
			if got.code != c.code || got.err != "" {
				t.Errorf("got exit code %d and %q, want %d and nothing on stderr", got.code, got.err, c.code)
			}
			sameAsFile(t, filepath.Join("testdata", "plan", name+".txt"), strings.ReplaceAll(got.out, dir, "DIR"))
		})
	}
}

func TestPlanOfAThousandStreamsFitsAScreen(t *testing.T) {
	dir, _ := (&planner{answer: admin.PlanAnswer{Own: true, Plan: thousand()}}).serve(t)
	if n := strings.Count(invoke(t, "plan", "--data-dir", dir).out, "\n"); n > 24 {
		t.Errorf("got %d lines, want at most 24", n)
	}
}

func TestPlanExitCodes(t *testing.T) {
	only := func(op bootstrap.Op) bootstrap.Plan {
		return bootstrap.Plan{Actions: []bootstrap.Action{stream(op, "X")}}
	}
	for name, c := range map[string]struct {
		answer admin.PlanAnswer
		err    error
		code   int
		says   string
	}{
		"nothing declared": {},
		"blocked alone":    {answer: admin.PlanAnswer{Plan: only(bootstrap.Blocked)}},
		"unmanaged alone":  {answer: admin.PlanAnswer{Plan: only(bootstrap.Unmanaged)}},
		"restart alone":    {answer: admin.PlanAnswer{NeedRestart: []string{"listen"}}},
		"unknown alone":    {answer: admin.PlanAnswer{Plan: only(bootstrap.Unknown)}, code: 1, says: "1 object could not be read"},
		"unknown and more": {answer: admin.PlanAnswer{Plan: everyClass()}, code: 3},
		"refused":          {err: diag.Fail(diag.CodeNotReady, errors.New("the node is recovering"), "try again"), code: 1, says: "hint: try again"},
	} {
		c.answer.Own = true
		dir, _ := (&planner{answer: c.answer, err: c.err}).serve(t)
		got := invoke(t, "plan", "--data-dir", dir)
		if got.code != c.code || !strings.Contains(got.err, c.says) || c.says == "" && got.err != "" {
			t.Errorf("%s: got exit code %d and %q, want %d and %q", name, got.code, got.err, c.code, c.says)
		}
	}
}

func TestPlanInJSONIsTheNodesAnswer(t *testing.T) {
	old := applied(3, "start", nil)
	want := admin.PlanAnswer{Plan: everyClass(), Digest: "d", NeedRestart: []string{"listen"}, Stale: &old, Revisions: bootstrap.History{old}}
	dir, _ := (&planner{answer: want}).serve(t)
	got := invoke(t, "plan", "--data-dir", dir, "-o", "json")
	if got.code != 3 || got.err != "" {
		t.Errorf("got exit code %d and %q, want 3 and nothing on stderr", got.code, got.err)
	}
	sent, err := json.MarshalIndent(want, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(sent)+"\n", got.out); diff != "" {
		t.Errorf("got another answer (-want +got):\n%s", diff)
	}
}

func TestPlanSendsTheFileAndItsOverlaysOrNothing(t *testing.T) {
	n := &planner{answer: admin.PlanAnswer{Own: true}}
	dir, _ := n.serve(t)
	work := t.TempDir()
	t.Chdir(work)
	writeFile(t, "new.yaml", "accounts: {shop: {}}\n")
	if err := os.Mkdir("new.d", 0o700); err != nil {
		t.Fatal(err)
	}
	writeFile(t, "new.d/10-site.yaml", "log: {level: debug}\n")
	for _, args := range [][]string{{"plan", "new.yaml", "--data-dir", dir}, {"plan", "--config", "new.yaml", "--data-dir", dir}, {"plan", "--data-dir", dir}} {
		if got := invoke(t, args...); got.code != 0 {
			t.Fatalf("%q: got exit code %d and %q, want 0", args, got.code, got.err)
		}
	}
	if len(n.planned) != 3 {
		t.Fatalf("got %d requests, want 3", len(n.planned))
	}
	for i, r := range n.planned[:2] {
		if r.File != filepath.Join(work, "new.yaml") || len(r.Texts) != 2 || r.Texts[1].Name != filepath.Join(work, "new.d", "10-site.yaml") ||
			string(r.Texts[0].Data) != "accounts: {shop: {}}\n" || string(r.Texts[1].Data) != "log: {level: debug}\n" {
			t.Errorf("request %d: got %+v, want the file and its overlay, by absolute names", i, r)
		}
	}
	if r := n.planned[2]; r.File != "" || r.Texts != nil {
		t.Errorf("got %+v without a file, want an empty request", r)
	}
}

// TestPlanFindsTheNodeOfACandidate has a file that is not in place yet.
func TestPlanFindsTheNodeOfACandidate(t *testing.T) {
	if installed() {
		t.Skip("skipping: Holdfast is installed here")
	}
	n := &planner{answer: admin.PlanAnswer{Own: true}}
	dir, _ := n.serve(t)
	t.Chdir(t.TempDir())
	writeFile(t, "mine.yaml", "node: {data_dir: "+dir+"}\n")
	writeFile(t, "other.yaml", "node: {data_dir: elsewhere}\n")
	if got := invoke(t, "plan", "mine.yaml"); got.code != 0 {
		t.Errorf("got exit code %d and %q, want the node of its own data_dir", got.code, got.err)
	}
	if got := invoke(t, "plan", "other.yaml", "--config", "mine.yaml"); got.code != 0 {
		t.Errorf("got exit code %d and %q, want the node of --config", got.code, got.err)
	}
	if got := invoke(t, "plan", "other.yaml"); got.code != 1 || !strings.Contains(got.err, "no node is running here") {
		t.Errorf("got exit code %d and %q, want no node", got.code, got.err)
	}
	if err := os.Mkdir(starterDir, 0o700); err != nil {
		t.Fatal(err)
	}
	if got := invoke(t, "plan", "mine.yaml"); got.code != 1 || !strings.Contains(got.err, starterDir) {
		t.Errorf("got exit code %d and %q, want the starter of this directory asked", got.code, got.err)
	}
}

func TestPlanChecksTheFileBeforeItAsks(t *testing.T) {
	n := &planner{answer: admin.PlanAnswer{Own: true, Problems: []admin.Problem{
		{Severity: "warning", Code: "HF1110", What: "durability: interval loses messages"}, {Severity: "warning", Code: "HF1103", What: "small disk", Fix: "a larger one"},
	}}}
	dir, _ := n.serve(t)
	file := filepath.Join(t.TempDir(), "holdfast.yaml")
	writeFile(t, file, "acounts: {}\n")
	for _, verb := range []string{"plan", "apply"} {
		got := invoke(t, verb, file, "--data-dir", dir)
		if got.code != 78 || !strings.Contains(got.err, file+":1:1: acounts: ") || !strings.Contains(got.err, "    1 | acounts: {}") || got.out != "" {
			t.Errorf("%s: got exit code %d and %q, want 78 and the problem with its line", verb, got.code, got.err)
		}
		if got := invoke(t, verb, file, "--data-dir", dir, "-o", "json"); got.code != 78 || !json.Valid([]byte(got.err)) {
			t.Errorf("%s: got exit code %d and %q, want 78 and JSON", verb, got.code, got.err)
		}
	}
	if len(n.planned) > 0 {
		t.Errorf("got %d requests to the node, want none", len(n.planned))
	}
	writeFile(t, file, "storage: {durability: interval}\n")
	checked := invoke(t, "check", file)
	got := invoke(t, "plan", file, "--data-dir", dir)
	if got.code != 0 || !strings.HasPrefix(got.err, checked.err) || checked.err == "" {
		t.Errorf("got exit code %d and %q, want 0 and the warning as check prints it: %q", got.code, got.err, checked.err)
	}
	n.answer.Problems = append(n.answer.Problems, admin.Problems(known(t, file))...)
	if again := invoke(t, "plan", file, "--data-dir", dir); again.err != got.err {
		t.Errorf("got %q, want what was found here said once: %q", again.err, got.err)
	}
	if !strings.Contains(got.err, "warning: small disk [HF1103]\n  fix: a larger one\n") || strings.Contains(got.out, "warning") {
		t.Errorf("got %q and %q, want what only the node knows on stderr", got.err, got.out)
	}
}

// known is what checking a file finds.
func known(t *testing.T, file string) diag.List {
	t.Helper()
	_, l := (&globals{}).load(file)
	if len(l) == 0 {
		t.Fatalf("got no problem in %s, want one", file)
	}
	return l
}

// TestStaleNamesWhatItIsOlderThan: an edit of which nothing was done is in the history, too.
func TestStaleNamesWhatItIsOlderThan(t *testing.T) {
	old := bootstrap.Revision{ID: 1, Digest: "a"}
	got := staleText(old, bootstrap.History{old, {ID: 5, Digest: "b", Done: true, Partial: true}, {ID: 9, Digest: "c", Done: true, Partial: true, Unchanged: true}}, false)
	if !strings.Contains(got, "that of revision 1") || !strings.Contains(got, "Applied since: revision 5 ") {
		t.Errorf("got %q, want revision 5, which changed something", got)
	}
}

func TestAppliedSaysWhenNothingWasChanged(t *testing.T) {
	create := bootstrap.Action{Op: bootstrap.Create, Kind: bootstrap.KindStream, Account: "shop", Stream: "NEW"}
	for want, outcome := range map[string]bootstrap.Outcome{"revision 5: nothing was changed, 1 failed\n": bootstrap.Failed, "revision 5: 1 created\n": bootstrap.Done} {
		var out strings.Builder
		printApplied(&out, admin.ApplyAnswer{Revision: 5, Report: bootstrap.Report{Results: []bootstrap.Result{{Action: create, Outcome: outcome}}}})
		if !strings.Contains(out.String(), want) {
			t.Errorf("got %q, want %q", &out, want)
		}
	}
}
