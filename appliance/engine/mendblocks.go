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

const (
	messagesDir = "msgs"
	blockSuffix = ".blk"
	indexName   = "index.db"
)

// mendBlocks looks for damage in the blocks of a stream before the server does: at the
// first record that is not whole the server cuts a block off, and with it every message
// behind. Here only the broken record goes, and the block as it was is kept. A stream
// whose index is newer than its blocks is left alone: the server does not read them. In an
// encrypted store every block has a key, too; keys is nil in one that is not.
func mendBlocks(storeDir string, key streamKey, names Names, keys *keyring, now time.Time) ([]Damage, error) {
	dir := filepath.Join(storeDir, server.JetStreamStoreDir, key.account, streamsDir, key.stream)
	blocks, err := staleBlocks(filepath.Join(dir, messagesDir))
	current := len(blocks) == 0
	if err == nil && current {
		blocks, err = keys.withoutKeys(filepath.Join(dir, messagesDir), key)
	}
	if err != nil || len(blocks) == 0 {
		return nil, err
	}
	m := mending{storeDir: storeDir, dir: dir, key: key, account: names.name(key.account), keys: keys, blocks: blocks, current: current, now: now}
	found, err := m.run()
	if err != nil {
		return nil, fmt.Errorf("mend stream %s/%s in %s: %w", m.account, key.stream, dir, err)
	}
	return found, nil
}

// staleBlocks are the numbers of the blocks, when the index is older than one of them
// or gone.
func staleBlocks(dir string) ([]int, error) {
	blocks, stale, err := blocksIn(dir)
	if !stale {
		return nil, err
	}
	return blocks, err
}

// blocksIn are the numbers of the blocks, in order, and whether one of them is newer than
// the index.
func blocksIn(dir string) (blocks []int, stale bool, err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	var indexed time.Time
	if info, err := os.Stat(filepath.Join(dir, indexName)); err == nil {
		indexed = info.ModTime()
	}
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
	slices.Sort(blocks)
	return blocks, stale, nil
}

// mending is a stream, block after block.
type mending struct {
	storeDir, dir string
	key           streamKey
	account       string   // its name
	keys          *keyring // nil: not encrypted
	blocks        []int    // numbers, in order
	current       bool     // the index is newer than all of them
	now           time.Time

	last, known uint64 // sequences of the blocks read so far, see scanned
}

// repair is what is to be done about a block.
type repair struct {
	index  int
	damage Damage
	found  []byte // what is in the file
	whole  []byte // the records that are to be in it
}

func (m *mending) path(index int) string {
	return blockPath(filepath.Join(m.dir, messagesDir), index)
}

// read reads the records of a block, whatever form they are kept in.
func (m *mending) read(index int) (*blockReader, error) {
	raw, err := os.ReadFile(m.path(index))
	if err != nil {
		return nil, err
	}
	key, ok := m.blockKey(index)
	if !ok && len(raw) > 0 {
		return lostBlock(m.key.stream, index, raw)
	}
	return openBlock(m.key.stream, index, raw, key)
}

// run finds out everything before it changes anything.
func (m *mending) run() ([]Damage, error) {
	var repairs []repair
	for i := range m.blocks {
		r, err := m.look(i)
		if err != nil {
			return nil, err
		}
		if r != nil {
			repairs = append(repairs, *r)
		}
	}
	end, indexed := m.indexedEnd()
	switch {
	case indexed && m.current && toTheEnd(repairs):
		boundLost(repairs, end)
	case indexed && end > m.known && !toTheEnd(repairs):
		r, err := m.cutOff(end)
		if err != nil {
			return nil, err
		}
		repairs = append(repairs, r)
	}
	if len(repairs) == 0 {
		return nil, nil
	}
	return m.mend(repairs, max(m.known, end))
}

