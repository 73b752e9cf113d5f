// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"os"

	"golang.org/x/sys/unix"
)

// forgetCached has the kernel forget what it holds of a file in memory and has written
// already. It is a hint.
func forgetCached(path string) {
	f, err := os.Open(path)
	if err != nil {
		return
	}
	defer f.Close()
	_ = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
}
