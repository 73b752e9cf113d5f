// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// mended are the objects that a crash left in a state which the server does not get
// over, as account/stream/consumer: those with a checksum written again, and the
// consumers without a position; and what was damaged.
type mended struct {
	restored, startedOver []string
	damaged               []Damage
}

// checking is how far the look at the blocks is, in bytes.
type checking struct{ total, done atomic.Int64 }

// mostAtOnce bounds how many streams are looked at at once: each has a block or two in
// memory.
const mostAtOnce = 8

// mend looks at the metadata and the blocks of every stream and its consumers before
// the server does, several streams at once. ring opens those that are encrypted; nil when
// none is.
func mend(storeDir string, names Names, ring *keyring, c *checking) (mended, error) {
	now := time.Now()
	var all mended
	var errs []error
	for _, before := range []func(string, Names, time.Time) ([]Damage, error){keepHidden, lostStreams} {
		damaged, err := before(storeDir, names, now)
		all.damaged = append(all.damaged, damaged...)
		errs = append(errs, err)
	}
	keys := storedStreams(filepath.Join(storeDir, server.JetStreamStoreDir))
	for _, key := range keys {
		c.total.Add(staleBytes(storeDir, key, ring)) // before the first is looked at: it is to be known how much there is
	}
	found, failed := make([]mended, len(keys)), make([]error, len(keys))
	var next atomic.Int64
	var working sync.WaitGroup
	for range min(len(keys), max(2, runtime.GOMAXPROCS(0)), mostAtOnce) {
		working.Go(func() {
			for i := next.Add(1) - 1; int(i) < len(keys); i = next.Add(1) - 1 {
				found[i], failed[i] = mendAll(storeDir, keys[i], names, ring, now, c)
			}
		})
	}
	working.Wait()
	for _, m := range found {
		all.restored = append(all.restored, m.restored...)
		all.startedOver = append(all.startedOver, m.startedOver...)
		all.damaged = append(all.damaged, m.damaged...)
	}
	slices.Sort(all.restored)
	slices.Sort(all.startedOver)
	return all, errors.Join(append(errs, failed...)...)
}

// mendChecksums writes the checksums of metadata again that a crash left without, and
// looks at nothing else.
func mendChecksums(storeDir string, names Names, ring *keyring, _ *checking) (mended, error) {
	var m mended
	var errs []error
	for _, key := range storedStreams(filepath.Join(storeDir, server.JetStreamStoreDir)) {
		dir := filepath.Join(storeDir, server.JetStreamStoreDir, key.account, streamsDir, key.stream)
		fixed, err := restoreChecksum(dir, key.stream, key.stream, ring.opening(dir, key.account, key.stream))
		if fixed {
			m.restored = append(m.restored, names.name(key.account)+"/"+key.stream)
		}
		errs = append(errs, err)
	}
	return m, errors.Join(errs...)
}

// mendAll mends the metadata of a stream, its blocks, and its consumers.
func mendAll(storeDir string, key streamKey, names Names, ring *keyring, now time.Time, c *checking) (mended, error) {
	var m mended
	var errs []error
	note := func(list *[]string, label string, fixed bool, err error) {
		if fixed {
			*list = append(*list, label)
		}
		errs = append(errs, err)
	}
	hurt := func(damaged []Damage, err error) {
		m.damaged = append(m.damaged, damaged...)
		errs = append(errs, err)
	}
	dir := filepath.Join(storeDir, server.JetStreamStoreDir, key.account, streamsDir, key.stream)
	label := names.name(key.account) + "/" + key.stream
	encrypted, err := isEncrypted(dir)
	if err != nil {
		return m, err
	}
	var keys *keyring
	if encrypted {
		keys = ring
		hurt(setAsideUnreadable(storeDir, key, names, keys, now))
	}
	hurt(mendMeta(storeDir, key, names, keys, now))
	fixed, err := restoreChecksum(dir, key.stream, key.stream, keys.opening(dir, key.account, key.stream))
	note(&m.restored, label, fixed, err)

	hurt(mendBlocks(storeDir, key, names, ring, now, c))

	consumers, err := os.ReadDir(filepath.Join(dir, consumersDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		errs = append(errs, err)
	}
	for _, c := range consumers {
		own, label := filepath.Join(dir, consumersDir, c.Name()), label+"/"+c.Name()
		unbox := keys.opening(own, key.account, consumerName(key.stream, c.Name()))
		fixed, err := restoreChecksum(own, c.Name(), key.stream+"/"+c.Name(), unbox)
		note(&m.restored, label, fixed, err)
		fixed, err = setAsideDamagedPosition(own, unbox)
		note(&m.startedOver, label, fixed, err)
		if unbox == nil && keys != nil {
			fixed, err := setAside(own, server.JetStreamMetaFileKey, server.JetStreamMetaFile, server.JetStreamMetaFileSum, positionFile)
			note(&m.startedOver, label, fixed, err)
		}
	}
	return m, errors.Join(errs...)
}

// mendMeta mends the configurations of a stream and its consumers; ring is what opens it
// where it is encrypted.
func mendMeta(storeDir string, key streamKey, names Names, ring *keyring, now time.Time) ([]Damage, error) {
	dir := filepath.Join(storeDir, server.JetStreamStoreDir, key.account, streamsDir, key.stream)
	encrypted, err := isEncrypted(dir)
	if err != nil {
		return nil, err
	}
	if !encrypted {
		ring = nil
	}
	noted, _ := readKnown(storeDir, key)
	m := metaMender{storeDir: storeDir, dir: dir, key: key, account: names.name(key.account), known: noted, now: now, encrypted: encrypted, keys: ring}
	err = errors.Join(m.stream(), m.consumers())
	return m.found, err
}

// storedStreams finds ACCOUNT/streams/STREAM. A directory that can't be read counts
// as empty: the server will say what is wrong with it.
func storedStreams(root string) []streamKey {
	var found []streamKey
	accounts, _ := os.ReadDir(root)
	for _, a := range accounts {
		streams, _ := os.ReadDir(filepath.Join(root, a.Name(), streamsDir))
		for _, s := range streams {
			// A leading dot marks a stream whose deletion was cut short.
			if s.IsDir() && !strings.HasPrefix(s.Name(), ".") {
				found = append(found, streamKey{a.Name(), s.Name()})
			}
		}
	}
	return found
}
