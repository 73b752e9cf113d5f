// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"io/fs"
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

// openIndex checks and decrypts an index.
func openIndex(sealed []byte, stream string, unbox func([]byte) ([]byte, error)) ([]byte, bool) {
	if len(sealed) < 32 {
		return nil, false
	}
	body, sum := sealed[:len(sealed)-indexSum], sealed[len(sealed)-indexSum:]
	if !bytes.Equal(sumOf(stream, body), sum) {
		return nil, false
	}
	buf, err := unbox(body)
	if err != nil || len(buf) < 2 || buf[0] != indexMagic || buf[1] < 1 || buf[1] > indexVersions {
		return nil, false
	}
	return buf, true
}

// sumOf is the checksum of an index or of metadata. name is what the server makes its key
// of.
func sumOf(name string, data []byte) []byte {
	key := sha256.Sum256([]byte(name))
	h, err := highwayhash.New64(key[:])
	if err != nil {
		return nil // a key of 32 bytes is always taken
	}
	_, _ = h.Write(data) // a hash takes everything
	return h.Sum(nil)
}

// readIndex reads the index of a stream; key opens it, nil in a store that is not
// encrypted. It is without its checksum then; false when there is none that can be read.
func readIndex(path, stream string, key *objectKey) ([]byte, bool) {
	sealed, err := readRegular(path)
	if err != nil {
		return nil, false
	}
	return openIndex(sealed, stream, key.unbox)
}

// indexedEnd returns the last sequence of a stream as its index knows it, which may be
// old, but was there once; false when there is no index that can be read.
func (s *inspection) indexedEnd() (uint64, bool) {
	key, ok := s.metaKey()
	if !ok {
		return 0, false
	}
	buf, ok := readIndex(s.indexPath(), s.key.stream, key)
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
// for figures that may be old: it does not check the rest, where that is not encrypted.
func indexHead(path, stream string, key *objectKey) (messages, first, last uint64) {
	buf, ok := readHead(path)
	if key != nil {
		buf, ok = readIndex(path, stream, key)
	}
	if !ok || len(buf) < 2 || buf[0] != indexMagic {
		return 0, 0, 0
	}
	c := cursor{buf: buf[2:]}
	messages = c.uint()
	c.uint() // bytes
	first = c.uint()
	c.int() // its time
	return messages, first, c.uint()
}

func readHead(path string) ([]byte, bool) {
	if !isRegular(path) {
		return nil, false
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, false
	}
	defer f.Close()
	buf := make([]byte, 128)
	n, _ := f.ReadAt(buf, 0)
	return buf[:n], n >= 32
}

// isRegular reports whether there is a file that can be read to its end: a pipe in its
// place would be waited for.
func isRegular(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

func readRegular(path string) ([]byte, error) {
	if !isRegular(path) {
		return nil, fs.ErrNotExist
	}
	return os.ReadFile(path)
}
