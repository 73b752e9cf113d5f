// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"os"
	"path/filepath"

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

// indexedEnd returns the last sequence of a stream as its index knows it, which may be
// old, but was there once; false when there is no index that can be read.
func (m *mending) indexedEnd() (uint64, bool) {
	sealed, err := os.ReadFile(filepath.Join(m.dir, messagesDir, indexName))
	if err != nil {
		return 0, false
	}
	unbox := m.keys.opening(m.dir, m.key.account, m.key.stream)
	if unbox == nil {
		return 0, false
	}
	buf, ok := openIndex(sealed, m.key.stream, unbox)
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
