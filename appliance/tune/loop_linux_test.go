// SPDX-License-Identifier: Apache-2.0

package tune

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-mq/holdfast/appliance/disk"
)

// must runs a program that a test of root needs.
func must(t *testing.T, name string, args ...string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
	if err == nil {
		return
	}
	if os.Getenv("HOLDFAST_TEST_SKIP_NOTHING") != "" || os.Geteuid() == 0 && !errors.Is(err, exec.ErrNotFound) {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	t.Skipf("skipping: needs root and %s", name)
}

// loop is a file system on a loop device of its own, whose settings are real.
func loop(t *testing.T) (in Input, device disk.Device) {
	t.Helper()
	if os.Geteuid() != 0 {
		if os.Getenv("HOLDFAST_TEST_SKIP_NOTHING") != "" {
			t.Fatal("needs root, and nothing may be skipped")
		}
		t.Skip("skipping: needs root")
	}
	dir := t.TempDir()
	image, at := filepath.Join(dir, "image"), filepath.Join(dir, "at")
	if err := errors.Join(os.WriteFile(image, nil, 0o600), os.Truncate(image, 256<<20), os.Mkdir(at, 0o700)); err != nil {
		t.Fatal(err)
	}
	must(t, "mkfs.ext4", "-q", "-F", image)
	must(t, "mount", "-t", "ext4", "-o", "loop", image, at)
	t.Cleanup(func() {
		if out, err := exec.Command("umount", at).CombinedOutput(); err != nil {
			t.Errorf("umount: %v\n%s", err, out)
		}
	})
	in = Input{Dir: at, State: filepath.Join(dir, "state")}
	p, err := in.place()
	if err != nil || len(p.below.Disks) != 1 || !strings.HasPrefix(p.below.Top.Name, "loop") {
		t.Fatalf("got %+v, %v, want the loop device", p.below, err)
	}
	return in, p.below.Top
}

// give is what a kernel or somebody else does.
func give(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := value(file); got != text {
		t.Fatalf("got %q in %s, want %q", got, file, text)
	}
}

// better says that values were measured to be better on a device.
func (m recorded) better(d disk.Device, name, from, to string) {
	m.t.Helper()
	r := helpful(name, from, to)
	r.Target = d.Name
	m.measured(append(m.in.results(), r)...)
}

func TestRealSettingsAreSetAndPutBack(t *testing.T) {
	in, d := loop(t)
	give(t, d.Setting("scheduler"), "mq-deadline")
	give(t, d.Setting("read_ahead_kb"), "64")
	m := recorded{t, in}
	m.better(d, "scheduler", "mq-deadline", "none")
	m.better(d, "read-ahead", "64", "1024")
	m.is("scheduler", Change, "mq-deadline", "none")
	m.is("read-ahead", Change, "64", "1024")
	m.apply(false, "scheduler", "read-ahead")
	if s, r := value(d.Setting("scheduler")), value(d.Setting("read_ahead_kb")); s != "none" || r != "1024" {
		t.Fatalf("got %s and %s, want both set", s, r)
	}
	m.apply(false, "scheduler", "read-ahead") // once more
	// Somebody else has a hand in it.
	give(t, d.Setting("read_ahead_kb"), "256")
	if out := m.undo(); !out.Left() || value(d.Setting("scheduler")) != "mq-deadline" || value(d.Setting("read_ahead_kb")) != "256" {
		t.Errorf("got %+v, %s, %s, want ours put back and theirs left", out, value(d.Setting("scheduler")), value(d.Setting("read_ahead_kb")))
	}
}

// The kernel of after a restart is recorded: of this one only the number is another.
func TestRealSettingsAreSetAgainAfterARestart(t *testing.T) {
	in, d := loop(t)
	give(t, d.Setting("read_ahead_kb"), "64")
	m := recorded{t, in}
	m.better(d, "read-ahead", "64", "1024")
	m.better(d, "read-ahead", "128", "1024")
	m.apply(true, "read-ahead")
	rec, err := in.load()
	if err != nil {
		t.Fatal(err)
	}
	rec.Values[0].Boot = "before"
	if err := in.save(rec); err != nil {
		t.Fatal(err)
	}
	give(t, d.Setting("read_ahead_kb"), "128")
	m.is("read-ahead", Change, "128", "1024")
	dir, names, err := Recorded(in)
	if err != nil || dir != in.Dir {
		t.Fatalf("got %s, %v, want %s", dir, err, in.Dir)
	}
	m.apply(false, names...)
	if got := value(d.Setting("read_ahead_kb")); got != "1024" {
		t.Errorf("got %s, want it set again", got)
	}
	m.undo()
	if got := value(d.Setting("read_ahead_kb")); got != "128" {
		t.Errorf("got %s, want what the new kernel began with", got)
	}
}

func TestMeasuringRealSettingsPutsThemBack(t *testing.T) {
	in, d := loop(t)
	give(t, d.Setting("scheduler"), "mq-deadline")
	give(t, d.Setting("read_ahead_kb"), "64")
	m := recorded{t, in}
	m.better(d, "read-ahead", "64", "1024")
	m.apply(false, "read-ahead") // also what is set already can be measured
	schedulers := len(d.Schedulers()) - 1
	var steps int
	got, err := Measure(t.Context(), in, []string{"scheduler", "read-ahead"}, Plan{Pairs: 1, Each: 20 * time.Millisecond, Space: 32 << 20, Step: func(string) { steps++ }})
	if err != nil || len(got) != schedulers+3 || steps != 3*schedulers+3 {
		t.Fatalf("got %+v, %v, %d steps, want each scheduler with three loads and three of read-ahead", got, err, steps)
	}
	for _, r := range got {
		for _, c := range r.Figures {
			if c.Before <= 0 || c.After <= 0 || c.Pairs != 1 || c.Verdict != Unclear {
				t.Errorf("got %+v, want figures, and no verdict of one pair", c)
			}
		}
		if r.Name == "read-ahead" && r.From != "64" || r.Verdict != Unclear {
			t.Errorf("got %+v, want it compared with what it was before tune", r)
		}
	}
	if s, r := value(d.Setting("scheduler")), value(d.Setting("read_ahead_kb")); s != "mq-deadline" || r != "1024" {
		t.Errorf("got %s and %s, want both as they were", s, r)
	}
	if s := m.is("scheduler", Unmeasured, "mq-deadline", ""); len(s.Here) != schedulers {
		t.Errorf("got %+v, want what was measured", s)
	}
	m.undo()
	if got := value(d.Setting("read_ahead_kb")); got != "64" {
		t.Errorf("got %s, want 64", got)
	}
	if left, err := filepath.Glob(filepath.Join(in.Dir, leftover+"*")); err != nil || len(left) > 0 {
		t.Errorf("got %v left, %v, want nothing", left, err)
	}
}

func TestAMeasurementThatIsStoppedPutsBack(t *testing.T) {
	in, d := loop(t)
	give(t, d.Setting("scheduler"), "mq-deadline")
	ctx, stop := context.WithCancel(t.Context())
	_, err := Measure(ctx, in, []string{"scheduler"}, Plan{Pairs: 100, Each: 20 * time.Millisecond, Space: 32 << 20, Step: func(string) { stop() }})
	if !errors.Is(err, context.Canceled) || value(d.Setting("scheduler")) != "mq-deadline" {
		t.Errorf("got %v and %s, want it stopped and put back", err, value(d.Setting("scheduler")))
	}
	if rec, err := in.load(); err != nil || len(rec.Values) != 0 {
		t.Errorf("got %+v, %v, want nothing on trial", rec, err)
	}
}
