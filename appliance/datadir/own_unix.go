// SPDX-License-Identifier: Apache-2.0

//go:build unix

package datadir

import (
	"fmt"
	"os"
	"syscall"
)

// OwnLike gives a file to the owner and the group of a directory; only root can, and
// only root has to.
func OwnLike(path, dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("find the owner of %s: %w", dir, err)
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || os.Geteuid() != 0 {
		return nil
	}
	if err := os.Lchown(path, int(st.Uid), int(st.Gid)); err != nil {
		return fmt.Errorf("give %s to the owner of %s: %w", path, dir, err)
	}
	return nil
}
