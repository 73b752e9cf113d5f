// SPDX-License-Identifier: Apache-2.0

package tune

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

// recorded is a machine with files in place of what its kernel shows: there is no NVMe
// disk and no swap here.
type recorded struct {
	t  *testing.T
	in Input
}

const (
	nvme      = "/sys/devices/pci0/nvme/nvme0/nvme0n1/"
	scheduler = nvme + "queue/scheduler"
	readahead = nvme + "queue/read_ahead_kb"
	swappy    = "/proc/sys/vm/swappiness"
)

func newRecorded(t *testing.T) recorded {
	t.Helper()
	m := recorded{t, Input{Dir: t.TempDir(), Root: t.TempDir()}}
	m.write("/proc/self/mountinfo", "26 1 259:2 / / rw,relatime - ext4 /dev/nvme0n1p2 rw\n")
	m.write("/proc/sys/kernel/random/boot_id", "first\n")
	m.write("/proc/swaps", "Filename Type Size Used Priority\n/dev/nvme0n1p3 partition 1048572 0 -2\n")
	m.write(nvme+"nvme0n1p2/partition", "2\n")
	m.write(nvme+"queue/rotational", "0\n")
	m.booted()
	m.measured(helpful("scheduler", "mq-deadline", "none"), helpful("scheduler", "bfq", "none"), helpful("scheduler", "kyber", "none"), helpful("read-ahead", "128", "1024"))
	link := filepath.Join(m.in.Root, "sys/dev/block/259:2")
	if err := errors.Join(os.MkdirAll(filepath.Dir(link), 0o755), os.Symlink("../../devices/pci0/nvme/nvme0/nvme0n1/nvme0n1p2", link)); err != nil {
		t.Fatal(err)
	}
	return m
}

func helpful(name, from, to string) Result {
	return Result{Name: name, Target: "nvme0n1", From: from, To: to, Verdict: Helps, Figures: []Comparison{{Figure: "f", Unit: "s", Ratio: 0.5, Verdict: Helps}}}
}

// measured is what was measured on the machine.
func (m recorded) measured(all ...Result) {
	m.t.Helper()
	if err := m.in.keep(m.in.stateFile(resultFile), all); err != nil {
		m.t.Fatal(err)
	}
}

// booted gives the settings the values that the kernel starts with.
func (m recorded) booted() {
	m.write(scheduler, "none [mq-deadline] kyber bfq\n")
	m.write(readahead, "128\n")
	m.write(swappy, "60\n")
}

func (m recorded) write(path, text string) {
	m.t.Helper()
	path = filepath.Join(m.in.Root, path)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
		m.t.Fatal(err)
	}
}

func (m recorded) value(path string) string { return value(filepath.Join(m.in.Root, path)) }

// choices shows the schedulers again as the kernel does, where a file has only the word
// that was written.
func (m recorded) choices() {
	m.t.Helper()
	chosen := m.value(scheduler)
	m.write(scheduler, strings.Replace("none mq-deadline kyber bfq\n", chosen, "["+chosen+"]", 1))
}

func (m recorded) look(names ...string) Report {
	m.t.Helper()
	r, err := Look(m.in, names)
	if err != nil {
		m.t.Fatal(err)
	}
	return r
}

func (m recorded) apply(atBoot bool, names ...string) Outcome {
	m.t.Helper()
	out, err := Apply(m.in, m.look(names...), atBoot)
	if err != nil {
		m.t.Fatal(err)
	}
	return out
}

func (m recorded) undo(names ...string) Outcome {
	m.t.Helper()
	out, err := Undo(m.in, names)
	if err != nil {
		m.t.Fatal(err)
	}
	return out
}

// is wants one setting of a name, and this state, value and wish of it.
func (m recorded) is(name string, state State, now, wanted string) Setting {
	m.t.Helper()
	all := m.look(name).Settings
	if len(all) != 1 || all[0].State != state || all[0].Now != now || all[0].Wanted != wanted {
		m.t.Fatalf("%s: got %+v, want one that is %s, %q and wanted %q", name, all, state, now, wanted)
	}
	if all[0].Why == "" || all[0].Known == "" {
		m.t.Errorf("%s: got %+v, want reasons", name, all[0])
	}
	return all[0]
}

