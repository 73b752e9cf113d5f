// SPDX-License-Identifier: Apache-2.0

package child

import (
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestNodesDoNotInheritConfiguration(t *testing.T) {
	got := Environment([]string{"PATH=/bin", "HOLDFAST_CONFIG=x", "NATS_URL=y", "GOMEMLIMIT=1GiB"})
	if diff := cmp.Diff([]string{"PATH=/bin", "GOMEMLIMIT=1GiB"}, got); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
}

func TestAwaitEndsWithTheProcessAndItsLastWords(t *testing.T) {
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip("skipping: no sh")
	}
	p, err := Start(exec.Command("sh", "-c", "echo out of order; exit 3"), filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	err = p.Await(t.Context(), time.Minute, time.Millisecond, func(context.Context) error { return errors.New("not yet") })
	if err == nil || !strings.Contains(err.Error(), "the process ended: exit status 3") || !strings.Contains(err.Error(), "out of order") {
		t.Errorf("got %v, want the end and what the process said", err)
	}
}

func TestFreePortsAreDifferent(t *testing.T) {
	ports, err := FreePorts(20)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[int]bool{}
	for _, p := range ports {
		if seen[p] || p == 0 {
			t.Errorf("got %v, want 20 different ports", ports)
		}
		seen[p] = true
	}
}
