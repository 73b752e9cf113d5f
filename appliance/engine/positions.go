// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"os"
	"path/filepath"
)

// The file with a consumer's position, its first byte and the versions in the second
// (filestore.go of nats-server 2.15.3); pinned by a test.
const (
	positionFile      = "o.dat"
	positionMagic     = 22
	positionVersions  = 2
	damagedPositionAs = positionFile + ".damaged"
)

// setAsideDamagedPosition renames the file with the position of the consumer in a
// directory when it is none. A power cut leaves such a file empty or full of zeros
// where it was not synced (durability interval). The server neither recovers such a
// consumer nor makes it again. Without the file it starts over: what was acknowledged
// is delivered again, and nothing is lost. unbox is what decrypts it; nil where nothing
// does.
func setAsideDamagedPosition(dir string, unbox func([]byte) ([]byte, error)) (bool, error) {
	path := filepath.Join(dir, positionFile)
	if !damagedPosition(path, unbox) {
		return false, nil
	}
	if err := os.Rename(path, filepath.Join(dir, damagedPositionAs)); err != nil {
		return false, fmt.Errorf("set position aside: %w", err)
	}
	return true, nil
}

// damagedPosition reports whether a file is there and is not what the server writes.
func damagedPosition(path string, unbox func([]byte) ([]byte, error)) bool {
	data, err := os.ReadFile(path)
	if err != nil || unbox == nil {
		return false
	}
	data, err = unbox(data)
	if err != nil {
		return true
	}
	return len(data) < 2 || data[0] != positionMagic || data[1] == 0 || data[1] > positionVersions
}