// untouched wants the values that the kernel started with.
func (m recorded) untouched() {
	m.t.Helper()
	for path, want := range map[string]string{scheduler: "mq-deadline", readahead: "128", swappy: "60"} {
		if got := m.value(path); got != want {
			m.t.Errorf("%s: got %q, want %q", path, got, want)
		}
	}
}

func TestNothingChangesWithoutApply(t *testing.T) {
	m := newRecorded(t)
	if s := m.is("scheduler", Change, "mq-deadline", "none"); s.Command != "echo none > /sys/block/nvme0n1/queue/scheduler" || s.Target != "nvme0n1" {
		t.Errorf("got %+v, want the command by the name of the disk", s)
	}
	m.is("read-ahead", Change, "128", "1024")
	m.is("swappiness", Change, "60", "10")
	m.is("barrier", Fine, "on", "on")
	m.untouched()
	if r := m.look(); len(r.Changes()) != 3 || !slices.Equal(r.Disks, []string{"nvme0n1"}) || r.Mount != "/" || r.FSType != "ext4" {
		t.Errorf("got %+v, want three changes on the disk", r)
	}
	if _, err := os.Stat(m.in.stateFile(recordFile)); err == nil {
		t.Error("got a record, want nothing written")
	}
	if _, err := Look(m.in, []string{"schedulers"}); diag.CodeOf(err) != diag.CodeUsage {
		t.Errorf("got %v, want a setting that does not exist refused", err)
	}
}

func TestApplyAndUndoPutBackWhatWas(t *testing.T) {
	m := newRecorded(t)
	if out := m.apply(false); len(out.Changed) != 3 || out.Left() || out.Changed[0] != (Changed{Name: "scheduler", Target: "nvme0n1", From: "mq-deadline", To: "none"}) {
		t.Errorf("got %+v, want three changes", out)
	}
	for path, want := range map[string]string{scheduler: "none", readahead: "1024", swappy: "10"} {
		if got := m.value(path); got != want {
			t.Errorf("%s: got %q, want %q", path, got, want)
		}
	}
	m.choices()
	if s := m.is("scheduler", Set, "none", "none"); s.Note != "it was mq-deadline" {
		t.Errorf("got %+v, want what it was", s)
	}
	// Twice is once.
	if out := m.apply(false); len(out.Changed) != 0 {
		t.Errorf("got %+v, want nothing to do", out)
	}
	if out := m.undo("read-ahead"); len(out.Changed) != 1 || m.value(readahead) != "128" || m.value(scheduler) != "none" {
		t.Errorf("got %+v, want one put back", out)
	}
	if out := m.undo(); len(out.Changed) != 2 || out.Left() {
		t.Errorf("got %+v, want the others put back", out)
	}
	m.untouched()
	if out := m.undo(); len(out.Changed) != 0 {
		t.Errorf("got %+v, want nothing left to put back", out)
	}
	if _, err := os.Stat(m.in.stateFile(recordFile)); err == nil {
		t.Error("got a record, want none when nothing is in force")
	}
}

func TestWhatSomebodyElseHasChangedIsTheirs(t *testing.T) {
	m := newRecorded(t)
	m.apply(false, "scheduler", "read-ahead")
	m.write(scheduler, "none mq-deadline kyber [bfq]\n")
	m.write(readahead, "128\n") // put back by hand
	if s := m.is("scheduler", Change, "bfq", "none"); !strings.Contains(s.Note, "somebody has changed it since") {
		t.Errorf("got %+v, want it said", s)
	}
	out := m.undo()
	if len(out.Changed) != 2 || !out.Left() || m.value(scheduler) != "bfq" || m.value(readahead) != "128" {
		t.Errorf("got %+v, want bfq left, and no word of what is as before", out)
	}
	for _, c := range out.Changed {
		if c.Name == "scheduler" && (!strings.Contains(c.Left, "it was mq-deadline") || c.From != "bfq") {
			t.Errorf("got %+v, want what it was said", c)
		}
		if c.Name == "read-ahead" && c.Left != "" {
			t.Errorf("got %+v, want it fine", c)
		}
	}
	// Applied over what somebody else has set, an undo brings theirs back.
	m.apply(false, "scheduler")
	m.undo()
	if got := m.value(scheduler); got != "bfq" {
		t.Errorf("got %q, want bfq back", got)
	}
}

