// SPDX-License-Identifier: Apache-2.0

//go:build process && linux

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/holdfast-mq/holdfast/appliance/loadtest"
)

// benched is a short run.
func benched(more ...string) []string {
	return append([]string{"bench", "queue", "--config", "holdfast.yaml", "--for", "300ms", "--space", "16MiB", "--publishers", "4", "--workers", "3"}, more...)
}

// nothingLeft wants no trace of a run at the node.
func (n *node) nothingLeft() {
	n.t.Helper()
	s, err := n.status()
	if err != nil {
		n.t.Fatal(err)
	}
	for _, a := range s.Accounts {
		for _, st := range a.Streams {
			if strings.HasPrefix(st.Name, loadtest.StreamPrefix) {
				n.t.Errorf("got stream %s/%s, want none of a run", a.Name, st.Name)
			}
		}
	}
	if left, err := filepath.Glob(filepath.Join(n.data, compareDirPrefix+"*")); err != nil || len(left) > 0 {
		n.t.Errorf("got %q, %v in the data directory, want nothing of a run", left, err)
	}
}

func TestProcessBenchMeasuresAndLeavesNothing(t *testing.T) {
	t.Parallel()
	n := newNode(t, shop).start()
	publish(t, n.jetStream(), "jobs.one", "mine")
	for _, retention := range retentions() {
		// The connection of this test is a client.
		cmd := n.command(benched("--yes", "--publishers", "32", "--retention", retention, "--output", "json")...)
		var errs strings.Builder
		cmd.Stderr = &errs
		out, err := cmd.Output()
		if err != nil || errs.Len() > 0 {
			t.Fatalf("%s: got %v and %q, want a quiet success", retention, err, errs.String())
		}
		var r benchReport
		if err := json.Unmarshal(out, &r); err != nil {
			t.Fatal(err)
		}
		if len(r.Phases) != 3 || r.Acknowledged == 0 || r.Stored != r.Acknowledged || r.Consumed != r.Acknowledged {
			t.Errorf("%s: got %+v, want three phases and equal counts", retention, r)
		}
		if on := r.GroupCommit && r.GroupCommitOff == ""; !on && !strings.HasPrefix(r.GroupCommitOff, "a flush of this disk takes") {
			t.Errorf("%s: got group commit off: %q, want it on, or a disk on which it does not pay", retention, r.GroupCommitOff)
		}
		if c := r.Comparison; c == nil || c.Durability != "interval" || c.SyncIntervalSeconds != 1 || c.TimesFaster <= 0 {
			t.Errorf("%s: got comparison %+v, skipped: %q, want one", retention, c, r.ComparisonSkipped)
		}
		n.nothingLeft()
	}
	if got := messages(t, n.jetStream(), "JOBS"); got != 1 {
		t.Errorf("got %d messages in a stream of the file, want the one of before", got)
	}
	n.stop()
}

func TestProcessBenchPrintsForPeople(t *testing.T) {
	t.Parallel()
	n := newNode(t, shop).start()
	code, out := n.holdfast(benched("--no-compare", "--no-group-commit")...)
	if code != exitOK {
		t.Errorf("got exit code %d, want 0\n%s", code, out)
	}
	for _, want := range []string{"publish: ", "consume: ", "end-to-end: ", "account shop, durability strict", "group commit: off: --no-group-commit", "PHASE", "Counted: "} {
		if !strings.Contains(out, want) {
			t.Errorf("got %q, want it to contain %q", out, want)
		}
	}
	if strings.Contains(out, "Interval mode") {
		t.Errorf("got %q, want no comparison", out)
	}
	n.stop()
}

