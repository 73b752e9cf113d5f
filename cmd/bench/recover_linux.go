// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// forget has the kernel drop what it has of the files in the page cache. What is not on
// the disk yet can't be dropped.
func forget(files []string) error {
	for _, path := range files {
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			return fmt.Errorf("empty the page cache: %w", err)
		}
		err = errors.Join(f.Sync(), unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED), f.Close())
		if err != nil {
			return fmt.Errorf("empty the page cache of %s: %w", path, err)
		}
	}
	return nil
}
