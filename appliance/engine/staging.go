// SPDX-License-Identifier: Apache-2.0

package engine

import (
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

func (e *Engine) stage(accountKey, stream string) error {
	e.stagingMu.Lock()
	defer e.stagingMu.Unlock()
	if e.staging == "" {
		dir, err := memoryDir(e.settings.NodeName)
		if err != nil {
			return err
		}
		e.staging = dir
	}
	link := filepath.Join(e.settings.StoreDir, server.JetStreamStoreDir, accountKey, streamsDir, stream, batchesDir)
	target := filepath.Join(e.staging, accountKey, stream)
	if have, err := os.Readlink(link); err == nil && have == target {
		return trial(link)
	}
	if err := os.MkdirAll(target, 0o700); err != nil {
		return err
	}
	// What the server left there is empty while no batch is under way. A link to where
	// memory was before is of an earlier start.
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
