// SPDX-License-Identifier: Apache-2.0

package datadir

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/windows"
)

// replaceFile renames through to the disk: Windows has no fsync for directories.
func replaceFile(from, to string) error {
	src, err := windows.UTF16PtrFromString(from)
	if err != nil {
		return err
	}
	dst, err := windows.UTF16PtrFromString(to)
	if err != nil {
		return err
	}
	// Whoever has one of them open for a moment, such as a scanner or a backup, makes it
	// fail for that moment.
	for pause, deadline := time.Millisecond, time.Now().Add(patience); ; pause *= 2 {
		err = windows.MoveFileEx(src, dst, windows.MOVEFILE_REPLACE_EXISTING|windows.MOVEFILE_WRITE_THROUGH)
		switch {
		case err == nil:
			return nil
		case !isBusy(err) || time.Now().Add(pause).After(deadline):
			return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
		}
		<-time.After(pause)
	}
}

// patience is how long a file that somebody else has open is waited for.
const patience = 2 * time.Second

// isBusy reports whether an error may come from somebody who has a file open: the one in
// whose place another is put counts as one that may not be changed.
func isBusy(err error) bool {
	return errors.Is(err, windows.ERROR_SHARING_VIOLATION) || errors.Is(err, windows.ERROR_LOCK_VIOLATION) || errors.Is(err, windows.ERROR_ACCESS_DENIED)
}

func syncDir(string) error { return nil }

// fullOfWhat is what a volume with free bytes lacks.
const fullOfWhat = "a quota is reached"

func isDiskFull(err error) bool {
	return errors.Is(err, windows.ERROR_DISK_FULL) || errors.Is(err, windows.ERROR_HANDLE_DISK_FULL) ||
		errors.Is(err, windows.ERROR_DISK_QUOTA_EXCEEDED)
}

func isReadOnly(err error) bool { return errors.Is(err, windows.ERROR_WRITE_PROTECT) }
