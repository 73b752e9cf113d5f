// SPDX-License-Identifier: Apache-2.0

package tune

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-mq/holdfast/appliance/datadir"
	"github.com/holdfast-mq/holdfast/appliance/diag"
)

const (
	// stateDir is root's, and not below the data directory, which is the node's: what is
	// in the record is written into the kernel by root.
	stateDir   = "/var/lib/holdfast-tune"
	recordFile = "before.json"
	resultFile = "measured.json"
	format     = 1
)

// record is what tune has changed and what stood there before.
type record struct {
	Format int    `json:"format"`
	Dir    string `json:"dir"` // whose disk was tuned
	// AtBoot are the settings that are made again at each boot.
	AtBoot []string `json:"at_boot,omitempty"`
	Values []kept   `json:"values"`
}

// kept is one value that was changed.
type kept struct {
	Name   string    `json:"name"`
	Target string    `json:"target,omitempty"`
	File   string    `json:"file"`
	Before string    `json:"before"`
	Ours   string    `json:"ours"`
	At     time.Time `json:"at"`
	// Boot is when the kernel that has the value was started. The next one knows nothing
	// of it, and may have another disk under the same name.
	Boot string `json:"boot"`
	// Trial is a value that a measurement has set and not yet put back.
	Trial bool `json:"trial,omitempty"`
}

func (r record) find(name, target string) (kept, bool) {
	i := r.index(name, target)
	if i < 0 {
		return kept{}, false
	}
	return r.Values[i], true
}

func (r record) index(name, target string) int {
	return slices.IndexFunc(r.Values, func(k kept) bool { return k.Name == name && k.Target == target && !k.Trial })
}

// put replaces what was kept of the same setting.
func (r *record) put(k kept) {
	if i := r.index(k.Name, k.Target); i >= 0 && !k.Trial {
		r.Values[i] = k
		return
	}
	r.Values = append(r.Values, k)
}

func (r *record) drop(k kept) {
	r.Values = slices.DeleteFunc(r.Values, func(o kept) bool { return o == k })
}

func (in Input) stateFile(name string) string {
	return filepath.Join(cmp.Or(in.State, in.at(stateDir)), name)
}

// boot tells one start of the kernel from another.
func (in Input) boot() string { return value(in.at("/proc/sys/kernel/random/boot_id")) }

// load reads the record without what an earlier start of the kernel took away.
func (in Input) load() (record, error) {
	path := in.stateFile(recordFile)
	r := record{Format: format}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err == nil && r.Format != format {
		err = fmt.Errorf("its format is %d, and this version knows %d", r.Format, format)
	}
	if err != nil {
		return r, badRecord(path, err)
	}
	boot := in.boot()
	r.Values = slices.DeleteFunc(r.Values, func(k kept) bool { return k.Boot != boot })
	return r, nil
}

// loadTrusted is for what root is about to write into the kernel.
func (in Input) loadTrusted() (record, error) {
	path := in.stateFile(recordFile)
	for _, p := range []string{filepath.Dir(path), path} {
		if err := owned(p); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return record{}, badRecord(path, err)
		}
	}
	r, err := in.load()
	if err != nil {
		return r, err
	}
	for _, k := range r.Values {
		path := strings.TrimPrefix(k.File, in.Root)
		if filepath.Clean(k.File) != k.File || !strings.HasPrefix(path, "/sys/") && !strings.HasPrefix(path, "/proc/sys/") {
			return r, badRecord(path, fmt.Errorf("%s is no setting of the kernel", k.File))
		}
	}
	return r, nil
}

func badRecord(path string, err error) error {
	return diag.Fail(diag.CodeTuneRecord, fmt.Errorf("read %s: %w", path, err),
		"look at it; without it nothing is put back, and the kernel has its own values again after a restart of the machine: rm "+path)
}

// save keeps the record, or removes it when nothing is in it.
func (in Input) save(r record) error {
	path := in.stateFile(recordFile)
	if len(r.Values) == 0 && len(r.AtBoot) == 0 {
		err := os.Remove(path)
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return err
	}
	return in.keep(path, r)
}

func (in Input) keep(path string, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	return datadir.WriteFile(path, append(text, '\n'), 0o644)
}

// results are the measurements of this machine; none that can be read are none.
func (in Input) results() []Result {
	text, err := os.ReadFile(in.stateFile(resultFile))
	if err != nil {
		return nil
	}
	var all []Result
	if json.Unmarshal(text, &all) != nil {
		return nil
	}
	return all
}
