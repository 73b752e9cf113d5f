// SPDX-License-Identifier: Apache-2.0

package tune

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/holdfast-mq/holdfast/appliance/datadir"
	"github.com/holdfast-mq/holdfast/appliance/diag"
)

// Result is what a setting was measured to do on this machine.
type Result struct {
	Name   string    `json:"name"`
	Target string    `json:"target,omitempty"`
	From   string    `json:"from"`
	To     string    `json:"to"`
	At     time.Time `json:"at"`
	// Verdict is Helps when a figure of the load that decides is better and none is worse.
	Verdict Verdict      `json:"verdict"`
	Figures []Comparison `json:"figures"`
}

// gain is how much better the figure is that gains most.
func (r Result) gain() float64 {
	most := 0.0
	for _, c := range r.Figures {
		if c.Verdict != Helps || c.Ratio <= 0 {
			continue
		}
		if c.More {
			most = max(most, c.Ratio)
		} else {
			most = max(most, 1/c.Ratio)
		}
	}
	return most
}

func find(all []Result, name, target, from, to string) (Result, bool) {
	i := slices.IndexFunc(all, func(r Result) bool { return r.Name == name && r.Target == target && r.From == from && r.To == to })
	if i < 0 {
		return Result{}, false
	}
	return all[i], true
}

// Plan says how to measure.
type Plan struct {
	Pairs int
	Each  time.Duration
	Space int64
	// Step, if not nil, is told what is measured now.
	Step func(what string)
}

// Measure compares each named setting with what it could be instead, on this disk, and
// keeps what came of it: from then on it decides. What can't be measured in minutes is
// passed over. Every value is put back.
func Measure(ctx context.Context, in Input, names []string, p Plan) (out []Result, err error) {
	report, err := Look(in, names)
	if err != nil {
		return nil, err
	}
	dir := datadir.OnStore(in.Dir)
	if err := room(dir, p.Space); err != nil {
		return nil, err
	}
	rec, unlock, err := in.begin()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	out = []Result{}
	for _, s := range report.Settings {
		if len(s.loads) == 0 || s.file == "" || !writable(s.file) {
			continue
		}
		from := s.Now
		if k, ok := rec.find(s.Name, s.Target); ok && s.State == Set {
			from = k.Before
		}
		for _, to := range s.options {
			r, err := in.try(ctx, &rec, s, from, to, dir, p)
			if err != nil {
				return out, err
			}
			out = append(out, r)
			all := slices.DeleteFunc(in.results(), func(o Result) bool {
				return o.Name == r.Name && o.Target == r.Target && o.From == r.From && o.To == r.To
			})
			if err := in.keep(in.stateFile(resultFile), append(all, r)); err != nil {
				return out, err
			}
		}
	}
	return out, nil
}

// try measures one value of a setting. That it is on trial is on disk before it changes,
// so that the next tune puts it back when this one is killed.
func (in Input) try(ctx context.Context, rec *record, s Setting, from, to, dir string, p Plan) (r Result, err error) {
	other := to
	if s.Now == to {
		other = from
	}
	trial := kept{Name: s.Name, Target: s.Target, File: s.file, Before: s.Now, Ours: other, At: time.Now().UTC().Truncate(time.Second), Boot: in.boot(), Trial: true}
	rec.put(trial)
	if err := in.save(*rec); err != nil {
		return r, err
	}
	defer func() {
		back := in.write(s.file, s.Now)
		rec.drop(trial)
		err = errors.Join(err, back, in.save(*rec))
	}()
	r = Result{Name: s.Name, Target: s.Target, From: from, To: to, At: trial.At, Verdict: Nothing}
	for i, load := range s.loads {
		t := Trial{
			Dir: dir, Load: load, Pairs: p.Pairs, Each: p.Each, Space: p.Space,
			Before: func() error { return in.write(s.file, from) },
			After:  func() error { return in.write(s.file, to) },
			Step: func(pairs int) {
				if p.Step != nil {
					p.Step(fmt.Sprintf("%s of %s, %s and %s, load %d of %d, pair %d of %d", s.Name, s.Target, from, to, i+1, len(s.loads), pairs, p.Pairs))
				}
			},
		}
		got, err := t.Run(ctx)
		if err != nil {
			return r, noPlace(err)
		}
		r.Figures = append(r.Figures, got...)
		for _, v := range []Verdict{Unclear, Helps} {
			if i == 0 && slices.ContainsFunc(got, func(c Comparison) bool { return c.Verdict == v }) {
				r.Verdict = v
			}
		}
	}
	if slices.ContainsFunc(r.Figures, func(c Comparison) bool { return c.Verdict == Hurts }) {
		r.Verdict = Hurts
	}
	return r, nil
}

// room refuses to fill the volume: what publishers leave free is for others to leave
// free, too.
func room(dir string, space int64) error {
	vol, err := datadir.VolumeOf(dir)
	if err == nil && uint64(space)+vol.Total/20 > vol.Free {
		err = diag.Fail(diag.CodeDiskFull, fmt.Errorf("measure on the disk of %s: %s are free, a twentieth of the volume is left alone, and %s would be written",
			dir, humanize.IBytes(vol.Free), humanize.IBytes(uint64(space))), "use less with --space, or make room")
	}
	return err
}

func noPlace(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return diag.Fail(diag.CodeAccess, err, "the measurement writes files below the data directory; start the node once, which makes it, or name another with --data-dir")
	}
	return err
}
