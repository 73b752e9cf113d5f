// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"bytes"
	"encoding/binary"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/klauspost/compress/s2"
	"github.com/nats-io/nats-server/v2/server"
)

const (
	keySuffix = ".key"
	// compressed is how a block begins that is compressed: this, the algorithm, the size
	// of the records as a variable-length number, and the records, without the last
	// checksum, which follows as it is.
	compressed   = "cmp"
	compressedS2 = 1
	// frames is how what S2 writes begins.
	frames = "\xff\x06\x00\x00S2sTwO"
)

// blockName is what the key of a block is bound to.
func blockName(stream string, index int) string { return stream + ":" + strconv.Itoa(index) }

func blockFile(msgs string, index int) string {
	return filepath.Join(msgs, strconv.Itoa(index)+blockSuffix)
}

func keyPath(msgs string, index int) string {
	return filepath.Join(msgs, strconv.Itoa(index)+keySuffix)
}

// openKeyFile reads a key file; false when there is none, or it does not open.
func (k *keyring) openKeyFile(path, account, name string) (*objectKey, bool) {
	if k == nil {
		return nil, false
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, false
	}
	return k.open(account, name, text)
}

// metaKey is the key of the stream or consumer in a directory.
func (k *keyring) metaKey(dir, account, name string) (*objectKey, bool) {
	return k.openKeyFile(filepath.Join(dir, server.JetStreamMetaFileKey), account, name)
}

// opening returns what decrypts the files of the stream or consumer in a directory; nil
// when nothing does.
func (k *keyring) opening(dir, account, name string) func([]byte) ([]byte, error) {
	if _, err := os.Stat(filepath.Join(dir, server.JetStreamMetaFileKey)); os.IsNotExist(err) {
		return (*objectKey)(nil).unbox
	}
	if key, ok := k.metaKey(dir, account, name); ok {
		return key.unbox
	}
	return nil
}

// decodeBlock reads what is in the file of a block: decrypts it, decompresses it. What can't
// be read is left out, and known as r.cut. key is nil in a store that is not encrypted.
func decodeBlock(stream string, index int, raw []byte, key *objectKey) (*blockReader, error) {
	buf, err := key.crypt(raw)
	if err != nil {
		return nil, err
	}
	r, err := newBlockReader(stream, index, buf)
	if err != nil {
		return nil, err
	}
	r.raw = raw
	r.expand()
	return r, nil
}

// lostBlock is a block whose key is gone.
func lostBlock(stream string, index int, raw []byte) (*blockReader, error) {
	r, err := newBlockReader(stream, index, nil)
	if err != nil {
		return nil, err
	}
	r.raw, r.cut = raw, true
	return r, nil
}

// expand decompresses a block that is compressed, as far as that goes: what follows a
// damage can't be told.
func (r *blockReader) expand() {
	at, headed := compressedAt(r.buf)
	if at == 0 {
		return
	}
	if _, plain := r.at(0); plain {
		return // a record whose length looks like it
	}
	r.off = !headed
	body := r.buf[at:max(at, len(r.buf)-recordSum)]
	records, err := io.ReadAll(s2.NewReader(bytes.NewReader(body)))
	if err != nil {
		r.buf, r.cut = records, true
		return
	}
	r.buf = append(records, r.buf[at+len(body):]...)
}

// compressedAt returns where what is compressed begins, 0 when nothing is, and whether
// what stands before it is whole.
func compressedAt(buf []byte) (at int, headed bool) {
	if bytes.HasPrefix(buf, []byte(compressed)) && len(buf) > len(compressed) && buf[len(compressed)] == compressedS2 {
		if _, n := binary.Uvarint(buf[len(compressed)+1:]); n > 0 {
			return len(compressed) + 1 + n, true
		}
	}
	const most = len(compressed) + 1 + binary.MaxVarintLen64 + len(frames)
	return max(bytes.Index(buf[:min(len(buf), most)], []byte(frames)), 0), false
}

// blockKey is the key of a block; nil and true in a store that is not encrypted.
func (s *inspection) blockKey(index int) (*objectKey, bool) {
	if s.keys == nil {
		return nil, true
	}
	return s.keys.openKeyFile(keyPath(filepath.Join(s.dir, messagesDir), index), s.key.account, blockName(s.key.stream, index))
}

// write puts records into a block. It is not compressed then, which the server takes as
// well. Where the key is gone a new one comes first: what was there can't be read anyway,
// and is kept.
func (m *mending) write(index int, records []byte) error {
	key, ok := m.blockKey(index)
	if !ok {
		key = m.keys.fresh()
		text, err := m.keys.seal(m.key.account, blockName(m.key.stream, index), key)
		if err != nil {
			return err
		}
		if err := writeSynced(keyPath(filepath.Join(m.dir, messagesDir), index), text); err != nil {
			return err
		}
	}
	raw, err := key.crypt(records)
	if err != nil {
		return err
	}
	return writeSynced(m.path(index), raw)
}

// withoutKeys reports whether a block of the stream has no key that opens: the server
// deletes such a block, or does not recover the stream.
func (s *inspection) withoutKeys() bool {
	return slices.ContainsFunc(s.blocks, func(index int) bool {
		_, ok := s.blockKey(index)
		return !ok
	})
}

// kept reads a block that was set aside, with its key beside it.
func (s *inspection) kept(path string, index int) (*blockReader, error) {
	return readBlock(path, keyPath(filepath.Dir(path), index), s.key, index, s.keys)
}
