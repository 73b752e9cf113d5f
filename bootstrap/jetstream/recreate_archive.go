// SPDX-License-Identifier: Apache-2.0

package jetstream

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/s2"
)

// The server's backup format, version 2: an s2 stream of entries. The reader and
// writer are our own because nats-server is imported by the engine only.
const (
	archiveMagic = "NATSARC1"
	// maxEntry bounds what one entry may claim to be, which is more than the
	// largest max_payload.
	maxEntry     = 128 << 20
	maxEntryName = 1 << 20
)

var errNoArchive = errors.New("not a backup of this server version")

// entry is one item of a backup: the stream's state, a consumer, a message, or,
// with nothing in it, the end.
type entry struct {
	name       string
	time       int64
	seq        uint64
	headerSize int
	body       []byte // of a message, its header and its data
}

func (e entry) isEnd() bool {
	return e.name == "" && e.time == 0 && e.seq == 0 && len(e.body) == 0
}

// archiveReader reads the entries of a backup.
type archiveReader struct{ r *bufio.Reader }

func newArchiveReader(r io.Reader) (*archiveReader, error) {
	br := bufio.NewReader(s2.NewReader(r))
	magic := make([]byte, len(archiveMagic))
	if _, err := io.ReadFull(br, magic); err != nil {
		return nil, err
	}
	if string(magic) != archiveMagic {
		return nil, errNoArchive
	}
	return &archiveReader{br}, nil
}

func (a *archiveReader) next() (entry, error) {
	var e entry
	nameLen, err := binary.ReadUvarint(a.r)
	if err != nil {
		return e, err
	}
	if e.time, err = binary.ReadVarint(a.r); err != nil {
		return e, err
	}
	if e.seq, err = binary.ReadUvarint(a.r); err != nil {
		return e, err
	}
	header, err := binary.ReadUvarint(a.r)
	if err != nil {
		return e, err
	}
	payload, err := binary.ReadUvarint(a.r)
	if err != nil {
		return e, err
	}
	if nameLen > maxEntryName || header > maxEntry || payload > maxEntry {
		return e, errNoArchive
	}
	text := make([]byte, nameLen+header+payload)
	if _, err := io.ReadFull(a.r, text); err != nil {
		return e, fmt.Errorf("backup ends within an entry: %w", err)
	}
	e.name, e.body, e.headerSize = string(text[:nameLen]), text[nameLen:], int(header)
	return e, nil
}

// archiveWriter writes entries and hands them on in chunks.
type archiveWriter struct {
	chunk   bytes.Buffer
	s2      *s2.Writer
	send    func([]byte) error
	entries int
	bytes   int
}

// A restore gives up when a chunk takes 5 s, and a message can take as long as
// an fsync: a chunk is bounded in messages as well as in bytes.
const (
	chunkEntries = 200
	chunkBytes   = 256 << 10
)

func newArchiveWriter(send func([]byte) error) (*archiveWriter, error) {
	w := &archiveWriter{send: send}
	w.s2 = s2.NewWriter(&w.chunk, s2.WriterConcurrency(1))
	_, err := io.WriteString(w.s2, archiveMagic)
	return w, err
}

func (w *archiveWriter) write(e entry) error {
	var head []byte
	head = binary.AppendUvarint(head, uint64(len(e.name)))
	head = binary.AppendVarint(head, e.time)
	head = binary.AppendUvarint(head, e.seq)
	head = binary.AppendUvarint(head, uint64(e.headerSize))
	head = binary.AppendUvarint(head, uint64(len(e.body)-e.headerSize))
	head = append(head, e.name...)
	if _, err := w.s2.Write(head); err != nil {
		return err
	}
	if _, err := w.s2.Write(e.body); err != nil {
		return err
	}
	w.entries++
	w.bytes += len(head) + len(e.body)
	if w.entries < chunkEntries && w.bytes < chunkBytes {
		return nil
	}
	return w.flush()
}

func (w *archiveWriter) flush() error {
	if err := w.s2.Flush(); err != nil {
		return err
	}
	w.entries, w.bytes = 0, 0
	return w.sendAll()
}

func (w *archiveWriter) sendAll() error {
	// One chunk is one message, and one large entry can be more than that.
	for w.chunk.Len() > 0 {
		if err := w.send(w.chunk.Next(chunkBytes)); err != nil {
			return err
		}
	}
	w.chunk.Reset()
	return nil
}

// close hands on what is left.
func (w *archiveWriter) close() error {
	if err := w.s2.Close(); err != nil {
		return err
	}
	return w.sendAll()
}
