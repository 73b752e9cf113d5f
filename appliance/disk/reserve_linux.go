// SPDX-License-Identifier: Apache-2.0

package disk

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// reserve takes room for a file without writing to it where the file system can.
func reserve(f *os.File, size int64) error {
	err := unix.Fallocate(int(f.Fd()), 0, 0, size)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		return fill(f, size)
	}
	return err
}
