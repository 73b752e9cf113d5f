// SPDX-License-Identifier: Apache-2.0

package datadir

import (
	"errors"
	"os"
	"path/filepath"
)

// The name of a file that is being written; Open deletes what a power cut left.
const (
	tempPrefix = ".holdfast-"
	tempSuffix = ".tmp"
)

// WriteFile replaces path with data, durably and at once: after a crash or on a
// full disk the file is either the old one or the new one, never a mixture, and
// when WriteFile returns nil the new one survives a power cut.
func WriteFile(path string, data []byte, perm os.FileMode) error {
	return writeFile(path, data, perm, func(string) error { return nil })
}

// WriteFileLike does the same, and the file belongs to whom another file or a directory
// belongs.
func WriteFileLike(path string, data []byte, perm os.FileMode, like string) error {
	return writeFile(path, data, perm, func(temp string) error { return OwnLike(temp, like) })
}

func writeFile(path string, data []byte, perm os.FileMode, own func(temp string) error) error {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, tempPrefix+"*"+tempSuffix)
	if err != nil {
		return explain("write", path, err)
	}
	err = errors.Join(fill(f, data, perm), f.Close())
	if err == nil {
		err = own(f.Name())
	}
	if err == nil {
		err = replaceFile(f.Name(), path)
	}
	if err != nil {
		// Best effort: Open deletes it too, and the first error is the one that matters.
		_ = os.Remove(f.Name())
		return explain("write", path, err)
	}
	if err := syncDir(dir); err != nil {
		return explain("write", path, err)
	}
	return nil
}

func fill(f *os.File, data []byte, perm os.FileMode) error {
	if _, err := f.Write(data); err != nil {
		return err
	}
	// CreateTemp has made it 0600; file systems without modes refuse to be asked.
	if perm != 0o600 {
		if err := f.Chmod(perm); err != nil {
			return err
		}
	}
	return f.Sync()
}
