// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// memoryParents are where there may be a file system in memory, best first.
func memoryParents() []string {
	all := []string{os.Getenv("RUNTIME_DIRECTORY"), "/dev/shm", os.Getenv("XDG_RUNTIME_DIR")}
	return slices.DeleteFunc(all, func(p string) bool { return p == "" })
}

// memoryDir makes a directory of ours on a file system in memory. Everybody may write
// beside it, so what is there under its name already must be ours, too.
func memoryDir(name string) (string, error) {
	var errs []error
	for _, parent := range memoryParents() {
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

// memoryDirs are the directories that memoryDir made under a name earlier.
func memoryDirs(name string) []string {
	var out []string
	for _, parent := range memoryParents() {
		if dir := filepath.Join(parent, name); checkOwn(dir) == nil {
			out = append(out, dir)
		}
	}
	return out
}

func ownDir(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return checkOwn(dir)
}

func checkOwn(dir string) error {
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
