// SPDX-License-Identifier: Apache-2.0

package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Volume is the size and the kind of a mounted file system.
type Volume struct {
	Total uint64 // bytes
	Free  uint64 // bytes available to this user: without what is reserved for root
	Used  uint64 // bytes
	// FSType is the type as the system names it: "ext4", "fuse.sshfs", "NTFS";
	// "network" and "ramdisk" for such drives on Windows.
	FSType   string
	ReadOnly bool
	// Inodes are the files that can still be made; InodesTotal is 0 where the file
	// system has no such number, or makes them as needed.
	Inodes, InodesTotal uint64
}

// VolumeOf returns the volume that path is on, or would be on: of a path that
// does not exist the nearest parent that does counts.
func VolumeOf(path string) (Volume, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return Volume{}, fmt.Errorf("read volume of %s: %w", path, err)
	}
	for {
		_, err := os.Stat(path)
		if err == nil {
			break
		}
		parent := filepath.Dir(path)
		if !errors.Is(err, fs.ErrNotExist) || parent == path {
			return Volume{}, explain("read volume of", path, err)
		}
		path = parent
	}
	v, err := statVolume(path)
	if err != nil {
		return Volume{}, fmt.Errorf("read volume of %s: %w", path, err)
	}
	return v, nil
}
