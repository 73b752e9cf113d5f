// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"encoding/binary"

	"github.com/nats-io/nats-server/v2/server/avl"
)

// indexedBlock is what a stream's index says is in a block.
type indexedBlock struct {
	first, last uint64           // sequences; last is before first when nothing is
	removed     *avl.SequenceSet // nil when nothing was, in between
}

// cursor reads the variable-length numbers of an index.
type cursor struct {
	buf    []byte
	broken bool
}

func (c *cursor) skip(n int) {
	if c.broken = c.broken || n < 0 || n > len(c.buf); !c.broken {
		c.buf = c.buf[n:]
	}
}

func (c *cursor) uint() uint64 {
	v, n := binary.Uvarint(c.buf)
	c.broken = c.broken || n <= 0
	c.skip(n)
	return v
}

func (c *cursor) int() {
	_, n := binary.Varint(c.buf)
	c.broken = c.broken || n <= 0
	c.skip(n)
}

// indexedBlocks returns what the index of a stream says is in its blocks, by their
// numbers; false when there is no index that can be read. What comes in an index is
// pinned by a test, as nats-server 2.15.3 writes it: the beginning, subjects with where
// they are, then the blocks.
func indexedBlocks(path, stream string, key *objectKey) (map[int]indexedBlock, bool) {
	buf, ok := readIndex(path, stream, key)
	if !ok {
		return nil, false
	}
	version := buf[1]
	c := &cursor{buf: buf[2:]}
	for range 3 { // messages, bytes, first sequence
		c.uint()
	}
	c.int() // its time
	c.uint()
	c.int() // last sequence and its time
	for n := c.uint(); n > 0 && !c.broken; n-- {
		c.subject(version)
	}
	blocks := map[int]indexedBlock{}
	for n := c.uint(); n > 0 && !c.broken; n-- {
		index, b := c.block(version)
		blocks[index] = b
	}
	return blocks, !c.broken
}

func (c *cursor) subject(version byte) {
	size := c.uint()
	if size == 0 {
		return
	}
	c.skip(int(min(size, uint64(len(c.buf))+1)))
	total := c.uint()
	c.uint() // first block
	if total > 1 || version >= 4 {
		c.uint() // last block
	}
}

func (c *cursor) block(version byte) (int, indexedBlock) {
	var b indexedBlock
	index := int(c.uint())
	c.uint() // bytes
	b.first = c.uint()
	c.int() // its time
	b.last = c.uint()
	c.int() // its time
	removed := c.uint()
	if version >= 2 {
		c.uint() // messages with a time to live
	}
	if version >= 3 {
		c.uint() // schedules
	}
	if removed > 0 && !c.broken {
		set, n, err := avl.Decode(c.buf)
		if err != nil {
			c.broken = true
			return index, b
		}
		b.removed = set
		c.skip(n)
	}
	return index, b
}

// lacks returns what is to be in a block and is not. seqs are the sequences that are,
// in order.
func (b indexedBlock) lacks(seqs []uint64) []SeqRange {
	if b.first == 0 || b.last < b.first {
		return nil
	}
	var out []SeqRange
	next := b.first
	goneUpTo := func(to uint64) {
		for ; next <= to; next++ {
			n := len(out)
			switch {
			case b.removed != nil && b.removed.Exists(next):
			case n > 0 && out[n-1].To == next-1:
				out[n-1].To = next
			default:
				out = append(out, SeqRange{next, next})
			}
		}
	}
	for _, seq := range seqs {
		if seq > b.last {
			break
		}
		if seq >= next {
			goneUpTo(seq - 1)
			next = seq + 1
		}
	}
	goneUpTo(b.last)
	return out
}
