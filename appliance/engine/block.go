// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"slices"

	"github.com/minio/highwayhash"
)

// The records of a block of messages, as nats-server 2.15.3 writes them
// (server/filestore.go). That this reads what the server writes is pinned by tests:
//
//	length 4, sequence 8, time 8, length of the subject 2, subject,
//	[length of the headers 4, headers,] message, checksum 8
//
// The highest bit of the length tells of headers, the two highest of the sequence of
// a record that only remembers a removal.
const (
	recordHead   = 22
	recordSum    = 8
	recordMost   = 32 << 20 // bytes
	headersBit   = 1 << 31
	erasedBit    = 1 << 63
	tombstoneBit = 1 << 62
)

// record is a record that is whole.
type record struct {
	size    int
	seq     uint64
	message bool // and not only the memory of a removal
}

// blockReader reads the records of one block.
type blockReader struct {
	sum hash.Hash
	got [recordSum]byte // the latest sum
	buf []byte          // the records
	raw []byte          // what is in the file
	cut bool            // there was more than could be decrypted or decompressed
	off bool            // the head is damaged, and only the server needs it
	// collect has scan note the sequences of messages in seqs.
	collect bool
	seqs    []uint64
}

func newBlockReader(stream string, index int, buf []byte) (*blockReader, error) {
	key := sha256.Sum256(fmt.Appendf(nil, "%s-%d", stream, index))
	sum, err := highwayhash.New64(key[:])
	if err != nil {
		return nil, fmt.Errorf("read a block: %w", err)
	}
	return &blockReader{sum: sum, buf: buf}, nil
}

// at returns the record that begins at an offset; false when there is none that is
// whole.
func (r *blockReader) at(offset int) (record, bool) {
	rest := r.buf[offset:]
	if len(rest) < recordHead+recordSum {
		return record{}, false
	}
	length := binary.LittleEndian.Uint32(rest)
	size := int(length &^ headersBit)
	subject := int(binary.LittleEndian.Uint16(rest[20:]))
	body := subject // where what is hashed after the subject begins
	if length&headersBit != 0 {
		body += 4
	}
	if size > recordMost || size > len(rest) || body > size-recordHead-recordSum {
		return record{}, false
	}
	data := rest[recordHead : size-recordSum]
	r.sum.Reset()
	_, _ = r.sum.Write(rest[4:20]) // a hash takes everything
	_, _ = r.sum.Write(data[:subject])
	_, _ = r.sum.Write(data[body:])
	if !bytes.Equal(r.sum.Sum(r.got[:0]), rest[size-recordSum:size]) {
		return record{}, false
	}
	seq := binary.LittleEndian.Uint64(rest[4:])
	return record{size: size, seq: seq &^ (erasedBit | tombstoneBit), message: seq&(erasedBit|tombstoneBit) == 0 && seq != 0}, true
}

// reaching returns the block with a record at its end that only remembers that a
// sequence is gone, as the server writes one, when nothing in it goes as far. What is
// torn at the end makes place for it.
func (r *blockReader) reaching(seq uint64) []byte {
	s := r.scan(0)
	if s.known >= seq {
		return r.buf
	}
	whole := r.buf
	if n := len(s.holes); n > 0 && s.holes[n-1].to == len(whole) {
		whole = whole[:s.holes[n-1].from]
	}
	return append(slices.Clone(whole), r.memory(seq|erasedBit, s.time)...)
}

// memory is a record that only remembers that a sequence is gone.
func (r *blockReader) memory(seq, time uint64) []byte {
	rec := make([]byte, recordHead, recordHead+recordSum)
	binary.LittleEndian.PutUint32(rec, recordHead+recordSum)
	binary.LittleEndian.PutUint64(rec[4:], seq)
	binary.LittleEndian.PutUint64(rec[12:], time)
	r.sum.Reset()
	_, _ = r.sum.Write(rec[4:20]) // a hash takes everything
	return r.sum.Sum(rec)
}

// remembers reports whether the block remembers the removal of a sequence in a range.
func (r *blockReader) remembers(in SeqRange) bool {
	for at := 0; at < len(r.buf); {
		rec, ok := r.at(at)
		if !ok {
			return false
		}
		if !rec.message && rec.seq >= in.From && rec.seq <= in.To {
			return true
		}
		at += rec.size
	}
	return false
}

// hole is a place in a block where no record can be read.
type hole struct {
	from, to int // bytes
	// after is the last sequence before the hole, before the first one behind it; 0
	// where there is none.
	after, before uint64
	// first is the sequence that its first record claims; 0 when it claims none.
	first uint64
}

