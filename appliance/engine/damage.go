// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Damage is a block of messages that could not be read whole, or another part of a
// stream that was lost. What could be read is served; the block as it was is kept.
type Damage struct {
	Account string    `json:"account"`
	Stream  string    `json:"stream"`
	Found   time.Time `json:"found"`
	// What is damaged, where it is not the messages of a block.
	What string `json:"what,omitempty"`
	// Block is the number of the block; 0 where it is none.
	Block int `json:"block,omitempty"`
	// Open is true for a block that was found damaged while the node ran, as long as it
	// is not mended: when the server reads it, it cuts it off.
	Open bool `json:"open,omitempty"`
	// Lost are the sequences that are gone. A range may hold some that had been removed
	// before: nobody can tell any more.
	Lost []SeqRange `json:"lost"`
	// Kept is how many messages of the block are still served.
	Kept int `json:"kept"`
	// Original is the block as it was found.
	Original string `json:"original,omitempty"`
	// Settings: what is lost are the settings of the stream, and no message.
	Settings bool `json:"settings,omitempty"`
	// Report is the file that this was read from.
	Report string `json:"-"`
}

// String says what was lost, in words.
func (d Damage) String() string {
	if d.Settings {
		return "lost: the settings of the stream; create it again, and it has its messages"
	}
	if d.What != "" {
		return d.What + "; " + d.lost()
	}
	return d.lost()
}

func (d Damage) lost() string {
	if len(d.Lost) == 0 {
		return "no message lost"
	}
	ranges := make([]string, len(d.Lost))
	for i, r := range d.Lost {
		switch {
		case r.To == 0:
			ranges[i] = fmt.Sprintf("%d and what came after it", r.From)
		case r.From == r.To:
			ranges[i] = strconv.FormatUint(r.From, 10)
		default:
			ranges[i] = fmt.Sprintf("%d to %d", r.From, r.To)
		}
	}
	return "lost: " + strings.Join(ranges, ", ")
}

// SeqRange is a range of sequences, both ends in it. To is 0 where the end of the
// stream was lost, and how far it went is not known.
type SeqRange struct {
	From uint64 `json:"from"`
	To   uint64 `json:"to"`
}

const (
	quarantine     = "quarantine"
	quarantineTime = "20060102T150405Z"
	damageReport   = ".json"
)

// Damages lists the damage that was found, oldest first, until somebody removes it
// from the quarantine of the store.
func Damages(storeDir string) []Damage { return damagesIn(filepath.Join(storeDir, quarantine)) }

// damagesOf lists those of one stream.
func damagesOf(storeDir string, key streamKey) []Damage {
	var found []Damage
	times, _ := os.ReadDir(filepath.Join(storeDir, quarantine))
	for _, t := range times {
		found = append(found, damagesIn(filepath.Join(storeDir, quarantine, t.Name(), key.account, key.stream))...)
	}
	return found
}

func damagesIn(dir string) []Damage {
	var found []Damage
	// What can't be read is nothing to stop for: the log has told of it.
	_ = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || filepath.Ext(path) != damageReport {
			return nil //nolint:nilerr // see above
		}
		text, err := os.ReadFile(path)
		var d Damage
		if err == nil && json.Unmarshal(text, &d) == nil && d.Stream != "" {
			d.Report = path
			found = append(found, d)
		}
		return nil
	})
	slices.SortStableFunc(found, func(a, b Damage) int { return a.Found.Compare(b.Found) })
	return found
}
