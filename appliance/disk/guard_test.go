// SPDX-License-Identifier: Apache-2.0

package disk

import (
	"strings"
	"testing"
	"time"
)

const (
	kib = 1 << 10
	mib = 1 << 20
	gib = 1 << 30
)

// walk shows a guard what is free, one look after the other, and returns the last
// verdict.
func walk(g *Guard, at *time.Time, step time.Duration, free ...uint64) Verdict {
	var v Verdict
	for _, f := range free {
		*at = at.Add(step)
		v = g.See(Room{Total: 100 * gib, Free: f}, *at)
	}
	return v
}

func TestGuardStopsAtTheLineAndLetsGoAboveIt(t *testing.T) {
	g, at := &Guard{MinFree: 5 * gib}, time.Unix(1000, 0)
	for _, step := range []struct {
		free   uint64
		braked bool
	}{
		{6 * gib, false},
		{5*gib + mib, false},
		{5*gib - 1, true},
		{5 * gib, true}, // a little more is no room
		{5*gib + 400*mib, true},
		{5*gib + 512*mib, false},
		{5*gib + mib, false},
	} {
		v := walk(g, &at, time.Hour, step.free, step.free)
		if v.Braked != step.braked {
			t.Errorf("%d bytes free: got stopped %v, want %v", step.free, v.Braked, step.braked)
		}
		if (v.Why != "") != step.braked {
			t.Errorf("%d bytes free: got reason %q", step.free, v.Why)
		}
	}
}

func TestGuardStopsBeforeTheLineIsCrossed(t *testing.T) {
	g, at := &Guard{MinFree: 5 * gib}, time.Unix(1000, 0)
	// 1 GiB/s: within the next looks the line is crossed.
	if v := walk(g, &at, 100*time.Millisecond, 5*gib+290*mib, 5*gib+190*mib, 5*gib+90*mib); !v.Braked {
		t.Error("got publishers going on, want them stopped: the line is 0.1 s away")
	}
	if v := walk(g, &at, 100*time.Millisecond, 5*gib+90*mib); !v.Braked {
		t.Error("got publishers going on below where they may")
	}
	// As fast, but far away.
	g = &Guard{MinFree: 5 * gib}
	if v := walk(g, &at, 100*time.Millisecond, 9*gib, 8*gib, 7*gib); v.Braked {
		t.Errorf("got publishers stopped 2 GiB before the line: %s", v.Why)
	}
}

func TestGuardKeepsFilesPossible(t *testing.T) {
	g, at := &Guard{MinFree: 1 * mib}, time.Unix(1000, 0)
	see := func(inodes, total uint64) Verdict {
		at = at.Add(time.Second)
		return g.See(Room{Total: gib, Free: gib, Inodes: inodes, InodesTotal: total}, at)
	}
	if v := see(1000, 1_000_000); v.Braked {
		t.Errorf("got publishers stopped with 1000 files left: %s", v.Why)
	}
	if v := see(999, 1_000_000); !v.Braked || !strings.Contains(v.Why, "999 files") {
		t.Errorf("got %+v, want publishers stopped for want of files", v)
	}
	if v := see(1500, 1_000_000); !v.Braked {
		t.Error("got publishers going on with a few files more")
	}
	if v := see(2000, 1_000_000); v.Braked {
		t.Errorf("got publishers stopped: %s", v.Why)
	}
	if v := see(0, 0); v.Braked {
		t.Errorf("got publishers stopped on a file system that makes inodes as needed: %s", v.Why)
	}
	if v := see(60, 1000); v.Braked { // a small volume has few to begin with
		t.Errorf("got publishers stopped: %s", v.Why)
	}
}

func TestGuardLooksMoreOftenNearTheLine(t *testing.T) {
	g, at := &Guard{MinFree: gib}, time.Unix(1000, 0)
	far, near := walk(g, &at, time.Hour, 99*gib).Next, walk(g, &at, time.Hour, gib+10*mib).Next
	if far != longest || near != shortest {
		t.Errorf("got looks every %s far away and %s near, want %s and %s", far, near, longest, shortest)
	}
}

func TestGuardSaysWhenTheVolumeIsFull(t *testing.T) {
	g, at := &Guard{MinFree: gib}, time.Unix(1000, 0)
	if v := walk(g, &at, time.Second, 50*gib); v.FullIn != 0 {
		t.Errorf("got full in %s after one look, want no word", v.FullIn)
	}
	free := uint64(50 * gib)
	var v Verdict
	for i := range 3600 { // an hour of 1 MiB/s
		free -= mib
		if v = walk(g, &at, time.Second, free); i < 300 && v.FullIn != 0 {
			t.Fatalf("got full in %s after %d s, want no word so soon", v.FullIn, i)
		}
	}
	if want := time.Duration((free-gib)/mib) * time.Second; v.FullIn < want*9/10 || v.FullIn > want*11/10 {
		t.Errorf("got full in %s, want about %s", v.FullIn, want)
	}
	for range 7200 { // somebody tidies up as fast
		free += mib
		v = walk(g, &at, time.Second, free)
	}
	if v.FullIn != 0 {
		t.Errorf("got full in %s of a volume that empties", v.FullIn)
	}
}
