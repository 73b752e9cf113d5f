// SPDX-License-Identifier: Apache-2.0

//go:build process && linux

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/holdfast-mq/holdfast/appliance/admin"
	"github.com/holdfast-mq/holdfast/bootstrap"
)

// before and after are configurations with a change of every class between them.
const before = listening + `accounts:
  shop:
    streams:
      KEPT: {subjects: ["kept.>"], max_bytes: 8MiB, description: old}
      LESS: {subjects: ["less.>"], max_bytes: 8MiB, max_msgs: 100, discard: old}
      ONCE: {subjects: ["once.>"], max_bytes: 8MiB}
      JOBS:
        subjects: ["jobs.>"]
        retention: workqueue
        max_bytes: 8MiB
        consumers:
          worker: {ack_wait: 2s}
      ORDERS:
        subjects: ["orders.>"]
        max_bytes: 8MiB
        consumers:
          audit: {ack_wait: 2s}
    users:
      admin: {role: admin}
      leaver: {role: observer}
`

const after = listening + `accounts:
  shop:
    limits: {streams: 50}
    streams:
      KEPT: {subjects: ["kept.>", "more.>"], max_bytes: 9MiB, description: new, first_seq: 7}
      LESS: {subjects: ["less.>"], max_bytes: 8MiB, max_msgs: 3, discard: old}
      ONCE: {subjects: ["once.>"], max_bytes: 8MiB, deny_purge: true}
      JOBS:
        subjects: ["jobs.>"]
        retention: limits
        max_bytes: 8MiB
        consumers:
          worker: {ack_wait: 2s}
      ORDERS:
        subjects: ["orders.>"]
        max_bytes: 8MiB
        consumers:
          audit: {ack_wait: 3s, max_waiting: 99}
      NEW:
        subjects: ["new.>"]
        max_bytes: 8MiB
        consumers:
          reader: {}
    users:
      admin: {role: admin}
      newcomer: {role: observer}
`