// mend writes the blocks anew, and what was found of each before that. The last block
// comes first: it remembers how far the stream went, which only the index knows
// otherwise. Then the index goes, for it counts what is gone, and would be believed. A
// start that is killed in between goes on with the next.
func (m *mending) mend(repairs []repair, end uint64) ([]Damage, error) {
	found := make([]Damage, len(repairs))
	for i, r := range repairs {
		if err := m.setAside(&r); err != nil {
			return nil, err
		}
		found[i] = r.damage
	}
	last := m.blocks[len(m.blocks)-1]
	if err := m.mendLast(last, repairs, end); err != nil {
		return nil, err
	}
	if err := os.Remove(filepath.Join(m.dir, messagesDir, indexName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, r := range repairs {
		if r.index == last {
			continue
		}
		if err := m.write(r.index, r.whole); err != nil {
			return nil, err
		}
	}
	return found, nil
}

func (m *mending) mendLast(last int, repairs []repair, end uint64) error {
	r, err := m.read(last)
	if err != nil {
		return err
	}
	before, cut := r.buf, r.cut
	for _, rep := range repairs {
		if rep.index == last {
			r.buf, r.cut = rep.whole, false
		}
	}
	r.buf = r.reaching(end)
	if bytes.Equal(r.buf, before) && !cut {
		return nil
	}
	return m.write(last, r.buf)
}

// look returns what is damaged in a block; nil when nothing is, or only the end of a
// message that was being written, which nobody was told is stored.
func (m *mending) look(i int) (*repair, error) {
	r, err := m.read(m.blocks[i])
	if err != nil {
		return nil, err
	}
	if _, ok := m.blockKey(m.blocks[i]); !ok && len(r.raw) == 0 {
		// A crash came between the two files. The server would not recover the stream.
		return nil, m.write(m.blocks[i], nil)
	}
	s := r.scan(m.last)
	m.last, m.known = s.last, max(m.known, s.known)
	holes := s.holes
	if n := len(holes); n > 0 && i == len(m.blocks)-1 && r.torn(holes[n-1]) {
		holes = holes[:n-1]
	}
	if len(holes) == 0 && !r.off {
		return nil, nil
	}
	out := &repair{index: m.blocks[i], found: r.raw}
	out.damage = Damage{Kept: s.messages, Lost: []SeqRange{}}
	at := 0
	for _, h := range holes {
		if h.before == 0 {
			h.before = m.firstBehind(i)
		}
		if lost, ok := h.lost(); ok {
			out.damage.Lost = append(out.damage.Lost, lost)
			m.known = max(m.known, lost.From, lost.To)
		}
		out.whole = append(out.whole, r.buf[at:h.from]...)
		at = h.to
	}
	out.whole = append(out.whole, r.buf[at:]...)
	return out, nil
}

// cutOff is the damage of a stream that once went further than its blocks do.
func (m *mending) cutOff(end uint64) (repair, error) {
	last := m.blocks[len(m.blocks)-1]
	r, err := m.read(last)
	if err != nil {
		return repair{}, err
	}
	whole := r.buf
	s := r.scan(m.last)
	if n := len(s.holes); n > 0 {
		whole = whole[:s.holes[n-1].from] // what the server would cut off
	}
	return repair{index: last, found: r.raw, whole: whole, damage: Damage{Kept: s.messages, Lost: []SeqRange{{m.known + 1, end}}}}, nil
}

// toTheEnd reports whether what is lost reaches to the end of the stream already, as far
// as that ever was.
func toTheEnd(repairs []repair) bool {
	return len(repairs) > 0 && slices.ContainsFunc(repairs[len(repairs)-1].damage.Lost, func(r SeqRange) bool { return r.To == 0 })
}

// boundLost puts the end of the stream to what is lost up to it.
func boundLost(repairs []repair, end uint64) {
	lost := repairs[len(repairs)-1].damage.Lost
	if l := &lost[len(lost)-1]; l.To == 0 && end >= l.From {
		l.To = end
	}
}

// firstBehind is the first sequence behind a block; 0 when there is none.
func (m *mending) firstBehind(i int) uint64 {
	for _, index := range m.blocks[i+1:] {
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

// setAside writes the block as it was into the quarantine, and beside it what is wrong
// with it.
func (m *mending) setAside(r *repair) error {
	path := filepath.Join(m.storeDir, quarantine, m.now.UTC().Format(quarantineTime), m.key.account, m.key.stream, strconv.Itoa(r.index)+blockSuffix)
	r.damage.Account, r.damage.Stream, r.damage.Found, r.damage.Original = m.account, m.key.stream, m.now.UTC(), path
	text, err := json.MarshalIndent(r.damage, "", "  ")
	if err != nil {
		return fmt.Errorf("write down what is damaged: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("make the quarantine: %w", err)
	}
	// Without its key nobody could read it.
	if key, err := os.ReadFile(keyPath(filepath.Join(m.dir, messagesDir), r.index)); err == nil {
		if err := writeSynced(keyPath(filepath.Dir(path), r.index), key); err != nil {
			return err
		}
	}
	return errors.Join(writeSynced(path, r.found), writeSynced(path+damageReport, append(text, '\n')))
}
