// SPDX-License-Identifier: Apache-2.0

package engine

import (
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

// openBlock reads a block of the stream in a directory, whatever form it is kept in. It is
// the only place where blocks in force are read. ring is nil in a stream that is not
// encrypted.
func openBlock(dir string, key streamKey, index int, ring *keyring) (*blockReader, error) {
	return readBlock(blockPath(dir, index), keyPath(filepath.Join(dir, messagesDir), index), key, index, ring)
}

func readBlock(block, keyFile string, key streamKey, index int, ring *keyring) (*blockReader, error) {
	raw, err := os.ReadFile(block)
	if err != nil {
		return nil, err
	}
	own, ok := ring.openKeyFile(keyFile, key.account, blockName(key.stream, index))
	if !ok && ring != nil && len(raw) > 0 {
		return lostBlock(key.stream, index, raw)
	}
	return decodeBlock(key.stream, index, raw, own)
}

// sealed reports whether a stream or consumer has a key of its own.
func sealed(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, server.JetStreamMetaFileKey))
	return err == nil
}

func blockPath(dir string, index int) string {
	return blockFile(filepath.Join(dir, messagesDir), index)
}

// storedBlocks are the numbers of the blocks in a directory, in order, and when the
// newest was written. A directory that is not there has none.
func storedBlocks(dir string) (blocks []int, newest time.Time, err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, newest, nil
	}
	if err != nil {
		return nil, newest, err
	}
	for _, e := range entries {
		number, ok := strings.CutSuffix(e.Name(), blockSuffix)
		n, err := strconv.Atoi(number)
		if !ok || err != nil {
			continue
		}
		blocks = append(blocks, n)
		if info, err := e.Info(); err == nil && info.ModTime().After(newest) {
			newest = info.ModTime()
		}
	}
	slices.Sort(blocks)
	return blocks, newest, nil
}

// staleBytes are the bytes in the blocks of a stream that the server is about to read.
func staleBytes(storeDir string, key streamKey, ring *keyring) int64 {
	s := inspection{dir: filepath.Join(storeDir, server.JetStreamStoreDir, key.account, streamsDir, key.stream)}
	if info, err := os.Stat(s.indexPath()); err == nil {
		s.indexed = info.ModTime()
	}
	// What can't be read is told when it is looked at.
	s.blocks, s.newest, _ = storedBlocks(filepath.Join(s.dir, messagesDir))
	if !s.stale() || ring == nil && sealed(s.dir) {
		return 0
	}
	return s.bytes()
}

