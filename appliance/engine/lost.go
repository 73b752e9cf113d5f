// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// lostStreams finds streams whose directory is gone. Where a stream is declared it is
// made anew, and nobody would notice that it was not empty.
func lostStreams(storeDir string, names Names, now time.Time) ([]Damage, error) {
	var found []Damage
	var errs []error
	root := filepath.Join(storeDir, server.JetStreamStoreDir)
	mark := stopMark(storeDir)
	for _, key := range knownStreams(storeDir) {
		streams := filepath.Join(root, key.account, streamsDir)
		if _, err := os.Lstat(filepath.Join(streams, key.stream)); err == nil {
			continue
		}
		if _, err := os.Lstat(filepath.Join(streams, "."+key.stream)); err != nil {
			d, err := lostStream(storeDir, key, names, mark, now)
			errs = append(errs, err)
			if err != nil {
				continue
			}
			found = append(found, d)
		}
		errs = append(errs, forget(storeDir, key))
	}
	return found, errors.Join(errs...)
}

func lostStream(storeDir string, key streamKey, names Names, mark string, now time.Time) (Damage, error) {
	d := Damage{Account: names.name(key.account), Stream: key.stream, Found: now.UTC(), Lost: []SeqRange{}}
	to := filepath.Join(quarantineDir(storeDir, key, now), "note")
	k, ok := readKnown(storeDir, key)
	switch {
	case !ok:
		d.What = "the directory of the stream is gone, and the note of what it had is torn"
		err := writeReport(to+damageReport, &d)
		return d, err
	case k.Stop != "" && k.Stop == mark:
		d.What = fmt.Sprintf("the directory of the stream is gone; it had %d messages when the node was stopped", k.Messages)
		if k.Messages > 0 {
			d.Lost = append(d.Lost, SeqRange{k.First, k.Last})
		}
	default:
		// The index that the figures are from may be minutes old.
		d.What = fmt.Sprintf("the directory of the stream is gone, or somebody deleted the stream right before a crash; it was there at %s UTC, and had %d messages up to sequence %d not long before",
			k.At.Format(time.DateTime), k.Messages, k.Last)
		d.Lost = append(d.Lost, SeqRange{From: max(k.First, 1)})
	}
	text, err := os.ReadFile(knownPath(storeDir, key))
	if err != nil {
		return d, err
	}
	d.Original = to
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return d, fmt.Errorf("make the quarantine: %w", err)
	}
	err = errors.Join(writeSynced(to, text), writeReport(to+damageReport, &d))
	return d, err
}

// setAsidePrefix is how the directory of a stream is named whose name was taken.
const setAsidePrefix = "set-aside-"

// keepHidden finds streams that the server would delete because their directories are
// named as those that it was deleting. From those it has taken the configuration first,
// so that one which still has it was not deleted by anybody.
func keepHidden(storeDir string, names Names, now time.Time) ([]Damage, error) {
	var found []Damage
	var errs []error
	root := filepath.Join(storeDir, server.JetStreamStoreDir)
	accounts, _ := os.ReadDir(root)
	for _, a := range accounts {
		streams := filepath.Join(root, a.Name(), streamsDir)
		entries, _ := os.ReadDir(streams)
		for _, e := range entries {
			name, hidden := strings.CutPrefix(e.Name(), ".")
			dir := filepath.Join(streams, e.Name())
			meta, err := os.ReadFile(filepath.Join(dir, server.JetStreamMetaFile))
			if !hidden || name == "" || err != nil || !sealed(dir) && !wholeMeta(meta, name) {
				continue
			}
			d := Damage{Account: names.name(a.Name()), Stream: name, Found: now.UTC(), Lost: []SeqRange{}, Original: filepath.Join(streams, name),
				What: "its directory was named like that of a deleted stream, and was named back"}
			if _, err := os.Lstat(d.Original); err == nil {
				// In the account's own directory: the quarantine may be on another volume.
				d.Original = filepath.Join(root, a.Name(), setAsidePrefix+now.UTC().Format(quarantineTime)+"-"+name)
				d.What = "a second directory of the stream was set aside, which the server would have deleted"
			}
			report := filepath.Join(quarantineDir(storeDir, streamKey{a.Name(), name}, now), "hidden"+damageReport)
			err = errors.Join(writeReport(report, &d), os.Rename(dir, d.Original), syncDir(streams))
			if errs = append(errs, err); err == nil {
				found = append(found, d)
			}
		}
	}
	return found, errors.Join(errs...)
}
