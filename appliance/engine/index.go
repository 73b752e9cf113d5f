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

// indexedEnd returns the last sequence of a stream as its index knows it, which may be
// old, but was there once; false when there is no index that can be read.
func indexedEnd(path, stream string) (uint64, bool) {
	buf, err := os.ReadFile(path)
	if err != nil || len(buf) < 32 {
		return 0, false
	}
	buf, sum := buf[:len(buf)-indexSum], buf[len(buf)-indexSum:]
	key := sha256.Sum256([]byte(stream))
	h, err := highwayhash.New64(key[:])
	if err != nil {
		return 0, false
	}
	_, _ = h.Write(buf) // a hash takes everything
	if !bytes.Equal(h.Sum(nil), sum) || buf[0] != indexMagic || buf[1] < 1 || buf[1] > indexVersions {
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
