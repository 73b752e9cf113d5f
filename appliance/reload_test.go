// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-mq/holdfast/appliance/admin"
	"github.com/holdfast-mq/holdfast/appliance/config"
	"github.com/holdfast-mq/holdfast/appliance/diag"
)

// reloadable is a running node whose file a test changes.
func reloadable(t *testing.T, text string, l *logged) (*running, func(text string) admin.Status) {
	t.Helper()
	home := t.TempDir()
	file := filepath.Join(home, "holdfast.yaml")
	o := options(t, home, text, l)
	o.Load = func([]config.Text) (*config.Config, diag.List) { return LoadConfig(config.Options{File: file}) }
	r := run(t, open(t, o)).waitReady(t)
	return r, func(text string) admin.Status {
		t.Helper()
		write(t, file, text)
		r.reload(t.Context(), byReload)
		s, err := r.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
}

// The status tells the durability that messages have, and not the one that the file
// promises for after the next start.
func TestStatusTellsTheDurabilityInForce(t *testing.T) {
	const interval, strict = "limit: 256MiB, durability: interval, sync_interval: 3s", "limit: 256MiB"
	for _, c := range []struct{ started, reloaded, mode string }{{interval, strict, "interval"}, {strict, interval, "strict"}} {
		r, reload := reloadable(t, strings.Replace(shop, strict, c.started, 1), &logged{})
		s := reload(strings.Replace(shop, strict, c.reloaded, 1))
		if s.Durability.Mode != c.mode || (s.Durability.SyncIntervalSeconds == 3) != (c.mode == "interval") {
			t.Errorf("got %+v, want %s, which the node was started with", s.Durability, c.mode)
		}
		if want := []string{"storage.durability", "storage.sync_interval"}; !slices.Equal(s.NeedRestart, want) {
			t.Errorf("got %q for a restart, want %q", s.NeedRestart, want)
		}
		r.stop(t)
	}
}

// A block cluster that somebody adds is for the next start: until then there is one node,
// and what was applied of the file must not look older than it at that start.
func TestClusterInTheFileChangesNothingBeforeARestart(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("what three nodes share, and nobody else has"), 0o600); err != nil {
		t.Fatal(err)
	}
	r, reload := reloadable(t, shop, &logged{})
	revisions := func() int {
		t.Helper()
		p, err := r.Plan(t.Context(), admin.PlanRequest{})
		if err != nil || p.Stale != nil {
			t.Fatalf("got %v and stale %v, want a plan of a file that is not stale", err, p.Stale)
		}
		return len(p.Revisions)
	}
	grouped := func() []string {
		r.mu.Lock()
		defer r.mu.Unlock()
		var on []string
		for account, decisions := range r.groups {
			for _, d := range decisions {
				if d.on {
					on = append(on, fmt.Sprint(account, " ", d.lane))
				}
			}
		}
		slices.Sort(on)
		return on
	}
	before, lanes := revisions(), grouped()
	block := fmt.Sprintf("cluster: {name: plant, listen: \"127.0.0.1:6222\", peers: [\"127.0.0.1:6222\", \"127.0.0.2:6222\", \"127.0.0.3:6222\"], secret: %q}\n", "file:"+secret)
	if s := reload(shop + block); !slices.Equal(s.NeedRestart, []string{"cluster"}) || !s.Ready || len(s.Problems) > 0 {
		t.Errorf("got %q for a restart, ready %t and %+v, want cluster alone", s.NeedRestart, s.Ready, s.Problems)
	}
	if got := revisions(); got != before {
		t.Errorf("got %d revisions, want the %d of before", got, before)
	}
	if got := grouped(); len(lanes) == 0 || !slices.Equal(got, lanes) {
		t.Errorf("got group commit for %q, want it for %q as before", got, lanes)
	}
	if s := reload(shop); len(s.NeedRestart) > 0 {
		t.Errorf("got %q for a restart with the block gone again, want nothing", s.NeedRestart)
	}
	revisions()
	r.stop(t)
}

func TestMinFreeNeedsNoRestart(t *testing.T) {
	r, reload := reloadable(t, shop, &logged{})
	if s := reload(strings.Replace(shop, "limit: 256MiB", "limit: 256MiB, min_free: 1MiB", 1)); len(s.NeedRestart) > 0 {
		t.Errorf("got %q for a restart, want nothing", s.NeedRestart)
	}
	eventually(t, func() error {
		if s := r.Storage(); s.MinFree != 1<<20 {
			return fmt.Errorf("got %d bytes to keep free, want 1 MiB", s.MinFree)
		}
		return nil
	})
	r.stop(t)
}

func TestStatusTellsOfAFileThatWasRefused(t *testing.T) {
	l := &logged{}
	r, reload := reloadable(t, shop, l)
	s := reload("acounts: {}\n")
	i := slices.IndexFunc(s.Problems, func(p admin.Problem) bool { return p.Severity == "error" })
	if i < 0 || s.Problems[i].Line != 1 || !strings.Contains(s.Problems[i].What, "not in force") || !strings.Contains(s.Problems[i].What, "acounts") {
		t.Errorf("got %+v, want the mistake with its line", s.Problems)
	}
	if !r.ReloadFailed() || !s.Ready {
		t.Errorf("got failed %v, ready %v, want a node that goes on as before", r.ReloadFailed(), s.Ready)
	}
	// The watcher finds the same file a moment later.
	const msg = "configuration not reloaded, the old one stays in force"
	before := l.count(msg)
	r.reload(t.Context(), byFileChange)
	if got := l.count(msg); before == 0 || got != before {
		t.Errorf("got %d lines, then %d, want the mistake told once", before, got)
	}
	if s := reload(shop); slices.ContainsFunc(s.Problems, func(p admin.Problem) bool { return p.Severity == "error" }) {
		t.Errorf("got %+v after it was corrected, want none", s.Problems)
	}
	r.stop(t)
}
