// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// copyFiles copies the files of a directory as they are.
func copyFiles(src, dst string) error {
	entries, err := os.ReadDir(src)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Type().IsRegular() {
			if err := copyWhole(filepath.Join(src, e.Name()), filepath.Join(dst, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

func copyWhole(src, dst string) error {
	data, err := os.ReadFile(src)
	if err != nil {
		return err
	}
	return writeWhole(dst, data)
}

// copyThere copies a file that may not be there.
func copyThere(src, dst string) error {
	if err := copyWhole(src, dst); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// copyTree copies a directory that nobody knows.
func copyTree(src, dst string) error {
	return filepath.WalkDir(src, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		below, err := filepath.Rel(src, path)
		if err != nil {
			return err
		}
		switch to := filepath.Join(dst, below); {
		case e.IsDir():
			return os.MkdirAll(to, dirMode)
		case e.Type().IsRegular():
			return copyWhole(path, to)
		}
		return nil
	})
}

// syncTree makes the names in a directory and all below survive a power cut.
func syncTree(root string) error {
	return filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.IsDir() {
			return err
		}
		return syncDir(path)
	})
}
