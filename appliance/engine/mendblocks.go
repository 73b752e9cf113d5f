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

// mending is a stream, block after block.
type mending struct {
	storeDir, dir string
	key           streamKey
	account       string // its name
	blocks        []int  // numbers, in order; none when the server will not read them
	now           time.Time
	check         *checking

	last, known uint64 // sequences of the blocks read so far, see scanned
	hidden      bool   // a block is compressed: what is in it is not known
}

func newMending(storeDir string, key streamKey, names Names, now time.Time) mending {
	return mending{
		storeDir: storeDir, dir: filepath.Join(storeDir, server.JetStreamStoreDir, key.account, streamsDir, key.stream),
		key: key, account: names.name(key.account), now: now, check: &checking{},
	}
}

// find finds the blocks that are to be looked at, and returns how much is in them. A
// stream whose index is newer than its blocks is left alone: the server does not read
// them.
func (m *mending) find() (size int64, err error) {
	if m.blocks, size, err = staleBlocks(filepath.Join(m.dir, messagesDir)); err != nil {
		return 0, m.failed(err)
	}
	if _, err := os.Stat(filepath.Join(m.dir, server.JetStreamMetaFileKey)); err == nil {
		m.blocks, size = nil, 0 // encrypted: nothing can be seen from outside
	}
	return size, nil
}

func (m *mending) failed(err error) error {
	return fmt.Errorf("mend stream %s/%s in %s: %w", m.account, m.key.stream, m.dir, err)
}

// mendBlocks looks for damage in the blocks of a stream before the server does: at the
// first record that is not whole the server cuts a block off, and with it every message
// behind. Here only the broken record goes, and the block as it was is kept.
func (m *mending) mendBlocks() ([]Damage, error) {
	if len(m.blocks) == 0 {
		return nil, nil
	}
	found, err := m.run()
	if err != nil {
		return nil, m.failed(err)
	}
	return found, nil
}

// staleBlocks are the numbers of the blocks, and their bytes, when the index is older
// than one of them or gone.
func staleBlocks(dir string) (blocks []int, size int64, err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	var indexed time.Time
	if info, err := os.Stat(filepath.Join(dir, indexName)); err == nil {
		indexed = info.ModTime()
	}
	stale := false
	for _, e := range entries {
		number, ok := strings.CutSuffix(e.Name(), blockSuffix)
		n, err := strconv.Atoi(number)
		if !ok || err != nil {
			continue
		}
		blocks = append(blocks, n)
		if info, err := e.Info(); err == nil {
			size += info.Size()
			stale = stale || !info.ModTime().Before(indexed)
		}
	}
	if !stale {
		return nil, 0, nil
	}
	slices.Sort(blocks)
	return blocks, size, nil
}

// repair is what is to be done about a block.
type repair struct {
	index  int
	damage Damage
	found  []byte // what is in the file
	whole  []byte // what is to be in it
}

func (m *mending) path(index int) string {
	return filepath.Join(m.dir, messagesDir, strconv.Itoa(index)+blockSuffix)
}

func (m *mending) read(index int) (*blockReader, error) {
	buf, err := os.ReadFile(m.path(index))
	if err != nil {
		return nil, err
	}
	return newBlockReader(m.key.stream, index, buf)
}

// run finds out everything before it changes anything.
func (m *mending) run() ([]Damage, error) {
	var repairs []repair
	ahead := readAhead(m.blocks, m.path)
	defer ahead.stop()
	for i := range m.blocks {
		buf, err := ahead.next()
		if err != nil {
			return nil, err
		}
		r, err := m.look(i, buf)
		if err != nil {
			return nil, err
		}
		m.check.done.Add(int64(len(buf)))
		if r != nil {
			repairs = append(repairs, *r)
			buf = nil // it is part of the repair
		}
		ahead.giveBack(buf)
	}
	index := filepath.Join(m.dir, messagesDir, indexName)
	end, indexed := indexedEnd(index, m.key.stream)
	if indexed && !m.hidden && end > m.known && !toTheEnd(repairs) {
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
		if err := writeSynced(m.path(r.index), r.whole); err != nil {
			return nil, err
		}
	}
	return found, nil
}

func (m *mending) mendLast(last int, repairs []repair, end uint64) error {
	r, err := m.read(last)
	if err != nil || bytes.HasPrefix(r.buf, []byte(compressed)) {
		return err
	}
	before := r.buf
	for _, rep := range repairs {
		if rep.index == last {
			r.buf = rep.whole
		}
	}
	if !m.hidden {
		r.buf = r.reaching(end)
	}
	if bytes.Equal(r.buf, before) {
		return nil
	}
	return writeSynced(m.path(last), r.buf)
}

// look returns what is damaged in a block; nil when nothing is, or only the end of a
// message that was being written, which nobody was told is stored.
func (m *mending) look(i int, buf []byte) (*repair, error) {
	r, err := newBlockReader(m.key.stream, m.blocks[i], buf)
	if err != nil {
		return nil, err
	}
	if bytes.HasPrefix(r.buf, []byte(compressed)) {
		m.hidden = true
		return nil, nil
	}
	s := r.scan(m.last)
	m.last, m.known = s.last, max(m.known, s.known)
	holes := s.holes
	if n := len(holes); n > 0 && i == len(m.blocks)-1 && r.torn(holes[n-1]) {
		holes = holes[:n-1]
	}
	if len(holes) == 0 {
		return nil, nil
	}
	out := &repair{index: m.blocks[i], found: r.buf}
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
	return repair{index: last, found: r.buf, whole: whole, damage: Damage{Kept: s.messages, Lost: []SeqRange{{m.known + 1, end}}}}, nil
}

// toTheEnd reports whether what is lost reaches to the end of the stream already, as far
// as that ever was.
func toTheEnd(repairs []repair) bool {
	return len(repairs) > 0 && slices.ContainsFunc(repairs[len(repairs)-1].damage.Lost, func(r SeqRange) bool { return r.To == 0 })
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
	path := filepath.Join(m.storeDir, quarantine, m.now.UTC().Format("20060102T150405Z"), m.key.account, m.key.stream, strconv.Itoa(r.index)+blockSuffix)
	r.damage.Account, r.damage.Stream, r.damage.Found, r.damage.Original = m.account, m.key.stream, m.now.UTC(), path
	text, err := json.MarshalIndent(r.damage, "", "  ")
	if err != nil {
		return fmt.Errorf("write down what is damaged: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("make the quarantine: %w", err)
	}
	return errors.Join(writeSynced(path, r.found), writeSynced(path+damageReport, append(text, '\n')))
}