// TestProcessBenchCleansUpWhenInterrupted stops it while it publishes, and while the
// other node runs.
func TestProcessBenchCleansUpWhenInterrupted(t *testing.T) {
	t.Parallel()
	n := newNode(t, shop).start()
	publishing := func() error {
		s, err := n.status()
		if err == nil && s.Traffic.Connections < 4 {
			err = errors.New("got no publishers, want them")
		}
		return err
	}
	for name, c := range map[string]struct {
		signal syscall.Signal
		begun  func() error
	}{
		"publishing":      {syscall.SIGINT, publishing},
		"terminal closed": {syscall.SIGHUP, publishing},
		"comparing": {syscall.SIGTERM, func() error {
			sockets, err := filepath.Glob(filepath.Join(n.data, compareDirPrefix+"*", "data", "admin.sock"))
			if err != nil || len(sockets) == 0 {
				return errors.Join(err, errors.New("got no other node, want one"))
			}
			return nil
		}},
	} {
		length := "30s"
		if name == "comparing" {
			length = "2s"
		}
		cmd := n.command(benched("--for", length)...)
		out := &output{}
		cmd.Stdout, cmd.Stderr = out, out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		eventually(t, patience, c.begun)
		if err := cmd.Process.Signal(c.signal); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // its state says how it ended
		if code := cmd.ProcessState.ExitCode(); code != exitFailed || !strings.Contains(out.String(), "stopped before the end") {
			t.Errorf("%s: got exit code %d and %q, want 1 and that it was stopped", name, code, out)
		}
		if counted := strings.Contains(out.String(), "Counted: "); counted != (name == "comparing") {
			t.Errorf("%s: got %q, want the figures if, and only if, they were complete", name, out)
		}
		checkOutput(t, out.String())
		n.nothingLeft()
	}
	n.stop()
}

// TestProcessBenchTakesTheOtherNodeWithIt kills it where it can't clean up.
func TestProcessBenchTakesTheOtherNodeWithIt(t *testing.T) {
	t.Parallel()
	n := newNode(t, shop).start()
	cmd := n.command(benched("--for", "2s")...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(n.data, compareDirPrefix)
	eventually(t, patience, func() error {
		if locks, err := filepath.Glob(other + "*/data/LOCK"); err != nil || len(locks) == 0 {
			return errors.Join(err, errors.New("got no other node, want one"))
		}
		return nil
	})
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	eventually(t, patience, func() error {
		running, err := filepath.Glob("/proc/[0-9]*/cmdline")
		if err != nil {
			return err
		}
		for _, r := range running {
			if text, err := os.ReadFile(r); err == nil && strings.Contains(string(text), other) {
				return fmt.Errorf("got %q still running, want it gone", text)
			}
		}
		return nil
	})
	n.stop()
	n.start() // what was left in the data directory is in nobody's way
	n.stop()
}

func TestProcessBenchSaysWhyItDoesNotMeasure(t *testing.T) {
	t.Parallel()
	n := newNode(t, strings.Replace(shop, "  shop:\n", "  small:\n    limits: {disk: 8MiB}\n  shop:\n", 1)).start()
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"no account named": {benched(), exitFailed, "hint: "},
		"unknown account":  {benched("--account", "nobody"), exitFailed, "hint: there are: shop, small"},
		"account too small": {benched("--account", "small"), exitFailed,
			"the scratch stream needs 16 MiB, and the account has 8.0 MiB of its 8.0 MiB left\nhint: take less with --space"},
		"node too small": {benched("--account", "shop", "--space", "200MiB"), exitFailed, "and the node has 128 MiB left\nhint: take less with --space"},
	} {
		code, out := n.holdfast(c.args...)
		if code != c.code || !strings.Contains(out, c.want) {
			t.Errorf("%s: got exit code %d and %q, want %d and %q", name, code, out, c.code, c.want)
		}
	}
	n.connect()
	if code, out := n.holdfast(benched("--account", "shop")...); code != exitUsage || !strings.Contains(out, "clients are connected") {
		t.Errorf("got exit code %d and %q with a client connected, want 2 and that nobody was asked", code, out)
	}
	n.nothingLeft()
	n.stop()
}
