// SPDX-License-Identifier: Apache-2.0

package tune

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

// Changed is what became of one setting.
type Changed struct {
	Name   string `json:"name"`
	Target string `json:"target,omitempty"`
	From   string `json:"from,omitempty"`
	To     string `json:"to,omitempty"`
	// Left says why it was not changed.
	Left string `json:"left,omitempty"`
}

// Outcome is what was done, in order.
type Outcome struct {
	Changed []Changed `json:"changed"`
	AtBoot  []string  `json:"at_boot"` // what is set again at each boot from now on
}

// Left reports whether something was not put back or not set.
func (o Outcome) Left() bool {
	return slices.ContainsFunc(o.Changed, func(c Changed) bool { return c.Left != "" })
}

// Apply makes the changes of a report, and keeps what stood there before it does: it can
// be ended at any moment. With atBoot the settings of the report that are in force are
// those of each boot, too.
func Apply(in Input, r Report, atBoot bool) (out Outcome, err error) {
	out = Outcome{Changed: []Changed{}, AtBoot: []string{}}
	rec, unlock, err := in.begin()
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	rec.Dir = in.Dir
	for _, s := range r.Settings {
		if s.State != Change {
			continue
		}
		c, err := in.set(&rec, s)
		if err != nil {
			return out, err
		}
		out.Changed = append(out.Changed, c)
	}
	if atBoot {
		for _, s := range r.Settings {
			if (s.State == Change || s.State == Set) && !slices.Contains(rec.AtBoot, s.Name) {
				rec.AtBoot = append(rec.AtBoot, s.Name)
			}
		}
		if err := in.save(rec); err != nil {
			return out, err
		}
	}
	out.AtBoot = append(out.AtBoot, rec.AtBoot...)
	return out, nil
}

// set writes one setting, after what it was is on disk.
func (in Input) set(rec *record, s Setting) (Changed, error) {
	before := value(s.file)
	k := kept{Name: s.Name, Target: s.Target, File: s.file, Before: before, Ours: s.Wanted, At: time.Now().UTC().Truncate(time.Second), Boot: in.boot()}
	rec.put(k)
	if err := in.save(*rec); err != nil {
		return Changed{}, err
	}
	if err := in.write(s.file, s.Wanted); err != nil {
		rec.drop(k)
		return Changed{}, errors.Join(err, in.save(*rec))
	}
	// The kernel may have rounded it.
	if got := value(s.file); got != k.Ours {
		rec.drop(k)
		if k.Ours = got; got != before {
			rec.put(k)
		}
		if err := in.save(*rec); err != nil {
			return Changed{}, err
		}
	}
	if k.Ours == before {
		return Changed{Name: s.Name, Target: s.Target, From: before, Left: "the kernel has kept its value"}, nil
	}
	return Changed{Name: s.Name, Target: s.Target, From: before, To: k.Ours}, nil
}

func (in Input) write(file, text string) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_TRUNC, 0)
	if err == nil {
		_, err = f.WriteString(text)
		err = errors.Join(err, f.Close())
	}
	if err == nil {
		return nil
	}
	fix := "look at the kernel's messages: dmesg | tail"
	if errors.Is(err, fs.ErrPermission) || isReadOnly(err) {
		fix = "in a container the settings are the host's: run it there"
	}
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		err = path.Err // the path is that of the bus, which nobody types
	}
	return diag.Fail(diag.CodeTune, fmt.Errorf("write %s: %w", in.shown(file), err), fix)
}

// Undo puts back what stood there before, where the value is still tune's own. What
// somebody else has changed since is theirs. Without names everything is undone.
func Undo(in Input, names []string) (out Outcome, err error) {
	out = Outcome{Changed: []Changed{}, AtBoot: []string{}}
	if err := checkNames(names); err != nil {
		return out, err
	}
	rec, unlock, err := in.begin()
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	for _, k := range slices.Backward(slices.Clone(rec.Values)) {
		if !chosen(names, k.Name) {
			continue
		}
		c, err := in.putBack(k)
		if err != nil {
			return out, err
		}
		out.Changed = append(out.Changed, c)
		rec.drop(k)
		if err := in.save(rec); err != nil {
			return out, err
		}
	}
	rec.AtBoot = slices.DeleteFunc(rec.AtBoot, func(n string) bool { return chosen(names, n) })
	out.AtBoot = append(out.AtBoot, rec.AtBoot...)
	return out, in.save(rec)
}

// putBack writes what stood there before over what tune has written.
func (in Input) putBack(k kept) (Changed, error) {
	c := Changed{Name: k.Name, Target: k.Target, From: k.Ours, To: k.Before}
	now := value(k.File)
	_, err := os.Stat(k.File)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		c.To, c.Left = "", "the device is gone"
	case now == k.Before:
		c.From = now // somebody was faster
	case now != k.Ours:
		c.From, c.To, c.Left = now, "", fmt.Sprintf("somebody has changed it since: tune had set it to %s, and it was %s", k.Ours, k.Before)
	default:
		return c, in.write(k.File, k.Before)
	}
	return c, nil
}

// begin locks the record against others, and puts back what a killed measurement left.
func (in Input) begin() (rec record, unlock func() error, err error) {
	unlock, err = in.lock()
	if err != nil {
		return rec, nil, err
	}
	if rec, err = in.loadTrusted(); err == nil {
		err = in.endTrials(&rec)
	}
	if err != nil {
		return rec, nil, errors.Join(err, unlock())
	}
	return rec, unlock, nil
}

// endTrials puts back what a measurement that was killed has left.
func (in Input) endTrials(rec *record) error {
	for _, k := range slices.Clone(rec.Values) {
		if !k.Trial {
			continue
		}
		if _, err := in.putBack(k); err != nil {
			return err
		}
		rec.drop(k)
		if err := in.save(*rec); err != nil {
			return err
		}
	}
	return nil
}

// Recorded is what the boot is to set, and for which directory; nothing when it is not.
func Recorded(in Input) (dir string, names []string, err error) {
	rec, err := in.loadTrusted()
	return rec.Dir, rec.AtBoot, err
}