// scanned is what is in a block.
type scanned struct {
	holes    []hole
	messages int
	last     uint64 // sequence of a message
	known    uint64 // the highest sequence of any record, of removals too
	time     uint64 // of the last record, in nanoseconds since 1970
}

// scan finds everything in the block that is not a whole record. After each it goes on
// with the next record that is, which the server does not. before is the last sequence
// of the blocks before.
func (r *blockReader) scan(before uint64) scanned {
	s := scanned{last: before, known: before}
	r.seqs = r.seqs[:0]
	for at := 0; at < len(r.buf); {
		rec, ok := r.at(at)
		if ok {
			if rec.message {
				s.messages++
				s.last = max(s.last, rec.seq)
				if r.collect {
					r.seqs = append(r.seqs, rec.seq)
				}
			}
			s.known = max(s.known, rec.seq)
			s.time = binary.LittleEndian.Uint64(r.buf[at+12:])
			at += rec.size
			continue
		}
		h := hole{from: at, to: r.next(at, s.last), after: s.last}
		if h.to < len(r.buf) {
			rec, _ := r.at(h.to)
			h.before = rec.seq
		}
		r.claim(&h)
		s.holes = append(s.holes, h)
		at = h.to
	}
	if r.cut {
		r.extend(&s)
	}
	return s
}

// extend makes the hole at the end one of unknown length.
func (r *blockReader) extend(s *scanned) {
	end := len(r.buf)
	if n := len(s.holes); n > 0 && s.holes[n-1].to == end {
		s.holes[n-1].before = 0
		return
	}
	s.holes = append(s.holes, hole{from: end, to: end, after: s.last})
}

// claim takes from a broken record the sequence that it says it has, where that fits:
// of a hole that is one record it is the only one that is lost.
func (r *blockReader) claim(h *hole) {
	rest := r.buf[h.from:h.to]
	if len(rest) < recordHead {
		return
	}
	seq := binary.LittleEndian.Uint64(rest[4:])
	if seq&(erasedBit|tombstoneBit) != 0 || seq <= h.after || h.before > 0 && seq >= h.before {
		return
	}
	if h.after > 0 && seq > h.after+recordMost {
		return // more than there ever is between two messages that are stored
	}
	h.first = seq
	if int(binary.LittleEndian.Uint32(rest)&^headersBit) == len(rest) {
		h.before = seq + 1
	}
}

// lost are the sequences of a hole; none when it held the memory of a removal.
func (h hole) lost() (SeqRange, bool) {
	from := h.after + 1
	if h.first > 0 {
		from = h.first
	}
	switch {
	case h.before == 0:
		return SeqRange{From: from}, true
	case h.before > from:
		return SeqRange{From: from, To: h.before - 1}, true
	}
	return SeqRange{}, false
}

// next returns where the record after a broken one begins; the end when there is none.
// The broken one's own length is believed first: a message may hold what looks like a
// record, and must not become one.
func (r *blockReader) next(broken int, last uint64) int {
	if rest := r.buf[broken:]; len(rest) >= 4 {
		size := int(binary.LittleEndian.Uint32(rest) &^ headersBit)
		if size >= recordHead+recordSum && size < len(rest) && r.goesOn(broken+size, last) {
			return broken + size
		}
	}
	for at := broken + 1; at < len(r.buf); at++ {
		if r.goesOn(at, last) {
			return at
		}
	}
	return len(r.buf)
}

// goesOn reports whether a record begins at an offset that can follow a sequence.
func (r *blockReader) goesOn(at int, last uint64) bool {
	rec, ok := r.at(at)
	return ok && (!rec.message || rec.seq > last)
}

// torn reports whether a hole is what a power cut leaves of a message that was being
// written: the beginning of a record at the end of the stream, or nothing but zeros.
func (r *blockReader) torn(h hole) bool {
	if h.to != len(r.buf) || r.cut {
		return false
	}
	rest := r.buf[h.from:]
	if empty(rest) || len(rest) < recordHead {
		return true
	}
	// Zeros are zeros in the file, and no zeros any more once they are decrypted.
	if len(r.raw) == len(r.buf) && empty(r.raw[h.from:]) {
		return true
	}
	size := int(binary.LittleEndian.Uint32(rest) &^ headersBit)
	return size > len(rest) && size <= recordMost
}

func empty(buf []byte) bool { return len(bytes.Trim(buf, "\x00")) == 0 }