// A restart of the machine takes the values away, and may give their names to other disks.
func TestARestartForgetsTheValuesAndNotTheWish(t *testing.T) {
	m := newRecorded(t)
	m.apply(true, "scheduler", "swappiness")
	m.choices()
	if dir, names, err := Recorded(m.in); err != nil || dir != m.in.Dir || !slices.Equal(names, []string{"scheduler", "swappiness"}) {
		t.Errorf("got %s, %v, %v, want what was chosen", dir, names, err)
	}
	m.write("/proc/sys/kernel/random/boot_id", "second\n")
	m.booted()
	m.write(scheduler, "none mq-deadline [kyber]\n") // this kernel begins with another
	m.is("scheduler", Change, "kyber", "none")
	if out := m.undo("swappiness"); len(out.Changed) != 0 || m.value(swappy) != "60" || !slices.Equal(out.AtBoot, []string{"scheduler"}) {
		t.Errorf("got %+v, want nothing written, and the wish gone", out)
	}
	_, names, err := Recorded(m.in)
	if err != nil {
		t.Fatal(err)
	}
	m.apply(false, names...) // as the unit does
	if m.value(scheduler) != "none" || m.value(swappy) != "60" {
		t.Errorf("got %q and %q, want what was chosen and nothing else", m.value(scheduler), m.value(swappy))
	}
	if out := m.undo(); m.value(scheduler) != "kyber" || len(out.AtBoot) != 0 {
		t.Errorf("got %q, %+v, want what this kernel began with", m.value(scheduler), out)
	}
	if _, names, err := Recorded(m.in); err != nil || len(names) != 0 {
		t.Errorf("got %v, %v, want nothing at boot any more", names, err)
	}
}

func TestWhatWasMeasuredHereDecides(t *testing.T) {
	m := newRecorded(t)
	m.measured()
	if s := m.is("scheduler", Unmeasured, "mq-deadline", ""); !strings.Contains(s.Note, "--measure") || s.Command != "" {
		t.Errorf("got %+v, want a measurement asked for", s)
	}
	m.is("swappiness", Change, "60", "10") // protects without one
	if out := m.apply(false, "scheduler"); len(out.Changed) != 0 || m.value(scheduler) != "mq-deadline" {
		t.Errorf("got %+v, want nothing changed that nobody has measured", out)
	}
	none, bfq, kyber := helpful("scheduler", "mq-deadline", "none"), helpful("scheduler", "mq-deadline", "bfq"), helpful("scheduler", "mq-deadline", "kyber")
	bfq.Figures[0].Ratio = 0.1
	kyber.Figures[0].Ratio, kyber.Verdict = 0.01, Hurts // something else
	m.measured(none, bfq, kyber)
	if s := m.is("scheduler", Change, "mq-deadline", "bfq"); len(s.Here) != 3 {
		t.Errorf("got %+v, want the best that harms nothing, and all that was measured", s)
	}
	m.apply(false, "scheduler")
	m.choices()
	m.is("scheduler", Set, "bfq", "bfq")
	m.measured(none)
	if s := m.is("scheduler", Set, "bfq", "bfq"); !strings.Contains(s.Note, "--undo") {
		t.Errorf("got %+v, want it said that another is better", s)
	}
	m.undo()
	m.choices()
	none.Verdict, bfq.Verdict = Nothing, Nothing
	m.measured(none, bfq, kyber)
	m.is("scheduler", Fine, "mq-deadline", "")
	// Of another value nothing was measured.
	m.write(scheduler, "[none] mq-deadline\n")
	m.is("scheduler", Unmeasured, "none", "")
}

