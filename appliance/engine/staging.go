// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/nats-io/nats-server/v2/server"
)

// The server stages an atomic batch in files of the stream's folder batches before it
// commits it, and syncs each. What is staged has not been acknowledged, so a power cut
// may take it: on a file system in memory a batch costs a fraction. It is a private
// layout of the server, so it is touched here only, tried before it is used, and
// everything works without it.

const (
	streamsDir = "streams"
	batchesDir = "batches"
)

// StageInMemory makes a stream stage its batches in memory, until the engine stops. It
// is not for streams whose clients send batches of their own: a batch that a power cut
// interrupts while it is committed is completed from what was staged.
func (e *Engine) StageInMemory(accountKey, stream string) error {
	if err := e.stage(accountKey, stream); err != nil {
		return fmt.Errorf("stage batches of stream %q in memory: %w", stream, err)
	}
	return nil
}

// StageOnDisk makes a stream stage its batches on disk, as the server does by itself. It is
// for streams that were in memory before.
func (e *Engine) StageOnDisk(accountKey, stream string) error {
	e.stagingMu.Lock()
	defer e.stagingMu.Unlock()
	link := batchesOf(e.settings.StoreDir, streamKey{accountKey, stream})
	if _, err := os.Readlink(link); err != nil {
		return nil //nolint:nilerr // no link, or nothing at all: it is on disk already
	}
	if err := os.Remove(link); err != nil {
		return fmt.Errorf("stage batches of stream %q on disk: %w", stream, err)
	}
	return nil
}

func (e *Engine) stage(accountKey, stream string) error {
	e.stagingMu.Lock()
	defer e.stagingMu.Unlock()
	if e.staging == "" {
		dir, err := memoryDir(e.memoryName())
		if err != nil {
			return err
		}
		e.staging = dir
	}
	link := batchesOf(e.settings.StoreDir, streamKey{accountKey, stream})
	target := filepath.Join(e.staging, accountKey, stream)
	// Also where the link is there: somebody may have emptied the memory.
	if err := os.MkdirAll(target, 0o700); err != nil {
		return err
	}
	if have, err := os.Readlink(link); err == nil && have == target {
		return trial(link)
	}
	// What the server left there is empty while no batch is under way.
	if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Symlink(target, link); err != nil {
		return err
	}
	if err := trial(link); err != nil {
		return errors.Join(err, os.Remove(link))
	}
	return nil
}

// memoryName is that of the directory in memory. It is the same after a kill, because
// the server completes from it what the kill interrupted, and no other node's.
func (e *Engine) memoryName() string {
	store, err := filepath.Abs(e.settings.StoreDir)
	if err != nil {
		store = e.settings.StoreDir
	}
	sum := sha256.Sum256([]byte(e.settings.NodeName + "\n" + store))
	return fmt.Sprintf("holdfast-%d-%s", os.Geteuid(), hex.EncodeToString(sum[:6]))
}

func batchesOf(storeDir string, k streamKey) string {
	return filepath.Join(storeDir, server.JetStreamStoreDir, k.account, streamsDir, k.stream, batchesDir)
}

// unstageEarlier removes what a start that was killed has left, once the server has
// recovered from it: the memory, and the links, which lead nowhere after a reboot. A
// stream with such a link could not stage anything.
func (e *Engine) unstageEarlier() error {
	var errs []error
	for _, k := range storedStreams(filepath.Join(e.settings.StoreDir, server.JetStreamStoreDir)) {
		link := batchesOf(e.settings.StoreDir, k)
		if _, err := os.Readlink(link); err == nil {
			errs = append(errs, os.Remove(link))
		}
	}
	for _, dir := range memoryDirs(e.memoryName()) {
		errs = append(errs, os.RemoveAll(dir))
	}
	return errors.Join(errs...)
}

// trial does what the server does with a batch.
func trial(dir string) error {
	made, moved := filepath.Join(dir, "holdfast"), filepath.Join(dir, ".holdfast")
	err := os.MkdirAll(filepath.Join(made, "msgs"), 0o700)
	if err == nil {
		err = os.WriteFile(filepath.Join(made, "msgs", "1.blk"), []byte("trial"), 0o600)
	}
	if err == nil {
		err = os.Rename(made, moved)
	}
	return errors.Join(err, os.RemoveAll(made), os.RemoveAll(moved))
}

// unstage gives the memory back; after the server has stopped.
func (e *Engine) unstage() error {
	e.stagingMu.Lock()
	defer e.stagingMu.Unlock()
	dir := e.staging
	e.staging = ""
	if dir == "" {
		return nil
	}
	return os.RemoveAll(dir)
}
