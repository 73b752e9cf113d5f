// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// Damage is a block of messages that could not be read whole. What could is served;
// the block as it was is kept.
type Damage struct {
	Account string    `json:"account"`
	Stream  string    `json:"stream"`
	Found   time.Time `json:"found"`
	// Lost are the sequences that are gone. A range may hold some that had been removed
	// before: nobody can tell any more.
	Lost []SeqRange `json:"lost"`
	// Kept is how many messages of the block are still served.
	Kept int `json:"kept"`
	// Original is the block as it was found; empty when a piece of the stream was not
	// there at all.
	Original string `json:"original,omitempty"`

	report string // where it is written down
}

// String says what was lost, in words.
func (d Damage) String() string {
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
	messagesDir  = "msgs"
	blockSuffix  = ".blk"
	indexName    = "index.db"
	quarantine   = "quarantine"
	damageReport = ".json"
)

// mendBlocks looks for damage in the blocks of a stream before the server does: at the
// first record that is not whole the server cuts a block off, and with it every message
// behind. Here only the broken record goes, and the block as it was is kept. A stream
// whose index is newer than its blocks is left alone: the server does not read them.
func mendBlocks(storeDir string, key streamKey, names Names, now time.Time) ([]Damage, error) {
	dir := filepath.Join(storeDir, server.JetStreamStoreDir, key.account, streamsDir, key.stream)
	blocks, err := staleBlocks(filepath.Join(dir, messagesDir))
	if err != nil || len(blocks) == 0 {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(dir, server.JetStreamMetaFileKey)); err == nil {
		return nil, nil // encrypted: nothing can be seen from outside
	}
	var found []Damage
	m := mending{storeDir: storeDir, dir: dir, stream: key.stream, now: now}
	for i, index := range blocks {
		m.index, m.following = index, blocks[i+1:]
		d, err := m.run()
		if err != nil {
			return found, fmt.Errorf("mend %s: %w", m.path(index), err)
		}
		if d != nil {
			found = append(found, *d)
		}
	}
	if end, ok := indexedEnd(filepath.Join(dir, messagesDir, indexName), key.stream); ok && end > m.known && !endUnknown(found) {
		found = append(found, Damage{Found: now.UTC(), Lost: []SeqRange{{m.known + 1, end}}, report: m.place("end")})
	}
	for i := range found {
		found[i].Account, found[i].Stream = names.name(key.account), key.stream
		if err := found[i].keep(); err != nil {
			return found, err
		}
	}
	return found, nil
}

// endUnknown reports whether what was found reaches to the end of the stream already.
func endUnknown(found []Damage) bool {
	return len(found) > 0 && slices.ContainsFunc(found[len(found)-1].Lost, func(r SeqRange) bool { return r.To == 0 })
}

// staleBlocks are the numbers of the blocks, when the index is older than one of them
// or gone.
func staleBlocks(dir string) ([]int, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var indexed time.Time
	if info, err := os.Stat(filepath.Join(dir, indexName)); err == nil {
		indexed = info.ModTime()
	}
	stale := false
	var blocks []int
	for _, e := range entries {
		number, ok := strings.CutSuffix(e.Name(), blockSuffix)
		n, err := strconv.Atoi(number)
		if !ok || err != nil {
			continue
		}
		blocks = append(blocks, n)
		if info, err := e.Info(); err == nil && !info.ModTime().Before(indexed) {
			stale = true
		}
	}
	if !stale {
		return nil, nil
	}
	slices.Sort(blocks)
	return blocks, nil
}

// mending is a stream, block after block.
type mending struct {
	storeDir, dir, stream string
	index                 int
	following             []int  // the blocks behind this one
	last, known           uint64 // sequences of the blocks before, see scanned
	now                   time.Time
}

func (m *mending) path(index int) string {
	return filepath.Join(m.dir, messagesDir, strconv.Itoa(index)+blockSuffix)
}