func sizeOf(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

// inspection is a stream that is looked at, block after block.
type inspection struct {
	storeDir, dir string
	key           streamKey
	account       string // its name
	blocks        []int  // numbers, in order
	now           time.Time
	// keys open the stream; nil when it is not encrypted. It is sealed when it is, and
	// there are none.
	keys   *keyring
	sealed bool

	// index is what the index says is in the blocks, written when indexed says; nil
	// when there is none that can be read.
	index   map[int]indexedBlock
	indexed time.Time
	newest  time.Time // when the newest block was written
	// slack is how much older than the index a block has to be for what the index says
	// of it: the server looks first, and writes the index a little later.
	slack time.Duration
	known known
	// clean is true when the node was stopped cleanly and nobody has written since:
	// index and known say exactly what is to be there.
	clean bool
	// open are damages of this stream that were found, and not mended so far, by block.
	open map[int]Damage

	last, end uint64 // sequences of the blocks so far: of messages, and of any record
}

// inspect prepares to look at a stream; ring is what opens it where it is encrypted.
func inspect(storeDir string, key streamKey, names Names, ring *keyring, now time.Time) (*inspection, error) {
	s := &inspection{storeDir: storeDir, key: key, account: names.name(key.account), now: now, open: map[int]Damage{}}
	s.dir = filepath.Join(storeDir, server.JetStreamStoreDir, key.account, streamsDir, key.stream)
	encrypted, err := isEncrypted(s.dir)
	if err != nil {
		return nil, err
	}
	if encrypted {
		s.keys, s.sealed = ring, ring == nil
	}
	// The index before the blocks: a live server may replace it, and remove blocks.
	if info, err := os.Stat(s.indexPath()); err == nil {
		s.indexed = info.ModTime()
		if own, ok := s.metaKey(); ok {
			s.index, _ = indexedBlocks(s.indexPath(), key.stream, own)
		}
	}
	if s.blocks, s.newest, err = storedBlocks(filepath.Join(s.dir, messagesDir)); err != nil {
		return nil, err
	}
	var readable bool
	if s.known, readable = readKnown(storeDir, key); readable {
		s.clean = s.known.of(stopMark(storeDir), s.indexed)
	}
	for _, d := range damagesOf(storeDir, key) {
		if d.Open {
			s.open[d.Block] = d
		}
	}
	return s, nil
}

// metaKey is the key of the stream, nil where it is not encrypted; false when it does not
// open.
func (s *inspection) metaKey() (*objectKey, bool) {
	if s.keys == nil {
		return nil, !s.sealed
	}
	return s.keys.metaKey(s.dir, s.key.account, s.key.stream)
}

func (s *inspection) indexPath() string { return filepath.Join(s.dir, messagesDir, indexName) }

// bytes are those in the blocks.
func (s *inspection) bytes() (sum int64) {
	for _, index := range s.blocks {
		sum += sizeOf(s.path(index))
	}
	return sum
}

func (s *inspection) path(index int) string { return blockPath(s.dir, index) }

func (s *inspection) read(index int) (*blockReader, error) {
	return openBlock(s.dir, s.key, index, s.keys)
}

// stale reports whether the index is older than a block, or gone: then the server reads
// the blocks at its start.
func (s *inspection) stale() bool { return len(s.blocks) > 0 && !s.newest.Before(s.indexed) }

// believed reports whether what the index says of a block is what has to be in it.
func (s *inspection) believed(index int) bool {
	if _, known := s.open[index]; known {
		return false // the index may count as removed what the server has cut off
	}
	if _, ok := s.index[index]; !ok || s.clean {
		return ok
	}
	info, err := os.Stat(s.path(index))
	return err == nil && info.ModTime().Add(s.slack).Before(s.indexed)
}

// repair is what is wrong with a block, and what is to be done about it.
type repair struct {
	index  int
	damage Damage
	found  []byte // what is in the file; nil when there is none that can be read
	whole  []byte // the records that are to be in it
	// unreadable is true for a file that is there, and that the disk does not give back.
	unreadable bool
	// remind is true when nothing but a record of it keeps the next start from missing
	// the block again.
	remind bool
}

// judge returns what is wrong with a block; nil when nothing is, or only the end of a
// message that was being written, which nobody was told is stored.
func (s *inspection) judge(i int, r *blockReader) (*repair, scanned) {
	index := s.blocks[i]
	r.collect = s.believed(index)
	sc := r.scan(s.last)
	holes := sc.holes
	if n := len(holes); n > 0 && i == len(s.blocks)-1 && r.torn(holes[n-1]) {
		holes = holes[:n-1]
	}
	var lacks []SeqRange
	if r.collect {
		lacks = s.index[index].lacks(r.seqs)
	}
	if len(lacks) > 0 {
		holes = sc.holes // where something is lost at the end it was no message that was being written
	}
	if len(holes) == 0 && len(lacks) == 0 && !r.off {
		return nil, sc
	}
	out := &repair{index: index, found: r.raw, damage: Damage{Kept: sc.messages, Lost: []SeqRange{}}}
	at := 0
	for _, h := range holes {
		if h.before == 0 {
			h.before = s.firstBehind(i)
		}
		if lost, ok := h.lost(); ok && !r.collect {
			out.damage.Lost = append(out.damage.Lost, lost)
		}
		out.whole = append(out.whole, r.buf[at:h.from]...)
		at = h.to
	}
	out.whole = append(out.whole, r.buf[at:]...)
	out.damage.Lost = append(out.damage.Lost, lacks...)
	return out, sc
}

// pass takes over what was seen in a block.
func (s *inspection) pass(sc scanned, r *repair) {
	s.last, s.end = max(s.last, sc.last), max(s.end, sc.known)
	if r == nil {
		return
	}
	for _, lost := range r.damage.Lost {
		s.end = max(s.end, lost.From, lost.To)
	}
}

// firstBehind is the first sequence behind a block; 0 when there is none.
func (s *inspection) firstBehind(i int) uint64 {
	for _, index := range s.blocks[i+1:] {
		r, err := s.read(index)
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

// unreadable is a block that the disk does not give back.
func (s *inspection) unreadable(i int, cause error) *repair {
	index := s.blocks[i]
	r := &repair{index: index, unreadable: true, damage: Damage{What: fmt.Sprintf("block %d can't be read: %v", index, bare(cause)), Lost: []SeqRange{}}}
	behind := s.firstBehind(i)
	switch {
	case s.believed(index):
		r.damage.Lost = append(r.damage.Lost, s.index[index].lacks(nil)...)
	case behind > s.last+1:
		r.damage.Lost = append(r.damage.Lost, SeqRange{s.last + 1, behind - 1})
	case behind == 0:
		r.damage.Lost = append(r.damage.Lost, SeqRange{From: s.last + 1})
	}
	return r
}

// bare is the cause of an error without the path, which says nothing to people.
func bare(err error) error {
	if p := (*fs.PathError)(nil); errors.As(err, &p) {
		return p.Err
	}
	return err
}
