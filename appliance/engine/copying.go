// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/nats-io/nats-server/v2/server"
)

// copying copies a stream from one keyring to another; nil is plain text.
type copying struct {
	ctx      context.Context
	from, to *keyring
	step     func(what string) error
}

// dirMode is that of the server's own directories.
const dirMode = 0o700

// object is what has metadata and a key of its own.
type object struct {
	src, dst string
	account  string
	name     string // what its key is bound to
	hashed   string // what the checksum of its metadata is made with
	was, now *objectKey
}

// stream copies a stream with all that belongs to it.
func (c *copying) stream(src, dst string, key streamKey) error {
	if err := os.RemoveAll(dst); err != nil {
		return err
	}
	if err := c.store(object{src: src, dst: dst, account: key.account, name: key.stream, hashed: key.stream}); err != nil {
		return err
	}
	consumers, err := os.ReadDir(filepath.Join(src, consumersDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range consumers {
		o := object{
			src: filepath.Join(src, consumersDir, e.Name()), dst: filepath.Join(dst, consumersDir, e.Name()),
			account: key.account, name: consumerName(key.stream, e.Name()), hashed: key.stream + "/" + e.Name(),
		}
		if err := c.object(o, nil); err != nil {
			return err
		}
	}
	// What is staged there makes a batch whole that a crash interrupted. It may be in
	// memory, and the copy is on the disk.
	batches, err := os.ReadDir(filepath.Join(src, batchesDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range batches {
		o := object{src: filepath.Join(src, batchesDir, e.Name()), dst: filepath.Join(dst, batchesDir, e.Name()), account: key.account, name: e.Name(), hashed: e.Name()}
		if err := c.store(o); err != nil {
			return err
		}
	}
	return nil
}

// store copies a stream or a batch, without consumers.
func (c *copying) store(o object) error {
	return c.object(o, messageDirs())
}

// object copies the files of an object, and the blocks in its directories of messages.
func (c *copying) object(o object, messages []string) error {
	if err := os.MkdirAll(o.dst, dirMode); err != nil {
		return err
	}
	if c.to != nil {
		o.now = c.to.fresh()
	}
	var readable bool
	if o.was, readable = c.was(o); !readable {
		// Its own key is damaged: everything but its blocks stays as it is.
		if err := copyFiles(o.src, o.dst); err != nil {
			return err
		}
	} else if err := c.metadata(o); err != nil {
		return err
	}
	for _, msgs := range messages {
		if err := c.messages(o, msgs, readable); err != nil {
			return err
		}
	}
	return nil
}

// was is the key of an object before; false when it does not open.
func (c *copying) was(o object) (*objectKey, bool) {
	if c.from == nil {
		return nil, true
	}
	if there, err := exists(filepath.Join(o.src, server.JetStreamMetaFileKey)); err == nil && !there {
		return nil, true // no metadata yet
	}
	return c.from.metaKey(o.src, o.account, o.name)
}

// metadata copies what is directly in the directory of an object.
func (c *copying) metadata(o object) error {
	entries, err := os.ReadDir(o.src)
	if err != nil {
		return err
	}
	for _, e := range entries {
		switch name := e.Name(); {
		case e.IsDir() && !ours(name):
			err = copyTree(filepath.Join(o.src, name), filepath.Join(o.dst, name))
		case !e.Type().IsRegular() || leftover(name):
		case name == server.JetStreamMetaFileKey || name == server.JetStreamMetaFileSum:
		case name == server.JetStreamMetaFile:
			err = c.meta(o)
		case name == positionFile:
			err = c.sealed(o, name)
		default:
			err = copyWhole(filepath.Join(o.src, name), filepath.Join(o.dst, name))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// ours reports whether a directory is copied as what it is.
func ours(name string) bool {
	return name == consumersDir || name == batchesDir || slices.Contains(messageDirs(), name)
}

// leftover reports whether a file is what a crash left of one that was being replaced.
func leftover(name string) bool {
	return strings.HasSuffix(name, ".tmp") || strings.HasSuffix(name, ".new")
}

// meta copies the metadata with its key and its checksum. Where that was wrong there is
// none, and the metadata is looked at later (see restoreChecksum).
func (c *copying) meta(o object) error {
	raw, err := os.ReadFile(filepath.Join(o.src, server.JetStreamMetaFile))
	if err != nil {
		return err
	}
	sum, err := os.ReadFile(filepath.Join(o.src, server.JetStreamMetaFileSum))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	plain, err := o.was.unbox(raw)
	if err != nil {
		return copyFiles(o.src, o.dst)
	}
	text, err := o.now.box(plain)
	if err != nil {
		return err
	}
	if o.now != nil {
		if err := c.key(o.now, filepath.Join(o.dst, server.JetStreamMetaFileKey), o.account, o.name); err != nil {
			return err
		}
	}
	if string(sum) == hex.EncodeToString(sumOf(o.hashed, raw)) {
		if err := writeWhole(filepath.Join(o.dst, server.JetStreamMetaFileSum), []byte(hex.EncodeToString(sumOf(o.hashed, text)))); err != nil {
			return err
		}
	}
	return writeWhole(filepath.Join(o.dst, server.JetStreamMetaFile), text)
}

func (c *copying) key(o *objectKey, path, account, name string) error {
	text, err := c.to.seal(account, name, o)
	if err != nil {
		return err
	}
	return writeWhole(path, text)
}

// sealed copies the position of a consumer. One that can't be read stays as it is, and is
// set aside later.
func (c *copying) sealed(o object, name string) error {
	raw, err := os.ReadFile(filepath.Join(o.src, name))
	if err != nil {
		return err
	}
	plain, err := o.was.unbox(raw)
	if err != nil {
		return writeWhole(filepath.Join(o.dst, name), raw)
	}
	text, err := o.now.box(plain)
	if err != nil {
		return err
	}
	return writeWhole(filepath.Join(o.dst, name), text)
}

// messages copies a directory of blocks.
func (c *copying) messages(o object, msgs string, readable bool) error {
	src, dst := filepath.Join(o.src, msgs), filepath.Join(o.dst, msgs)
	entries, err := os.ReadDir(src)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dst, dirMode); err != nil {
		return err
	}
	for _, e := range entries {
		if err := c.ctx.Err(); err != nil {
			return err
		}
		name := e.Name()
		number, isBlock := strings.CutSuffix(name, blockSuffix)
		index, notNumber := strconv.Atoi(number)
		switch {
		case !e.Type().IsRegular() || leftover(name) || filepath.Ext(name) == keySuffix:
		case isBlock && notNumber == nil:
			err = c.block(o, src, dst, index)
		case name == indexName:
			err = c.index(o, src, dst, readable)
		default:
			err = copyWhole(filepath.Join(src, name), filepath.Join(dst, name))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// block copies a block. One that does not open stays as it is, with its key: what is in
// force has been looked at before (see mendBlocks), so nobody needs it.
func (c *copying) block(o object, src, dst string, index int) error {
	raw, err := os.ReadFile(blockFile(src, index))
	if err != nil {
		return err
	}
	key := keyPath(src, index)
	var was *objectKey
	if c.from == nil {
		// A backup that was being restored when the node ended: the server had begun.
		if half, ok := c.to.openKeyFile(key, o.account, blockName(o.name, index)); ok && begins(o.name, index, raw, half) {
			was = half
		}
	} else if opens := false; len(raw) > 0 {
		if was, opens = c.from.openKeyFile(key, o.account, blockName(o.name, index)); !opens {
			return errors.Join(copyThere(key, keyPath(dst, index)), writeWhole(blockFile(dst, index), raw))
		}
	}
	plain, err := was.crypt(raw)
	if err != nil {
		return err
	}
	return c.put(o, dst, index, plain)
}

// put writes a block in its new form.
func (c *copying) put(o object, dst string, index int, plain []byte) error {
	var now *objectKey
	if c.to != nil {
		now = c.to.fresh()
		if err := c.key(now, keyPath(dst, index), o.account, blockName(o.name, index)); err != nil {
			return err
		}
	}
	text, err := now.crypt(plain)
	if err != nil {
		return err
	}
	if err := writeWhole(blockFile(dst, index), text); err != nil {
		return fmt.Errorf("write block %d: %w", index, err)
	}
	return c.step("copied a block")
}

// begins reports whether a key makes a block one that begins like a block.
func begins(stream string, index int, raw []byte, key *objectKey) bool {
	r, err := decodeBlock(stream, index, raw, key)
	if err != nil || r.cut {
		return false
	}
	_, ok := r.at(0)
	return ok || len(raw) == 0
}

// index copies the index of a stream; one that can't be read is left out, for the server
// makes it again.
func (c *copying) index(o object, src, dst string, readable bool) error {
	raw, err := os.ReadFile(filepath.Join(src, indexName))
	if err != nil {
		return err
	}
	if !readable {
		return nil
	}
	plain, ok := openIndex(raw, o.name, o.was.unbox)
	if !ok {
		return nil
	}
	text, err := o.now.box(plain)
	if err != nil {
		return err
	}
	return writeWhole(filepath.Join(dst, indexName), append(text, sumOf(o.name, text)...))
}
