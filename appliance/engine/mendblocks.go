// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"
)

// mendBlocks looks for damage in the blocks of a stream before the server does: at the
// first record that is not whole the server cuts a block off, and with it every message
// behind. Here only the broken record goes, and the block as it was is kept. A stream
// whose index is newer than its blocks is left alone, as long as nothing is known to be
// wrong with it: the server does not read them. In an encrypted store every block has a
// key, too; ring opens it, nil where nothing is encrypted.
func mendBlocks(storeDir string, key streamKey, names Names, ring *keyring, now time.Time, c *checking) ([]Damage, error) {
	return mendStream(storeDir, key, names, ring, now, c, false)
}

// mendStream reads the blocks also where the index is newer, when all is set.
func mendStream(storeDir string, key streamKey, names Names, ring *keyring, now time.Time, c *checking, all bool) ([]Damage, error) {
	s, err := inspect(storeDir, key, names, ring, now)
	if err != nil || s.sealed {
		return nil, err
	}
	m := mending{inspection: s, check: c}
	m.gone = s.missing()
	if !all && !s.stale() && len(m.gone) == 0 && len(s.open) == 0 && !s.withoutKeys() && !m.damagedLately() {
		return nil, nil
	}
	if !s.stale() {
		c.total.Add(s.bytes()) // what is stale was counted before
	}
	found, err := m.run()
	if err != nil {
		return nil, fmt.Errorf("mend stream %s/%s in %s: %w", s.account, key.stream, s.dir, err)
	}
	return found, nil
}

// damagedLately looks into the blocks that the server reads at its start whatever the
// index says: those with messages that others may be duplicates of, and that with the
// last message, which may be of a batch that was cut short.
func (m *mending) damagedLately() bool {
	since := m.now.Add(-m.duplicateWindow())
	last := 0
	for index, b := range m.index {
		if b.first > 0 && b.first <= b.last {
			last = max(last, index)
		}
	}
	for i, index := range m.blocks {
		info, err := os.Stat(m.path(index))
		if index < last && (err != nil || info.ModTime().Before(since)) {
			m.last = max(m.last, m.index[index].last)
			continue
		}
		r, err := m.read(index)
		if err != nil {
			return true
		}
		damaged, s := m.judge(i, r)
		if damaged != nil {
			m.last = 0
			return true
		}
		m.last = max(m.last, s.last)
	}
	return false
}

// mending is a stream whose blocks are mended.
type mending struct {
	*inspection
	gone  []missing
	check *checking
}

// run finds out everything before it changes anything.
func (m *mending) run() ([]Damage, error) {
	var repairs []repair
	for i, index := range m.blocks {
		repairs = append(repairs, m.lostBefore(i, index)...)
		r, err := m.look(i)
		if err != nil {
			return nil, err
		}
		m.check.done.Add(sizeOf(m.path(index)))
		if r != nil {
			repairs = append(repairs, *r)
		}
	}
	repairs = append(repairs, m.lostBefore(len(m.blocks), -1)...)
	m.blocks = slices.DeleteFunc(m.blocks, func(index int) bool {
		return slices.ContainsFunc(repairs, func(r repair) bool { return r.unreadable && r.index == index })
	})
	end, indexed := m.indexedEnd()
	if !indexed && m.clean {
		end, indexed = m.known.Last, m.known.Last > 0
	}
	switch {
	case indexed && !m.stale() && toTheEnd(repairs):
		boundLost(repairs, end)
	case indexed && end > m.end && !toTheEnd(repairs) && len(m.blocks) > 0:
		r, err := m.cutOff(end)
		if err != nil {
			return nil, err
		}
		repairs = append(repairs, r)
	}
	if len(repairs) == 0 {
		return nil, m.closeOpen(nil)
	}
	return m.mend(repairs, max(m.end, end))
}