func (m *mending) read(index int) (*blockReader, error) {
	buf, err := os.ReadFile(m.path(index))
	if err != nil {
		return nil, err
	}
	return newBlockReader(m.stream, index, buf)
}

// run returns what was damaged; nil when nothing was, or only the end of a message that
// was being written, which nobody was told is stored.
func (m *mending) run() (*Damage, error) {
	r, err := m.read(m.index)
	if err != nil || bytes.HasPrefix(r.buf, []byte(compressed)) {
		return nil, err
	}
	found := r.scan(m.last)
	holes := found.holes
	m.last, m.known = found.last, max(m.known, found.known)
	if n := len(holes); n > 0 && len(m.following) == 0 && r.torn(holes[n-1]) {
		holes = holes[:n-1]
	}
	if len(holes) == 0 {
		return nil, nil
	}
	d := &Damage{Found: m.now.UTC(), Kept: found.messages, Lost: []SeqRange{}}
	var whole []byte
	at := 0
	for _, h := range holes {
		if h.before == 0 {
			h.before = m.firstBehind()
		}
		if lost, ok := h.lost(); ok {
			d.Lost = append(d.Lost, lost)
			m.known = max(m.known, lost.To)
		}
		whole = append(whole, r.buf[at:h.from]...)
		at = h.to
	}
	whole = append(whole, r.buf[at:]...)
	if err := m.setAside(d, r.buf); err != nil {
		return nil, err
	}
	if err := writeSynced(m.path(m.index), whole); err != nil {
		return nil, err
	}
	if len(m.following) == 0 && at == len(r.buf) {
		// The last checksum is another now: the server sees that its index is old, and
		// takes from it only how far the stream went.
		return d, nil
	}
	// The index counts what is gone, and would be believed.
	if err := os.Remove(filepath.Join(m.dir, messagesDir, indexName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return d, nil
}

// firstBehind is the first sequence of the blocks behind this one; 0 when there is none.
func (m *mending) firstBehind() uint64 {
	for _, index := range m.following {
		r, err := m.read(index)
		if err != nil {
			continue
		}
		for at := 0; at < len(r.buf); {
			rec, ok := r.at(at)
			if !ok {
				break
			}
			if rec.message {
				return rec.seq
			}
			at += rec.size
		}
	}
	return 0
}

// place is a file in the quarantine that belongs to the stream.
func (m *mending) place(name string) string {
	account := filepath.Base(filepath.Dir(filepath.Dir(m.dir)))
	return filepath.Join(m.storeDir, quarantine, m.now.UTC().Format("20060102T150405Z"), account, m.stream, name)
}

// setAside writes the block as it was into the quarantine.
func (m *mending) setAside(d *Damage, buf []byte) error {
	d.Original = m.place(strconv.Itoa(m.index) + blockSuffix)
	d.report = d.Original
	if err := os.MkdirAll(filepath.Dir(d.Original), 0o700); err != nil {
		return err
	}
	return writeSynced(d.Original, buf)
}

// keep writes down what was found beside the block.
func (d Damage) keep() error {
	text, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		return fmt.Errorf("write down what is damaged: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(d.report), 0o700); err != nil {
		return fmt.Errorf("write down what is damaged: %w", err)
	}
	return writeSynced(d.report+damageReport, append(text, '\n'))
}

// Damages lists the damage that was found, oldest first, until somebody removes it
// from the quarantine of the store.
func Damages(storeDir string) []Damage {
	var found []Damage
	// What can't be read is nothing to stop for: the log has told of it.
	_ = filepath.WalkDir(filepath.Join(storeDir, quarantine), func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || filepath.Ext(path) != damageReport {
			return nil //nolint:nilerr // see above
		}
		text, err := os.ReadFile(path)
		var d Damage
		if err == nil && json.Unmarshal(text, &d) == nil {
			found = append(found, d)
		}
		return nil
	})
	slices.SortStableFunc(found, func(a, b Damage) int { return a.Found.Compare(b.Found) })
	return found
}
