// SPDX-License-Identifier: Apache-2.0

package tune

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/holdfast-mq/holdfast/appliance/diag"
	"github.com/holdfast-mq/holdfast/appliance/disk"
)

// State is what there is to do about a setting.
type State string

// The states.
const (
	Change     State = "change"     // tune would change it
	Set        State = "set"        // tune has set it
	Fine       State = "fine"       // nothing else is better
	Unmeasured State = "unmeasured" // what is best depends on the disk, and nobody has measured
	ByHand     State = "by hand"    // only a person can change it
	Closed     State = "closed"     // can't be changed from here: a container
)

// Setting is one setting at one place.
type Setting struct {
	Name   string `json:"name"`
	Target string `json:"target,omitempty"` // a device or a mount; empty: the kernel
	State  State  `json:"state"`
	Now    string `json:"now"`
	Wanted string `json:"wanted,omitempty"`
	Why    string `json:"why"`
	// Known is what was measured where Holdfast is made, or which failure it protects from.
	Known string `json:"known"`
	// Here is what was measured on this machine, of what it could be instead.
	Here []Result `json:"here"`
	// Command does the same by hand. Where only a person can decide it is a comment.
	Command string `json:"command,omitempty"`
	// Note is what else there is to say.
	Note string `json:"note,omitempty"`

	file    string // where the value is
	options []string
	loads   []string
}

// Input says which node's disk to look at.
type Input struct {
	Dir string // the data directory, or what will be it
	// State is where tune keeps its record; empty is the packages' place.
	State string
	// Root stands for / wherever the system is looked at or changed; tests put
	// recorded trees there.
	Root string
}

// Report is how the settings are.
type Report struct {
	Dir      string    `json:"dir"`
	Mount    string    `json:"mount,omitempty"`
	FSType   string    `json:"file_system,omitempty"`
	Disks    []string  `json:"disks"`
	AtBoot   []string  `json:"at_boot"` // set again at each boot
	Settings []Setting `json:"settings"`
	// Nothing says why there is nothing to tune here at all.
	Nothing string `json:"nothing,omitempty"`
}

// Changes are the settings that tune would change.
func (r Report) Changes() []Setting {
	return slices.DeleteFunc(slices.Clone(r.Settings), func(s Setting) bool { return s.State != Change })
}

// About is the name of a setting and what it is.
type About struct {
	Name  string `json:"name"`
	Title string `json:"title"`
}

// List is every setting that tune knows.
func List() []About {
	var all []About
	for _, k := range knobs() {
		all = append(all, About{k.name, k.title})
	}
	for _, a := range advices() {
		all = append(all, About{a.name, a.title})
	}
	return all
}

func checkNames(names []string) error {
	for _, n := range names {
		if !slices.ContainsFunc(List(), func(a About) bool { return a.Name == n }) {
			return diag.Fail(diag.CodeUsage, fmt.Errorf("there is no setting %q", n), "`holdfast tune --list` shows all settings")
		}
	}
	return nil
}

// chosen reports whether a name is among those that were asked for.
func chosen(names []string, name string) bool { return len(names) == 0 || slices.Contains(names, name) }

// Look says how the named settings are, or all without a name. It changes nothing and
// needs no privileges.
func Look(in Input, names []string) (Report, error) {
	out := Report{Dir: in.Dir, Disks: []string{}, AtBoot: []string{}, Settings: []Setting{}}
	if err := checkNames(names); err != nil {
		return out, err
	}
	p, err := in.place()
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		out.Nothing = "nothing to tune here: the settings are those of the Linux kernel"
		return out, nil
	case err != nil:
		return out, err
	}
	rec, err := in.load()
	if err != nil {
		return out, err
	}
	out.Mount, out.FSType = p.mount.Point, p.mount.FSType
	for _, d := range p.below.Disks {
		out.Disks = append(out.Disks, d.Name)
	}
	out.AtBoot = append(out.AtBoot, rec.AtBoot...)
	results := in.results()
	for _, k := range knobs() {
		if !chosen(names, k.name) {
			continue
		}
		for _, s := range k.spots(p) {
			out.Settings = append(out.Settings, in.judge(k, s, rec, results))
		}
	}
	for _, a := range advices() {
		if chosen(names, a.name) {
			out.Settings = append(out.Settings, a.look(p)...)
		}
	}
	return out, nil
}

