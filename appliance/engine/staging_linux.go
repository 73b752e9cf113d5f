// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// memoryDir makes a directory of ours on a file system in memory. Everybody may write
// beside it, so what is there under its name already must be ours, too.
func memoryDir(node string) (string, error) {
	sum := sha256.Sum256([]byte(node))
	name := fmt.Sprintf("holdfast-%d-%s", os.Geteuid(), hex.EncodeToString(sum[:6]))
	var errs []error
	for _, parent := range []string{os.Getenv("RUNTIME_DIRECTORY"), "/dev/shm", os.Getenv("XDG_RUNTIME_DIR")} {
		if parent == "" {
			continue
		}
		var st unix.Statfs_t
		if err := unix.Statfs(parent, &st); err != nil || st.Type != unix.TMPFS_MAGIC {
			errs = append(errs, fmt.Errorf("%s is not in memory", parent))
			continue
		}
		dir := filepath.Join(parent, name)
		if err := ownDir(dir); err != nil {
			errs = append(errs, err)
			continue
		}
		return dir, nil
	}
	return "", errors.Join(append(errs, errors.New("no directory in memory"))...)
}

func ownDir(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.IsDir() || info.Mode().Perm() != 0o700 || int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("%s is there and belongs to somebody else", dir)
	}
	return nil
}