// lostBefore are the blocks that are gone and come before one that is there; those
// behind all of them for -1.
func (m *mending) lostBefore(i, index int) []repair {
	var out []repair
	for len(m.gone) > 0 && (index < 0 || m.gone[0].index < index) {
		r, ok := m.goneRepair(m.gone[0], i)
		if m.gone = m.gone[1:]; ok {
			m.pass(scanned{}, &r)
			out = append(out, r)
		}
	}
	return out
}

// mend writes the blocks anew, and what was found of each before that. The last block
// comes first: it remembers how far the stream went, which only the index knows
// otherwise. Then the index goes, for it counts what is gone, and would be believed. A
// start that is killed in between goes on with the next.
func (m *mending) mend(repairs []repair, end uint64) ([]Damage, error) {
	found := make([]Damage, len(repairs))
	for i := range repairs {
		if err := m.setAside(&repairs[i]); err != nil {
			return nil, err
		}
		if err := m.moveAside(&repairs[i]); err != nil {
			return nil, err
		}
		found[i] = repairs[i].damage
	}
	if len(m.blocks) == 0 {
		return found, nil // the index is all that knows how far the stream went
	}
	last := m.blocks[len(m.blocks)-1]
	if err := m.mendLast(last, repairs, end); err != nil {
		return nil, err
	}
	if err := os.Remove(m.indexPath()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, r := range repairs {
		if r.index == last || r.found == nil {
			continue
		}
		if err := m.write(r.index, r.whole); err != nil {
			return nil, err
		}
	}
	return found, m.closeOpen(repairs)
}

func (m *mending) mendLast(last int, repairs []repair, end uint64) error {
	r, err := m.read(last)
	if err != nil {
		return err
	}
	before, broken := r.buf, r.cut || r.off
	for _, rep := range repairs {
		if rep.index == last && rep.found != nil {
			r.buf, r.cut = rep.whole, false
		}
	}
	r.buf = r.reaching(end)
	for _, rep := range repairs {
		if rep.remind {
			r.buf = r.remembering(rep.damage.Lost)
		}
	}
	if bytes.Equal(r.buf, before) && !broken {
		return nil
	}
	return m.write(last, r.buf)
}

// remembering returns the block with a record that remembers that the first of some
// sequences is gone, so that the next start does not miss them again. Without a whole
// record before it, it has no place.
func (r *blockReader) remembering(lost []SeqRange) []byte {
	if len(lost) == 0 || r.remembers(lost[0]) {
		return r.buf
	}
	s := r.scan(0)
	if len(s.holes) > 0 || s.time == 0 {
		return r.buf
	}
	return append(slices.Clone(r.buf), r.memory(lost[0].From|tombstoneBit, s.time)...)
}

// look returns what is damaged in a block, or has been cut off since it was found.
func (m *mending) look(i int) (*repair, error) {
	index := m.blocks[i]
	r, err := m.read(index)
	if err != nil {
		out := m.unreadable(i, err)
		m.pass(scanned{}, out)
		return out, nil
	}
	if _, ok := m.blockKey(index); !ok && len(r.raw) == 0 {
		// A crash came between the two files. The server would not recover the stream.
		return nil, m.write(index, nil)
	}
	if then, ok := m.beforeTheCut(index, r.buf); ok {
		r = then
	}
	out, sc := m.judge(i, r)
	m.pass(sc, out)
	return out, nil
}

// beforeTheCut returns a block as it was when damage was found in it, where the server
// has read it since, and cut it off there.
func (m *mending) beforeTheCut(index int, now []byte) (*blockReader, bool) {
	d, ok := m.open[index]
	if !ok || d.Original == "" {
		return nil, false
	}
	then, err := m.kept(d.Original, index)
	return then, err == nil && len(then.buf) > len(now) && bytes.HasPrefix(then.buf, now)
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
	return repair{index: last, found: r.raw, whole: whole, damage: Damage{Kept: s.messages, Lost: []SeqRange{{m.end + 1, end}}}}, nil
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
