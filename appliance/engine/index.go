// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"os"

	"github.com/minio/highwayhash"
)

// The beginning of a stream's index, as nats-server 2.15.3 writes it
// (server/filestore.go): magic and version, then as variable-length numbers messages,
// bytes, first sequence, its time, last sequence; a checksum at the end.
const (
	indexMagic    = 11
	indexVersions = 4
	indexSum      = 8
)

// openIndex returns the index of a stream without its checksum; false when there is none
// that can be read.
func openIndex(path, stream string) ([]byte, bool) {
	buf, err := os.ReadFile(path)
	if err != nil || len(buf) < 32 {
		return nil, false
	}
	buf, sum := buf[:len(buf)-indexSum], buf[len(buf)-indexSum:]
	key := sha256.Sum256([]byte(stream))
	h, err := highwayhash.New64(key[:])
	if err != nil {
		return nil, false
	}
	_, _ = h.Write(buf) // a hash takes everything
	return buf, bytes.Equal(h.Sum(nil), sum) && buf[0] == indexMagic && buf[1] >= 1 && buf[1] <= indexVersions
}

// indexedEnd returns the last sequence of a stream as its index knows it, which may be
// old, but was there once; false when there is no index that can be read.
func indexedEnd(path, stream string) (uint64, bool) {
	buf, ok := openIndex(path, stream)
	if !ok {
		return 0, false
	}
	r := bytes.NewReader(buf[2:])
	for range 3 { // messages, bytes, first sequence
		if _, err := binary.ReadUvarint(r); err != nil {
			return 0, false
		}
	}
	if _, err := binary.ReadVarint(r); err != nil {
		return 0, false
	}
	end, err := binary.ReadUvarint(r)
	return end, err == nil
}

// indexHead returns messages, first and last sequence from the beginning of an index,
// for figures that may be old: it does not check the rest.
func indexHead(path string) (messages, first, last uint64) {
	f, err := os.Open(path)
	if err != nil {
		return 0, 0, 0
	}
	defer f.Close()
	buf := make([]byte, 128)
	n, _ := f.ReadAt(buf, 0)
	if n < 32 || buf[0] != indexMagic {
		return 0, 0, 0 // encrypted, or none
	}
	c := cursor{buf: buf[2:n]}
	messages = c.uint()
	c.uint() // bytes
	first = c.uint()
	c.int() // its time
	return messages, first, c.uint()
}
