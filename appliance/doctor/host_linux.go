// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/holdfast-mq/holdfast/appliance/datadir"
)

// clockSynced asks the kernel whether something keeps its clock right.
func clockSynced() (bool, error) {
	var t unix.Timex // with no mode set it only reads
	_, err := unix.Adjtimex(&t)
	return t.Status&unix.STA_UNSYNC == 0, err
}

// ownFileLimit is the hard limit: a Go program raises its soft limit to it.
func ownFileLimit() (uint64, error) {
	var l unix.Rlimit
	err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l)
	return l.Max, err
}

// lockHolder is the process that has locked the data directory, 0 when there is none
// or it can't be seen. It reads the kernel's list: trying the lock would keep a node
// out that starts just then.
func (m *machine) lockHolder() int {
	info, err := os.Stat(datadir.LockPath(m.dataDir()))
	if err != nil {
		return 0
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0
	}
	for line := range strings.Lines(m.read("/proc/locks")) {
		f := strings.Fields(line)
		if len(f) < 8 || f[1] != "FLOCK" { // "->" stands there for one that waits
			continue
		}
		var pid, major, minor, inode int
		if _, err := fmt.Sscanf(f[4]+" "+f[5], "%d %x:%x:%d", &pid, &major, &minor, &inode); err != nil || inode != int(st.Ino) || pid <= 0 {
			continue
		}
		// btrfs and overlay number their devices differently here and there.
		if unix.Mkdev(uint32(major), uint32(minor)) == st.Dev || m.hasOpen(pid, datadir.LockPath(m.dataDir())) {
			return pid
		}
	}
	return 0
}

func (m *machine) hasOpen(pid int, path string) bool {
	links, err := filepath.Glob(m.at(fmt.Sprintf("/proc/%d/fd/*", pid)))
	if err != nil {
		return false
	}
	for _, l := range links {
		if target, err := os.Readlink(l); err == nil && target == path {
			return true
		}
	}
	return false
}

// inodes of the volume of path; total is 0 where the file system has no fixed number.
func inodes(path string) (total, free uint64, err error) {
	var st unix.Statfs_t
	err = unix.Statfs(path, &st)
	return st.Files, st.Ffree, err
}
