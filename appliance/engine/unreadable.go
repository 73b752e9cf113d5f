// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

const asideSuffix = ".damaged"

// consumerName is what the key of a consumer is bound to.
func consumerName(stream, consumer string) string { return stream + "." + consumer }

// setAside renames files of a directory that can't be read.
func setAside(dir string, names ...string) (bool, error) {
	done := false
	for _, name := range names {
		path := filepath.Join(dir, name)
		err := os.Rename(path, path+asideSuffix)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return done, fmt.Errorf("set %s aside: %w", name, err)
		}
		done = true
	}
	return done, nil
}

// setAsideUnreadable renames the metadata of an encrypted stream whose own key is damaged or gone.
// The server can neither recover such a stream nor make it again. Without these files it
// can be made again, by the configuration or by hand, and has its messages then: each
// block has a key of its own.
func setAsideUnreadable(storeDir string, key streamKey, names Names, keys *keyring, now time.Time) ([]Damage, error) {
	dir := filepath.Join(storeDir, server.JetStreamStoreDir, key.account, streamsDir, key.stream)
	if keys == nil {
		return nil, nil
	}
	there, err := exists(filepath.Join(dir, server.JetStreamMetaFileKey))
	if err != nil {
		return nil, err
	}
	if !there { // a creation that was cut short has no metadata either
		if there, err = exists(filepath.Join(dir, server.JetStreamMetaFile)); err != nil || !there {
			return nil, err
		}
	} else if keys.opening(dir, key.account, key.stream) != nil {
		return nil, nil
	}
	if _, err = setAside(dir, server.JetStreamMetaFile, server.JetStreamMetaFileSum, server.JetStreamMetaFileKey); err != nil {
		return nil, err
	}
	d := Damage{
		Account: names.name(key.account), Stream: key.stream, Found: now.UTC(), Lost: []SeqRange{},
		Original: filepath.Join(dir, server.JetStreamMetaFile+asideSuffix), Settings: true,
	}
	path := filepath.Join(quarantineDir(storeDir, key, now), "settings"+damageReport)
	return []Damage{d}, writeReport(path, &d)
}
