// SPDX-License-Identifier: Apache-2.0

//go:build unix

package datadir

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

func replaceFile(from, to string) error { return os.Rename(from, to) }

// syncDir makes the names in dir durable.
func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// fullOfWhat is what a volume with free bytes lacks.
const fullOfWhat = "it is out of inodes or a quota is reached"

func isDiskFull(err error) bool {
	return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)
}

func isReadOnly(err error) bool { return errors.Is(err, unix.EROFS) }
