// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/nats-io/nats-server/v2/server"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

// A stream is encrypted or decrypted as a whole copy, in the directory of its account and
// so on its volume: STREAM.part while it is made, STREAM when it is complete and on the
// disk. Then the stream itself goes to STREAM.old, the copy into its place, and only then
// what is old is removed: it holds nothing that the copy does not. The server never sees
// this directory. Names of streams have no dot.
const (
	convertingDir = "converting"
	partSuffix    = ".part"
	oldSuffix     = ".old"
	// spaceLeft is what a copy must leave free, in bytes.
	spaceLeft = 64 << 20
)

// convert encrypts the streams that are not, or decrypts those that are.
func (u *unlocking) convert(ctx context.Context) error {
	streams, from, to, doing := u.plain, (*keyring)(nil), u.key, "encrypting"
	if u.key == nil {
		streams, from, to, doing = u.sealed, u.before, nil, "decrypting"
	}
	if len(streams) == 0 || from == nil && to == nil {
		return nil
	}
	sizes := make([]int64, len(streams))
	for i, key := range streams {
		sizes[i] = dirSize(u.dir(key))
	}
	if err := u.room(streams, sizes); err != nil {
		return err
	}
	for i, key := range streams {
		u.tell(doing, u.label(key), i, len(streams))
		c := copying{ctx: ctx, from: from, to: to, step: u.step}
		if err := u.swap(key, &c); err != nil {
			return fmt.Errorf("%s stream %s: %w", doing, u.label(key), err)
		}
		if to == nil {
			u.state.Decrypted++
		} else {
			u.state.Encrypted++
		}
	}
	return nil
}

// room refuses to begin when a copy of the largest stream has no room.
func (u *unlocking) room(streams []streamKey, sizes []int64) error {
	if u.enc.Free == nil {
		return nil
	}
	free, err := u.enc.Free()
	if err != nil {
		return err
	}
	largest := 0
	for i := range sizes {
		if sizes[i] > sizes[largest] {
			largest = i
		}
	}
	if need := uint64(sizes[largest]) + spaceLeft; need > free {
		return diag.Fail(diag.CodeDiskFull, fmt.Errorf("prepare the store in %s: a second copy of stream %s needs %s for a while, and %s are free",
			u.storeDir, u.label(streams[largest]), humanize.IBytes(need), humanize.IBytes(free)),
			"free space on the volume and start again, or take the change of storage.encryption back. Nothing was changed")
	}
	return nil
}

// swap makes the copy of a stream and puts it into its place.
func (u *unlocking) swap(key streamKey, c *copying) error {
	work := filepath.Join(u.storeDir, server.JetStreamStoreDir, key.account, convertingDir)
	part, whole := filepath.Join(work, key.stream+partSuffix), filepath.Join(work, key.stream)
	if err := os.MkdirAll(work, dirMode); err != nil {
		return err
	}
	if err := c.stream(u.dir(key), part, key); err != nil {
		return err
	}
	if err := errors.Join(syncTree(part), syncDir(filepath.Dir(work))); err != nil {
		return err
	}
	if err := u.move(part, whole); err != nil {
		return err
	}
	if err := u.install(key, work); err != nil {
		return err
	}
	_ = os.Remove(work) // where nothing is left in it
	return nil
}

// install puts a complete copy into the place of the stream.
func (u *unlocking) install(key streamKey, work string) error {
	whole, old := filepath.Join(work, key.stream), filepath.Join(work, key.stream+oldSuffix)
	if there, err := exists(old); err != nil {
		return err
	} else if !there {
		if err := u.move(u.dir(key), old); err != nil {
			return err
		}
	}
	if err := u.move(whole, u.dir(key)); err != nil {
		return err
	}
	return u.remove(old)
}

// move renames a directory so that the new name survives a power cut, then the old one
// is gone.
func (u *unlocking) move(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return err
	}
	if err := errors.Join(syncDir(filepath.Dir(to)), syncDir(filepath.Dir(from))); err != nil {
		return err
	}
	return u.step("moved " + filepath.Base(from) + " to " + filepath.Base(to))
}

func (u *unlocking) remove(dir string) error {
	if err := u.step("removing " + filepath.Base(dir)); err != nil {
		return err
	}
	return os.RemoveAll(dir)
}

// settle ends what a start before this one was doing when it was killed.
func (u *unlocking) settle(context.Context) error {
	root := filepath.Join(u.storeDir, server.JetStreamStoreDir)
	if info, err := os.Stat(root); err == nil && !info.IsDir() {
		return nil // the server says it better
	}
	accounts, err := os.ReadDir(root)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, account := range accounts {
		work := filepath.Join(root, account.Name(), convertingDir)
		entries, err := os.ReadDir(work)
		if err != nil {
			continue // there is none
		}
		for _, e := range entries {
			stream, end, _ := strings.Cut(e.Name(), ".")
			switch "." + end {
			case partSuffix:
				err = u.remove(filepath.Join(work, e.Name()))
			case oldSuffix, ".":
				err = u.settleOne(streamKey{account.Name(), stream}, work)
			}
			if err != nil {
				return err
			}
		}
		_ = os.Remove(work) // where nothing is left in it
	}
	return nil
}

// settleOne: what the stream's own place holds is the truth, and while that is empty the
// copy, which is complete.
func (u *unlocking) settleOne(key streamKey, work string) error {
	whole, old := filepath.Join(work, key.stream), filepath.Join(work, key.stream+oldSuffix)
	inPlace, err1 := exists(u.dir(key))
	hasWhole, err2 := exists(whole)
	hasOld, err3 := exists(old)
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	switch {
	case hasWhole && hasOld && inPlace:
		return u.refuse(fmt.Errorf("stream %s was being encrypted or decrypted, and something else made a stream of its name meanwhile: %s", u.label(key), u.dir(key)),
			fmt.Sprintf("move that directory out of the store if it holds nothing you need; the stream with its messages is %s", old))
	case hasWhole && hasOld:
		return u.install(key, work)
	case hasWhole && inPlace:
		return u.remove(whole) // made before the stream was last used, maybe
	case hasOld && inPlace:
		return u.remove(old)
	case hasWhole:
		return u.move(whole, u.dir(key))
	case hasOld:
		return u.move(old, u.dir(key))
	}
	return nil
}
