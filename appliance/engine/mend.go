// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// mended are the objects that a crash left in a state which the server does not get
// over, as account/stream/consumer: those with a checksum written again, and the
// consumers without a position; and the blocks that were damaged.
type mended struct {
	restored, startedOver []string
	damaged               []Damage
}

// mend looks at the metadata and the blocks of every stream and its consumers before
// the server does. ring opens those that are encrypted; nil when none is.
func mend(storeDir string, names Names, ring *keyring) (mended, error) {
	now := time.Now()
	var m mended
	var errs []error
	note := func(list *[]string, label string, fixed bool, err error) {
		if fixed {
			*list = append(*list, label)
		}
		errs = append(errs, err)
	}
	root := filepath.Join(storeDir, server.JetStreamStoreDir)
	for _, key := range storedStreams(root) {
		dir := filepath.Join(root, key.account, "streams", key.stream)
		label := names.name(key.account) + "/" + key.stream
		sealed, err := isEncrypted(dir)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		keys := ring
		if !sealed {
			keys = nil
		}
		damaged, err := setAsideUnreadable(storeDir, key, names, keys, now)
		m.damaged = append(m.damaged, damaged...)
		errs = append(errs, err)
		fixed, err := restoreChecksum(dir, key.stream, key.stream, keys.opening(dir, key.account, key.stream))
		note(&m.restored, label, fixed, err)

		damaged, err = mendBlocks(storeDir, key, names, keys, now)
		m.damaged = append(m.damaged, damaged...)
		errs = append(errs, err)

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
	}
	slices.Sort(m.restored)
	slices.Sort(m.startedOver)
	return m, errors.Join(errs...)
}

// storedStreams finds ACCOUNT/streams/STREAM. A directory that can't be read counts
// as empty: the server will say what is wrong with it.
func storedStreams(root string) []streamKey {
	var found []streamKey
	accounts, _ := os.ReadDir(root)
	for _, a := range accounts {
		streams, _ := os.ReadDir(filepath.Join(root, a.Name(), "streams"))
		for _, s := range streams {
			// A leading dot marks a stream whose deletion was cut short.
			if s.IsDir() && !strings.HasPrefix(s.Name(), ".") {
				found = append(found, streamKey{a.Name(), s.Name()})
			}
		}
	}
	return found
}
