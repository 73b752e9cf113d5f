// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"fmt"
	"os"
	"path/filepath"
)

// maxSocketPath is the longest path a socket address holds (sun_path, 108
// bytes with the closing zero byte).
const maxSocketPath = 107

// shorten gives a path that fits a socket address, through a descriptor of the
// directory. done must be called after the path was used.
func shorten(path string) (short string, done func(), err error) {
	if len(path) <= maxSocketPath {
		return path, func() {}, nil
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return "", nil, err
	}
	return fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(path)), func() { dir.Close() }, nil
}
