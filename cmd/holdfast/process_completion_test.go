// SPDX-License-Identifier: Apache-2.0

//go:build process && linux

package main

import (
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestProcessCompletesWhatTheNodeHas asks as a shell does, while a node runs,
// while one hangs, and when it is gone.
func TestProcessCompletesWhatTheNodeHas(t *testing.T) {
	t.Parallel()
	n := newNode(t, shop+"    users:\n      packer: {role: worker, consumers: [JOBS/worker]}\n      boss: {role: admin}\n")
	complete := func(args ...string) []string {
		t.Helper()
		cmd := n.command(append([]string{"__complete"}, args...)...)
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%q: %v", args, err)
		}
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		return lines[:len(lines)-1] // the last one tells the shell what to do with the others
	}
	check := func(want []string, args ...string) {
		t.Helper()
		if got := complete(args...); !slices.Equal(got, want) {
			t.Errorf("%q: got %q, want %q", args, got, want)
		}
	}
	n.start()
	check([]string{"shop/boss\tadmin, active", "shop/packer\tworker, active"}, "creds", "show", "--config", "holdfast.yaml", "")
	check([]string{"shop/packer\tworker, active"}, "creds", "revoke", "--data-dir", "data", "shop/p")
	check(nil, "creds", "rotate", "--config", "holdfast.yaml", "shop/packer", "")
	check([]string{"shop"}, "nats", "--config", "holdfast.yaml", "--account", "")
	check([]string{"boss\tadmin, active", "packer\tworker, active"}, "nats", "--config", "holdfast.yaml", "--account", "shop", "--user", "")

	n.signal(syscall.SIGSTOP)
	began := time.Now()
	check(nil, "creds", "show", "--config", "holdfast.yaml", "")
	if took := time.Since(began); took > patience/3 {
		t.Errorf("got %v for a completion from a node that hangs, want about %v", took, completeTimeout)
	}
	n.signal(syscall.SIGCONT)
	n.stop()
	check(nil, "creds", "show", "--config", "holdfast.yaml", "")
	if err := os.RemoveAll(n.data); err != nil {
		t.Fatal(err)
	}
	check(nil, "creds", "show", "--config", "holdfast.yaml", "")
	if _, err := os.Stat(n.data); !os.IsNotExist(err) {
		t.Errorf("got %v for the data directory after a completion, want none made", err)
	}
}
