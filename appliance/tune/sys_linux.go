// SPDX-License-Identifier: Apache-2.0

package tune

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

// writable reports whether root could write a setting: in a container it can't.
func writable(file string) bool {
	if os.Geteuid() != 0 {
		var st unix.Statfs_t
		return unix.Statfs(file, &st) == nil && st.Flags&unix.ST_RDONLY == 0
	}
	return unix.Access(file, unix.W_OK) == nil
}

func isReadOnly(err error) bool { return errors.Is(err, unix.EROFS) }

// owned refuses a file that somebody else could have written: what is in it goes into
// the kernel.
func owned(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || int(st.Uid) != os.Geteuid() || info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("%s can be written by others than %d (mode %v)", path, os.Geteuid(), info.Mode().Perm())
	}
	return nil
}

// lock keeps a second tune out, for as long as this one changes something.
func (in Input) lock() (unlock func() error, err error) {
	dir := filepath.Dir(in.stateFile(recordFile))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make directory: %w", err)
	}
	f, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, diag.Fail(diag.CodeTune, errors.New("another `holdfast tune` is at work"), "wait for its end, then run this again")
		}
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	return f.Close, nil
}

// forget takes a file out of the page cache, so that the next read is the disk's.
func forget(f *os.File) error { return unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED) }

// begin has the kernel write what a file has in memory, as it does by itself in the
// background, and does not wait.
func begin(f *os.File) error {
	return unix.SyncFileRange(int(f.Fd()), 0, 0, unix.SYNC_FILE_RANGE_WRITE)
}
