// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/moby/sys/mountinfo"
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

// mountOf is the mount that a path is on.
func (m *machine) mountOf(path string) (*mountinfo.Info, error) {
	for {
		real, err := filepath.EvalSymlinks(path)
		if err == nil {
			path = real
			break
		}
		if !gone(err) || path == filepath.Dir(path) {
			return nil, err
		}
		path = filepath.Dir(path)
	}
	above := func(i *mountinfo.Info) (skip, stop bool) {
		at := strings.TrimSuffix(i.Mountpoint, "/")
		return path != i.Mountpoint && !strings.HasPrefix(path, at+"/"), false
	}
	all, err := mountinfo.GetMountsFromReader(bytes.NewReader(m.raw("/proc/self/mountinfo")), above)
	if err != nil || len(all) == 0 {
		return nil, fmt.Errorf("find the mount of %s in /proc/self/mountinfo: %w", path, err)
	}
	best := all[0]
	for _, i := range all {
		if len(i.Mountpoint) >= len(best.Mountpoint) { // of several at one place the last hides the others
			best = i
		}
	}
	return best, nil
}