// changing is a node with before and messages, stopped.
func changing(t *testing.T) *node {
	t.Helper()
	n := newNode(t, before).start()
	n.nats(nil, "stream", "add", "HAND", "--subjects", "hand.>", "--storage", "file")
	js := n.jetStream()
	for _, subject := range []string{"kept.a", "less.a", "once.a", "jobs.a", "orders.a", "hand.a"} {
		for i := range 10 {
			publish(t, js, subject, fmt.Sprintf("%s %d", subject, i+1))
		}
	}
	for _, at := range [][2]string{{"JOBS", "worker"}, {"ORDERS", "audit"}} {
		c := consumer(t, js, at[0], at[1])
		for range 4 {
			if err := next(t, c).DoubleAck(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	n.stop()
	return n
}

// candidate writes the configuration that is to be applied beside the node's own.
func (n *node) candidate(text string) string {
	n.t.Helper()
	path := filepath.Join(n.home, "candidate.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		n.t.Fatal(err)
	}
	return path
}

// plan asks for the plan of a file.
func (n *node) plan(code int, file string) admin.PlanAnswer {
	n.t.Helper()
	got, out := n.holdfast("plan", "--config", "holdfast.yaml", "--output", "json", file)
	var a admin.PlanAnswer
	if err := json.Unmarshal([]byte(out), &a); err != nil || got != code {
		n.t.Fatalf("plan: got exit code %d and %v, want %d\n%s", got, err, code, out)
	}
	return a
}

// consenting are the arguments that allow all that after does.
func consenting(file string) []string {
	return []string{"apply", "--config", "holdfast.yaml", "--yes", "--allow-destructive", "shop/LESS",
		"--allow-destructive", "shop/JOBS", "--allow-destructive", "shop/ORDERS", file}
}

func TestProcessPlanShowsEveryClassAndApplyDoesIt(t *testing.T) {
	t.Parallel()
	n := changing(t).start()
	file := n.candidate(after)
	a := n.plan(exitNotReady, file)
	for op, want := range map[bootstrap.Op]int{
		bootstrap.Drop: 1, bootstrap.Recreate: 2, bootstrap.OneWay: 1, bootstrap.Remove: 1, bootstrap.Update: 3,
		bootstrap.Create: 3, bootstrap.Blocked: 1, bootstrap.Unmanaged: 1,
	} {
		if got := a.Plan.Count(op); got != want {
			t.Errorf("got %d actions to %s, want %d\n%s", got, op, want, a.Plan)
		}
	}
	// What a start would do by itself is not what needs somebody's consent.
	code, out := n.holdfast("apply", "--config", "holdfast.yaml", "--yes", file)
	if code != exitNotReady || !strings.Contains(out, "--allow-destructive shop/LESS") {
		t.Errorf("got exit code %d and %q, want 3 and what is left", code, out)
	}
	left := n.plan(exitNotReady, file).Plan
	if left.Count(bootstrap.Drop) != 1 || left.Count(bootstrap.Recreate) != 2 || left.Count(bootstrap.Update)+left.Count(bootstrap.Create)+left.Count(bootstrap.OneWay) != 0 {
		t.Errorf("got this left, want the changes that need an allowance\n%s", left)
	}
	checkMessages(t, n, map[string]int{"LESS": 10})

	if code, out := n.holdfast("apply", "--config", "holdfast.yaml", "--yes", "--allow-destructive", "shop/NEW", file); code != exitUsage || !strings.Contains(out, "shop/LESS") {
		t.Errorf("got exit code %d and %q, want 2 and the streams that can be named", code, out)
	}
	if code, out := n.holdfast(consenting(file)...); code != exitNotReady {
		t.Errorf("got exit code %d, want 3: one change is blocked\n%s", code, out)
	}
	checkConverged(t, n, file)
	// The node's own file says something older now.
	n.signal(syscall.SIGHUP)
	n.logged("was applied since")
	checkConverged(t, n, file)
	n.kill9()
	n.start()
	checkConverged(t, n, file)
	s, err := n.status()
	if err != nil {
		t.Fatal(err)
	}
	if text := fmt.Sprint(s.Problems); !strings.Contains(text, "HF2207") {
		t.Errorf("got problems %s, want that the file is older than what was applied", text)
	}
	// Going back is one flag, and what can't be taken back is named.
	code, out = n.holdfast("apply", "--config", "holdfast.yaml", "--yes", "--rollback")
	if code != exitNotReady || !strings.Contains(out, "deny_purge") && !strings.Contains(out, "--allow-destructive") {
		t.Errorf("got exit code %d and %q, want 3 and what is left", code, out)
	}
	if a := n.plan(exitNotReady, "holdfast.yaml"); a.Stale != nil || a.Plan.Count(bootstrap.Update) != 0 {
		t.Errorf("got stale %v and this plan, want the file in force\n%s", a.Stale, a.Plan)
	}
	n.stop()
}

// checkConverged looks at what the node has after all of after was applied.
func checkConverged(t *testing.T, n *node, file string) {
	t.Helper()
	a := n.plan(exitOK, file)
	if got := a.Plan.Count(bootstrap.Blocked); got != 1 || !a.Plan.Empty() {
		t.Errorf("got this plan, want nothing but first_seq blocked\n%s", a.Plan)
	}
	checkMessages(t, n, map[string]int{"LESS": 3})
	checkPositions(t, n)
	for _, user := range []string{"newcomer", "admin"} {
		if _, err := os.Stat(n.credsFile(user)); err != nil {
			t.Errorf("got %v, want credentials of %s", err, user)
		}
	}
	if _, err := os.Stat(n.credsFile("leaver")); !os.IsNotExist(err) {
		t.Errorf("got %v for the credentials of the user who left, want none", err)
	}
}

// checkMessages looks for every message that nobody acknowledged or allowed to be
// removed, where it was.
func checkMessages(t *testing.T, n *node, least map[string]int) {
	t.Helper()
	js := n.jetStream()
	for name, first := range map[string]int{"KEPT": 1, "LESS": 11 - least["LESS"], "ONCE": 1, "JOBS": 5, "ORDERS": 1, "HAND": 1} {
		s, err := js.Stream(t.Context(), name)
		if err != nil {
			t.Fatalf("stream %s: %v", name, err)
		}
		for seq := first; seq <= 10; seq++ {
			want := fmt.Sprintf("%s.a %d", strings.ToLower(name), seq)
			if m, err := s.GetMsg(t.Context(), uint64(seq)); err != nil || string(m.Data) != want {
				t.Errorf("stream %s, message %d: got %v, %v, want %q", name, seq, m, err, want)
			}
		}
	}
}

// checkPositions looks at where the consumers are: 4 of 10 are acknowledged.
func checkPositions(t *testing.T, n *node) {
	t.Helper()
	js := n.jetStream()
	for _, at := range [][2]string{{"JOBS", "worker"}, {"ORDERS", "audit"}} {
		c := consumer(t, js, at[0], at[1])
		info := c.CachedInfo()
		if got := info.NumPending + uint64(info.NumAckPending); got != 6 || info.AckFloor.Stream != 4 && at[0] != "JOBS" {
			t.Errorf("consumer %s/%s: got %d to do after %d, want 6 after 4", at[0], at[1], got, info.AckFloor.Stream)
		}
	}
	s, err := js.Stream(t.Context(), "ORDERS")
	if err != nil {
		t.Fatal(err)
	}
	if got := s.CachedInfo().State; got.Msgs != 10 || got.LastSeq != 10 {
		t.Errorf("stream ORDERS: got %+v, want 10 messages", got)
	}
}

// TestProcessKilledAtAnyStepOfAnApplyFinishesItAtTheNextStart ends the process after
// each step of an apply with every class of change in it.
func TestProcessKilledAtAnyStepOfAnApplyFinishesItAtTheNextStart(t *testing.T) {
	t.Parallel()
	master := changing(t)
	for step := 1; ; step++ {
		n := newNode(t, before)
		// The program with the hook, which the real one does not have.
		n.bin = testProgram(t)
		n.env = []string{fmt.Sprintf("%s=%d", killAfterStep, step)}
		if out, err := exec.Command("cp", "-a", master.data, n.data).CombinedOutput(); err != nil {
			t.Fatalf("copy: %v: %s", err, out)
		}
		n.start()
		file := n.candidate(after)
		code, out := n.holdfast(consenting(file)...)
		if code == exitNotReady {
			checkConverged(t, n, file)
			n.stop()
			if step < 10 {
				t.Fatalf("got an apply of %d steps, want more: is the hook called?", step-1)
			}
			t.Logf("%d steps", step-1)
			return
		}
		if code != exitFailed || !strings.Contains(out, "went away") && !strings.Contains(out, "EOF") {
			t.Fatalf("step %d: got exit code %d and %q, want 1 and that the node went away", step, code, out)
		}
		<-n.exited
		n.env = nil
		n.configure(after)
		n.start()
		checkConverged(t, n, file)
		if t.Failed() {
			t.Fatalf("after the end at step %d", step)
		}
		n.stop()
	}
}

func TestProcessAppliesAChangedFileByItself(t *testing.T) {
	t.Parallel()
	n := newNode(t, before).start()
	n.configure(strings.Replace(before, "description: old", "description: changed in place", 1))
	described := func(want string) {
		t.Helper()
		eventually(t, patience, func() error {
			s, err := n.jetStream().Stream(t.Context(), "KEPT")
			if err == nil && s.CachedInfo().Config.Description != want {
				err = fmt.Errorf("got description %q, want %q", s.CachedInfo().Config.Description, want)
			}
			return err
		})
	}
	described("changed in place")
	n.logged("configuration reloaded")
	// A file that is wrong changes nothing.
	n.configure(before + "nonsense: 1\n")
	n.logged("nonsense")
	if _, body := n.get("/metrics"); !strings.Contains(body, "\nholdfast_config_last_reload_successful 0\n") {
		t.Errorf("got metrics %q, want the failed reload", body)
	}
	described("changed in place")
	// An overlay counts as much.
	n.configure(before)
	dir := filepath.Join(n.home, "holdfast.d")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	overlay := "accounts: {shop: {streams: {KEPT: {description: of the site}}}}\n"
	if err := os.WriteFile(filepath.Join(dir, "site.yaml"), []byte(overlay), 0o600); err != nil {
		t.Fatal(err)
	}
	described("of the site")
	n.stop()
}

func TestProcessShowsDriftAndLeavesIt(t *testing.T) {
	t.Parallel()
	n := newNode(t, before)
	n.bin, n.env = testProgram(t), []string{driftEveryEnv + "=50ms"}
	n.start()
	n.nats(nil, "stream", "edit", "KEPT", "--description", "by hand", "-f")
	n.logged("the server differs from the configuration")
	code, out := n.holdfast("status", "--config", "holdfast.yaml")
	if code != exitOK || !strings.Contains(out, `description: "by hand" on the server, old in the file; it was changed on the server since the file was applied`) {
		t.Errorf("got exit code %d and %q, want 0 and the drift", code, out)
	}
	if code, body := n.get("/metrics"); code != http.StatusOK || !strings.Contains(body, `holdfast_topology_differences{op="update"} 1`) {
		t.Errorf("got %d and %q, want one difference", code, body)
	}
	n.signal(syscall.SIGHUP) // nothing new in the file
	n.logged("configuration reloaded")
	n.stop()
	n.start()
	s, err := n.jetStream().Stream(t.Context(), "KEPT")
	if err != nil || s.CachedInfo().Config.Description != "by hand" {
		t.Errorf("got %v after a start, want what was done by hand kept", err)
	}
	if code, out := n.holdfast("apply", "--config", "holdfast.yaml", "--yes"); code != exitOK {
		t.Errorf("got exit code %d and %q, want 0", code, out)
	}
	if s, err = n.jetStream().Stream(t.Context(), "KEPT"); err != nil || s.CachedInfo().Config.Description != "old" {
		t.Errorf("got %v after an apply, want what the file says", err)
	}
	// A stream that was deleted by hand is missed, and is there after the next start.
	n.nats(nil, "stream", "rm", "-f", "ONCE")
	n.logged("was deleted since the file was applied")
	if _, err := n.jetStream().Stream(t.Context(), "ONCE"); !errors.Is(err, jetstream.ErrStreamNotFound) {
		t.Errorf("got %v, want the stream left deleted", err)
	}
	n.stop()
	n.start()
	if _, err := n.jetStream().Stream(t.Context(), "ONCE"); err != nil {
		t.Errorf("got %v after a start, want the stream", err)
	}
	n.stop()
}

// TestProcessTriesAgainWhatAnApplyCouldNotDo applies a stream whose subjects somebody
// else's stream has.
func TestProcessTriesAgainWhatAnApplyCouldNotDo(t *testing.T) {
	t.Parallel()
	n := newNode(t, before).start()
	n.nats(nil, "stream", "add", "GRAB", "--subjects", "new.>", "--storage", "file")
	file := n.candidate(before + "  more:\n    streams: {OTHER: {subjects: [\"o.>\"], max_bytes: 1MiB}}\n")
	if code, out := n.holdfast("apply", "--config", "holdfast.yaml", "--yes", file); code != exitOK {
		t.Fatalf("got exit code %d, want 0\n%s", code, out)
	}
	file = n.candidate(strings.Replace(before, "      KEPT:", "      NEW: {subjects: [\"new.>\"], max_bytes: 1MiB}\n      KEPT:", 1))
	if code, out := n.holdfast("apply", "--config", "holdfast.yaml", "--yes", file); code != exitFailed || !strings.Contains(out, "subjects overlap") {
		t.Fatalf("got exit code %d and %q, want 1 and the reason", code, out)
	}
	n.nats(nil, "--account", "shop", "stream", "rm", "-f", "GRAB")
	eventually(t, patience, func() error {
		_, err := n.jetStream().Stream(t.Context(), "NEW")
		return err
	})
	n.waitReady()
	n.stop()
}

// TestProcessTriedStaleFileSaysNothingOfTheNodesOwn applies an older candidate.
func TestProcessTriedStaleFileSaysNothingOfTheNodesOwn(t *testing.T) {
	t.Parallel()
	n := newNode(t, before).start()
	newer := strings.Replace(before, "description: old", "description: newer", 1)
	n.reload(newer)
	for _, args := range [][]string{{"plan"}, {"apply", "--yes"}} {
		args = append(args, "--config", "holdfast.yaml", n.candidate(before))
		if code, out := n.holdfast(args...); code != exitNotReady || !strings.Contains(out, "STALE") {
			t.Errorf("%q: got exit code %d and %q, want 3 and that the file is stale", args, code, out)
		}
	}
	if _, body := n.get("/metrics"); !strings.Contains(body, "\nholdfast_config_last_reload_successful 1\n") {
		t.Errorf("got metrics %q, want the node's own file in force", body)
	}
	if s, err := n.status(); err != nil || strings.Contains(fmt.Sprint(s.Problems), "HF2207") {
		t.Errorf("got %v and problems %v, want none about a stale file", err, s.Problems)
	}
	n.stop()
}

// TestProcessUndoingWhatWasHeldBackIsNotStale takes an edit back that changed nothing.
func TestProcessUndoingWhatWasHeldBackIsNotStale(t *testing.T) {
	t.Parallel()
	n := changing(t).start()
	n.reload(strings.Replace(before, "max_msgs: 100", "max_msgs: 3", 1))
	if a := n.plan(exitNotReady, "holdfast.yaml"); a.Plan.Count(bootstrap.Drop) != 1 {
		t.Fatalf("got this plan, want the smaller limit held back\n%s", a.Plan)
	}
	n.reload(before)
	if a := n.plan(exitOK, "holdfast.yaml"); a.Stale != nil {
		t.Errorf("got the file older than revision %d, which did nothing", a.Stale.ID)
	}
	// What did something is undone by a flag only.
	n.reload(strings.Replace(before, "description: old", "description: newer", 1))
	n.configure(before)
	n.signal(syscall.SIGHUP)
	n.logged("was applied since")
	checkMessages(t, n, map[string]int{"LESS": 10})
	n.stop()
}

// TestProcessAnEditThatFailsIsOneRevision has an edit refused over and over: by tries, by
// reloads and over restarts. It can be taken back, and put in again.
func TestProcessAnEditThatFailsIsOneRevision(t *testing.T) {
	t.Parallel()
	n := newNode(t, before).start()
	n.nats(nil, "stream", "add", "GRAB", "--subjects", "new.>", "--storage", "file")
	edited := strings.Replace(before, "      KEPT:", "      NEW: {subjects: [\"new.>\"], max_bytes: 1MiB}\n      KEPT:", 1)
	n.reload(edited)
	n.reload(edited + "# the same\n")
	n.kill9()
	n.launch()
	n.waitStatus("tried again", func(s admin.Status) bool {
		return s.Phase == admin.PhaseRunning && strings.Contains(fmt.Sprint(s.Missing), "overlap")
	})
	h := n.history()
	if len(h) != 2 || !h[1].Partial || !h[1].Unchanged {
		t.Fatalf("got %+v, want a second revision of which nothing was done", h)
	}
	n.reload(before)
	if a := n.plan(exitOK, "holdfast.yaml"); a.Stale != nil || len(a.Revisions) != 2 {
		t.Errorf("got stale %v and %d revisions, want the file of before in force, and no other revision", a.Stale, len(a.Revisions))
	}
	n.reload(edited)
	n.nats(nil, "--account", "shop", "stream", "rm", "-f", "GRAB")
	eventually(t, patience, func() error {
		if h = n.history(); len(h) != 2 || !h[1].Whole() || h[1].Unchanged || !strings.Contains(h[1].Summary, "later: 1 created") {
			return fmt.Errorf("got %+v, want the second revision carried out", h)
		}
		return nil
	})
	// Now it would be undone.
	n.configure(before)
	n.signal(syscall.SIGHUP)
	n.logged("was applied since")
	n.stop()
}

// history are the revisions that a node knows.
func (n *node) history() bootstrap.History {
	n.t.Helper()
	_, out := n.holdfast("plan", "--config", "holdfast.yaml", "--output", "json", "--history")
	var a admin.PlanAnswer
	if err := json.Unmarshal([]byte(out), &a); err != nil {
		n.t.Fatalf("got %v of %q", err, out)
	}
	return a.Revisions
}
