// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"fmt"
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