// judge says what there is to do about a knob at one place.
func (in Input) judge(k knob, at spot, rec record, results []Result) Setting {
	now := value(at.file)
	s := Setting{Name: k.name, Target: at.target, Now: now, Why: k.why, Known: k.known, Here: []Result{}, file: at.file, loads: k.loads}
	kept, recorded := rec.find(k.name, at.target)
	ours := recorded && kept.Ours == now
	from := now
	if ours {
		from = kept.Before
	}
	s.options = at.options(from)
	best := Result{Verdict: Nothing}
	for _, to := range s.options {
		r, ok := find(results, k.name, at.target, from, to)
		if !ok {
			continue
		}
		s.Here = append(s.Here, r)
		if r.Verdict == Helps && (best.Verdict != Helps || r.gain() > best.gain()) {
			best = r
		}
	}
	s.decide(k, best)
	switch {
	case ours:
		s.State, s.Wanted, s.Note = Set, now, "it was "+kept.Before
		if len(s.Here) > 0 && best.To != now {
			s.Note += "; as measured here that is not the best: `holdfast tune " + k.name + " --undo`"
		}
	case s.State != Change:
	case !writable(at.file):
		s.State, s.Note = Closed, "it can't be written here; run this on the host of the container"
	case recorded:
		s.Note = fmt.Sprintf("tune had set it to %s, and somebody has changed it since", kept.Ours)
	}
	if s.State == Change || s.State == Closed {
		s.Command = fmt.Sprintf("echo %s > %s", s.Wanted, in.shown(at.file))
	}
	return s
}

// decide says what is wanted: what protects, or what was measured here to be better.
func (s *Setting) decide(k knob, best Result) {
	switch {
	case len(s.options) == 0:
		s.State, s.Wanted = Fine, s.Now
	case k.protects:
		s.State, s.Wanted = Change, s.options[0]
	case best.Verdict == Helps:
		s.State, s.Wanted = Change, best.To
	case len(s.Here) == len(s.options):
		s.State, s.Note = Fine, "nothing was measured here to be better"
		if slices.ContainsFunc(s.Here, func(r Result) bool { return r.Verdict == Unclear }) {
			s.State, s.Note = Unmeasured, "there was too much else going on to tell: `holdfast tune "+s.Name+" --measure` when the machine has nothing else to do, or with more --pairs"
		}
	default:
		s.State, s.Note = Unmeasured, "what is best here only a measurement tells: `holdfast tune "+s.Name+" --measure`"
	}
}

// place is what the settings depend on.
type place struct {
	in    Input
	mount disk.Mount
	below disk.Stack
}

func (in Input) place() (place, error) {
	sys := disk.System{Root: in.Root}
	m, err := sys.MountOf(filepath.Join(in.Dir, "jetstream")) // which may be a volume of its own
	if err != nil {
		return place{}, fmt.Errorf("look at the disk of %s: %w", in.Dir, err)
	}
	return place{in: in, mount: m, below: sys.Below(m)}, nil
}

func (in Input) at(path string) string {
	if in.Root == "" {
		return path
	}
	return filepath.Join(in.Root, path)
}

// shown is the path of a file as a person types it: by the name of the device, and not
// by the bus that it is on.
func (in Input) shown(file string) string {
	if dir, rest, ok := strings.Cut(file, "/queue/"); ok {
		return "/sys/block/" + filepath.Base(dir) + "/queue/" + rest
	}
	return "/" + strings.TrimPrefix(strings.TrimPrefix(file, in.Root), "/")
}

// value is what a setting is; empty when it can't be read.
func value(file string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	return disk.Chosen(strings.TrimSpace(string(text)))
}