func TestSettingsThatAreFine(t *testing.T) {
	m := newRecorded(t)
	m.write(swappy, "1\n")
	m.is("swappiness", Fine, "1", "1")
	// No swap, nothing to say; one choice is none.
	m.write("/proc/swaps", "Filename Type Size Used Priority\n")
	if r := m.look("swappiness"); len(r.Settings) != 0 {
		t.Errorf("got %+v, want nothing", r.Settings)
	}
	m.write(scheduler, "[none]\n")
	if r := m.look("scheduler"); len(r.Settings) != 0 {
		t.Errorf("got %+v, want nothing", r.Settings)
	}
}

func TestWhatOnlyAPersonChanges(t *testing.T) {
	m := newRecorded(t)
	m.write("/proc/self/mountinfo", "26 1 259:2 / / rw - ext4 /dev/nvme0n1p2 rw,nobarrier,data=writeback\n")
	m.write(nvme+"queue/write_cache", "write through\n")
	m.write(nvme+"device/scsi_disk/0:0:0:0/cache_type", "write back\n")
	r := m.look("barrier", "journal")
	var got []string
	for _, s := range r.Settings {
		if s.State != ByHand || s.Command == "" {
			t.Errorf("got %+v, want it for a person, with what to do", s)
		}
		got = append(got, s.Name+" "+s.Target)
	}
	if want := []string{"barrier /", "barrier nvme0n1", "journal /"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if out := m.apply(false, "barrier", "journal"); len(out.Changed) != 0 || m.value(nvme+"queue/write_cache") != "write through" {
		t.Errorf("got %+v, want nothing touched", out)
	}
}

func TestARecordThatOthersCouldWriteIsRefused(t *testing.T) {
	m := newRecorded(t)
	m.apply(true, "scheduler")
	path := m.in.stateFile(recordFile)
	refused := func(what string) {
		t.Helper()
		for name, err := range map[string]error{"undo": second(Undo(m.in, nil)), "apply": second(Apply(m.in, Report{}, false)), "boot": third(Recorded(m.in))} {
			if diag.CodeOf(err) != diag.CodeTuneRecord || diag.Hint(err) == "" {
				t.Errorf("%s, %s: got %v, want it refused", what, name, err)
			}
		}
	}
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	refused("writable by all")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var r record
	if err := errors.Join(os.Chmod(path, 0o644), json.Unmarshal(text, &r)); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"/etc/passwd", filepath.Join(m.in.Root, "sys/../etc/passwd"), m.in.Root + "/sys/../etc/passwd", filepath.Join(m.in.Root, "etc/x/queue/passwd")} {
		r.Values[0].File = file
		if err := m.in.keep(path, r); err != nil {
			t.Fatal(err)
		}
		refused(file)
	}
	if err := os.WriteFile(path, []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	refused("half of it")
	if got := m.value(scheduler); got != "none" {
		t.Errorf("got %q, want nothing written", got)
	}
}

func TestAMeasurementThatWasKilledIsPutBack(t *testing.T) {
	m := newRecorded(t)
	m.apply(false, "read-ahead")
	rec, err := m.in.load()
	if err != nil {
		t.Fatal(err)
	}
	rec.put(kept{Name: "scheduler", Target: "nvme0n1", File: filepath.Join(m.in.Root, scheduler), Before: "mq-deadline", Ours: "none", Boot: "first", Trial: true})
	if err := m.in.save(rec); err != nil {
		t.Fatal(err)
	}
	m.write(scheduler, "[none] mq-deadline\n")
	m.apply(false, "swappiness")
	if got := m.value(scheduler); got != "mq-deadline" {
		t.Errorf("got %q, want what was there before the measurement", got)
	}
	if rec, err = m.in.load(); err != nil || len(rec.Values) != 2 {
		t.Errorf("got %+v, %v, want the two that were applied", rec, err)
	}
}

func TestTwoAtOnceAreOne(t *testing.T) {
	m := newRecorded(t)
	unlock, err := m.in.lock()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Apply(m.in, m.look(), false); diag.CodeOf(err) != diag.CodeTune {
		t.Errorf("got %v, want the second refused", err)
	}
	m.untouched()
	if err := unlock(); err != nil {
		t.Fatal(err)
	}
	m.apply(false)
}

func second[T any](_ T, err error) error        { return err }
func third[T, U any](_ T, _ U, err error) error { return err }
