// SPDX-License-Identifier: Apache-2.0

package disk

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

func quick(dir string) Plan {
	return Plan{Dir: dir, For: 20 * time.Millisecond, Space: 8 * mib, AtOnce: []int{2, 8}}
}

func TestMeasureSaysWhatTheDiskDidAndLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	var steps []string
	p := quick(dir)
	p.Step = func(what string) { steps = append(steps, what) }
	m, err := Measure(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	f := m.Flush
	if f.Count < 1 || f.P50 <= 0 || f.P99 < f.P50 || f.Max < f.P99 {
		t.Errorf("got %+v, want how long flushes took", f)
	}
	if len(m.AtOnce) != 2 || m.AtOnce[0].Files != 2 || m.AtOnce[1].Files != 8 || m.AtOnce[1].Flushes <= 0 || m.Sequential <= 0 {
		t.Errorf("got %+v, want every step", m)
	}
	if m.Dir != dir || m.Trust.Opinion == "" || m.Trust.Why == "" || time.Since(m.At) > time.Hour {
		t.Errorf("got %+v, want what was measured, when, and an opinion", m)
	}
	want := []string{"flushes, one after the other", "flushes of 2 files at once", "flushes of 8 files at once", "large writes"}
	if !slices.Equal(steps, want) {
		t.Errorf("got steps %q, want %q", steps, want)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("got %v, %v, want nothing left", left, err)
	}
}

func TestMeasureStopsAndCleansUp(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	p := quick(dir)
	p.For = time.Hour
	p.Step = func(what string) {
		if what == "large writes" {
			t.Error("got to the end")
		}
		cancel()
	}
	if _, err := Measure(ctx, p); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want an end when asked", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("got %v, %v, want nothing left", left, err)
	}
}

func TestMeasureRemovesWhatAKilledOneLeft(t *testing.T) {
	dir := t.TempDir()
	old, young, other := filepath.Join(dir, leftover+"1"), filepath.Join(dir, leftover+"2"), filepath.Join(dir, "mine")
	for _, d := range []string{old, young, other} {
		if err := os.MkdirAll(filepath.Join(d, "in"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	past := time.Now().Add(-2 * stale)
	for _, d := range []string{old, other} {
		if err := os.Chtimes(d, past, past); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Measure(t.Context(), quick(dir)); err != nil {
		t.Fatal(err)
	}
	for d, want := range map[string]bool{old: false, young: true, other: true} {
		if _, err := os.Stat(d); (err == nil) != want {
			t.Errorf("%s: got %v, want it there: %v", d, err, want)
		}
	}
}

func TestJudgeTellsWhatCanBeTold(t *testing.T) {
	ms := func(n float64) Latency { return Latency{Count: 100, P50: n / 1000} }
	flash := Device{Name: "nvme0n1", WriteCache: CacheBack}
	for _, c := range []struct {
		why    string
		device Device
		took   Latency
		sent   int64
		want   Opinion
	}{
		{"each flush was sent", flash, ms(0.8), 100, Plausible},
		{"others flush too", flash, ms(0.8), 900, Plausible},
		{"no flush was sent", flash, ms(0.02), 0, Broken},
		{"few were", flash, ms(0.02), 49, Broken},
		{"what was sent is not known", flash, ms(0.8), -1, Plausible},
		{"as fast as memory", flash, ms(0.005), 100, Suspicious},
		{"no volatile cache needs no flush", Device{Name: "nvme0n1", WriteCache: CacheThrough}, ms(0.02), 0, Plausible},
		{"a platter does not come by so soon", Device{Name: "sda", WriteCache: CacheBack, Rotating: true}, ms(0.3), 100, Suspicious},
		{"a platter", Device{Name: "sda", WriteCache: CacheBack, Rotating: true}, ms(8), 100, Plausible},
		{"virtual disks call themselves rotating", Device{Name: "vda", WriteCache: CacheBack, Rotating: true, Virtual: true}, ms(0.1), 100, Unknown},
		{"a virtual disk without barriers", Device{Name: "vda", WriteCache: CacheBack, Virtual: true}, ms(0.01), 0, Broken},
		{"no device", Device{}, ms(0.1), -1, Unknown},
		{"a device that says little", Device{Name: "mmcblk0"}, ms(3), -1, Unknown},
	} {
		if got := judge(c.device, c.took, c.sent); got.Opinion != c.want || got.Why == "" {
			t.Errorf("%s: got %+v, want %s", c.why, got, c.want)
		}
	}
}

func TestDurableFollowsTheFlush(t *testing.T) {
	last, lastMany := 1e9, 1e9
	for _, flush := range []time.Duration{10 * time.Microsecond, 100 * time.Microsecond, time.Millisecond, 10 * time.Millisecond} {
		one, many := Durable(flush)
		if one <= 0 || many < one || one > 1/flush.Seconds() || one >= last || many > lastMany {
			t.Errorf("%s: got %.0f and %.0f messages a second, want fewer with a slower disk, and never more than one a flush alone", flush, one, many)
		}
		last, lastMany = one, many
	}
}
