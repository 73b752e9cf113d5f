// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"
)

// quarantineDir is where what was found at a time in a stream is kept.
func quarantineDir(storeDir string, key streamKey, now time.Time) string {
	return filepath.Join(storeDir, quarantine, now.UTC().Format(quarantineTime), key.account, key.stream)
}

// setAside writes the block as it was into the quarantine, and beside it what is wrong
// with it. What is there from before is left as it is, for meanwhile the server may have
// cut the block off.
func (s *inspection) setAside(r *repair) error {
	d := &r.damage
	d.Account, d.Stream, d.Block, d.Found = s.account, s.key.stream, r.index, s.now.UTC()
	if before, ok := s.reported(r); ok {
		d.Found, d.Original, d.Report = before.Found, before.Original, before.Report
		// What was found at the time is exact; meanwhile the index may count it as removed.
		if then, err := os.ReadFile(before.Original); err == nil && bytes.Equal(then, r.found) {
			d.Lost = before.Lost
		}
		return nil
	}
	path := filepath.Join(quarantineDir(s.storeDir, s.key, s.now), strconv.Itoa(r.index)+blockSuffix)
	if r.found == nil {
		return writeReport(path+damageReport, d)
	}
	d.Original = path
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("make the quarantine: %w", err)
	}
	// Without its key nobody could read it.
	if key, err := os.ReadFile(keyPath(filepath.Join(s.dir, messagesDir), r.index)); err == nil {
		if err := writeSynced(keyPath(filepath.Dir(path), r.index), key); err != nil {
			return err
		}
	}
	if err := writeSynced(path, r.found); err != nil {
		return err
	}
	return writeReport(path+damageReport, d)
}

// moveAside renames a block that can't be read: the server would give up the stream for
// it. On another volume there could only be a copy.
func (m *mending) moveAside(r *repair) error {
	if !r.unreadable {
		return nil
	}
	r.damage.Original = m.path(r.index) + ".unreadable"
	if err := os.Rename(m.path(r.index), r.damage.Original); err != nil {
		return err
	}
	return errors.Join(writeReport(r.damage.Report, &r.damage), syncDir(filepath.Dir(r.damage.Original)))
}

// reported finds what is told of a block already.
func (s *inspection) reported(r *repair) (Damage, bool) {
	if d, ok := s.open[r.index]; ok {
		return d, true
	}
	for _, d := range damagesOf(s.storeDir, s.key) {
		if d.Block == r.index && d.What == r.damage.What && r.found == nil && slices.Equal(d.Lost, r.damage.Lost) {
			return d, true
		}
	}
	return Damage{}, false
}

// closeOpen says of what was found while the node ran that it is mended: by repairs, or
// by the server, which cut the block off before.
func (m *mending) closeOpen(repairs []repair) error {
	var errs []error
	for index, d := range m.open {
		i := slices.IndexFunc(repairs, func(r repair) bool { return r.index == index })
		switch {
		case i >= 0:
			d = repairs[i].damage
		case m.has(index):
			d.What = "the server had cut the block off by the time it was mended: what was behind the damage is in the copy only"
		default:
			d.What = "the block was gone by the time it was to be mended: what was in it was removed, or is in the copy only"
		}
		d.Open = false
		errs = append(errs, writeReport(d.Report, &d))
	}
	return errors.Join(errs...)
}

// writeReport writes down what is damaged.
func writeReport(path string, d *Damage) error {
	d.Report = path
	text, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		return fmt.Errorf("write down what is damaged: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("make the quarantine: %w", err)
	}
	return writeSynced(path, append(text, '\n'))
}
