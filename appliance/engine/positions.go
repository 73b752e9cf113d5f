// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/nats-io/nats-server/v2/server"
)

// The file with a consumer's position, its first byte and the versions in the second
// (filestore.go of nats-server 2.15.3); pinned by a test.
const (
	positionFile      = "o.dat"
	positionMagic     = 22
	positionVersions  = 2
	damagedPositionAs = positionFile + ".damaged"
)

// setAsideDamagedPositions renames the files with the positions of consumers that are
// none, and names the consumers. A power cut leaves such a file empty or full of zeros
// where it was not synced (durability interval). The server neither recovers such a
// consumer nor makes it again. Without the file it starts over: what was acknowledged
// is delivered again, and nothing is lost.
func setAsideDamagedPositions(storeDir string, names Names) (setAside []string, err error) {
	root := filepath.Join(storeDir, server.JetStreamStoreDir)
	var errs []error
	for key := range streamSizes(root) {
		dir := filepath.Join(root, key.account, "streams", key.stream, "obs")
		consumers, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
		for _, c := range consumers {
			path := filepath.Join(dir, c.Name(), positionFile)
			if !damagedPosition(path) {
				continue
			}
			if err := os.Rename(path, filepath.Join(dir, c.Name(), damagedPositionAs)); err != nil {
				errs = append(errs, fmt.Errorf("set position aside: %w", err))
				continue
			}
			setAside = append(setAside, names.name(key.account)+"/"+key.stream+"/"+c.Name())
		}
	}
	slices.Sort(setAside)
	return setAside, errors.Join(errs...)
}

// damagedPosition reports whether a file is there and is not what the server writes.
func damagedPosition(path string) bool {
	if _, err := os.Stat(filepath.Join(filepath.Dir(path), server.JetStreamMetaFileKey)); err == nil {
		return false // encrypted: it can't be told
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return false
	}
	return len(data) < 2 || data[0] != positionMagic || data[1] == 0 || data[1] > positionVersions
}
