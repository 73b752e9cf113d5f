// SPDX-License-Identifier: Apache-2.0

package datadir

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

// mountTmpfs mounts a small tmpfs for the time of the test.
func mountTmpfs(t *testing.T, at, options string) {
	t.Helper()
	needRoot(t, "mounts a small tmpfs")
	if err := os.MkdirAll(at, 0o700); err != nil {
		t.Fatal(err)
	}
	err := unix.Mount("tmpfs", at, "tmpfs", 0, options)
	if errors.Is(err, unix.EPERM) {
		t.Skip("skipping: needs root (mounts a small tmpfs)")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// Detached, so that it goes even when a failed test has left a file open.
		if err := unix.Unmount(at, unix.MNT_DETACH); err != nil {
			t.Errorf("unmount %s: %v", at, err)
		}
	})
}

// fillDisk writes until nothing fits any more and returns the file to delete.
func fillDisk(t *testing.T, dir string) (filler string) {
	t.Helper()
	filler = filepath.Join(dir, "filler")
	f, err := os.Create(filler)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, size := range []int{4096, 1} {
		for err = nil; err == nil; {
			_, err = f.Write(make([]byte, size))
		}
		if !isDiskFull(err) {
			t.Fatal(err)
		}
	}
	return filler
}

func TestOpenRefusesATmpfsUnlessForced(t *testing.T) {
	mnt := newPath(t)
	mountTmpfs(t, mnt, "size=64k,mode=700")
	_, err := Open(mnt, Options{})
	wantFault(t, err, diag.CodeFileSystem, true, mnt, "its file system is tmpfs", "--allow-unsafe-storage")
	wantNames(t, mnt)
	d := mustOpen(t, mnt, Options{})
	if got := strings.Join(d.Warnings(), "\n"); !strings.Contains(got, "tmpfs") {
		t.Errorf("got warnings %q, want tmpfs named", got)
	}
	v, err := d.Volume()
	if err != nil || v.Total != 64<<10 || v.FSType != "tmpfs" || v.Used == 0 || v.Free+v.Used != v.Total {
		t.Errorf("got %+v, %v, want 64 KiB of tmpfs", v, err)
	}
	mustClose(t, d)
}

func TestVolumeIsWhereTheStoreIsMounted(t *testing.T) {
	path := newPath(t)
	mountTmpfs(t, filepath.Join(path, storeName), "size=64k,mode=700")
	d := mustOpen(t, path, Options{})
	if v, err := d.Volume(); err != nil || v.Total != 64<<10 {
		t.Errorf("got %+v, %v, want the 64 KiB of the store's own volume", v, err)
	}
	if got := strings.Join(d.Warnings(), "\n"); !strings.Contains(got, "tmpfs") {
		t.Errorf("got warnings %q, want the store's tmpfs named", got)
	}
}

func TestOpenOfANewDirectoryOnAFullDisk(t *testing.T) {
	mnt := newPath(t)
	mountTmpfs(t, mnt, "size=64k,mode=700")
	dir := filepath.Join(mnt, "data")
	filler := fillDisk(t, mnt)
	wantFault(t, openErr(dir, Options{}), diag.CodeDiskFull, false, dir, "no space left on device", "(0 bytes available)")
	wantNames(t, dir, lockName)
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	mustClose(t, mustOpen(t, dir, Options{}))
}

func TestOpenWithoutInodesIsAFullDisk(t *testing.T) {
	mnt := newPath(t)
	mountTmpfs(t, mnt, "size=64k,nr_inodes=2,mode=700")
	dir := filepath.Join(mnt, "data")
	wantFault(t, openErr(dir, Options{}), diag.CodeDiskFull, false, dir, "no space left on device", "inodes")
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(mnt, "last"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	wantFault(t, openErr(dir, Options{}), diag.CodeDiskFull, false, "create data directory "+dir)
}

// A node whose disk has filled up must start, so that consumers can empty it,
// also when it has just been upgraded.
func TestOpenOfAnExistingDirectoryOnAFullDisk(t *testing.T) {
	mnt := newPath(t)
	mountTmpfs(t, mnt, "size=64k,mode=700")
	dir := filepath.Join(mnt, "data")
	d := mustOpen(t, dir, Options{Version: "0.1.0"})
	name := d.NodeName()
	mustClose(t, d)
	// Not even the description of the lock fits.
	if err := os.Truncate(filepath.Join(dir, lockName), 0); err != nil {
		t.Fatal(err)
	}
	fillDisk(t, mnt)
	d = mustOpen(t, dir, Options{Version: "0.2.0"})
	if d.NodeName() != name {
		t.Errorf("got name %q, want %q", d.NodeName(), name)
	}
	if got := strings.Join(d.Warnings(), "\n"); !strings.Contains(got, `"0.2.0" is not recorded`) {
		t.Errorf("got warnings %q, want the missing record", got)
	}
	wantFault(t, openErr(dir, Options{}), diag.CodeLocked, false, "in use by another process")
	mustClose(t, d)
}

func TestWriteFileKeepsTheOldContentOnAFullDisk(t *testing.T) {
	mnt := newPath(t)
	mountTmpfs(t, mnt, "size=64k,mode=700")
	path := filepath.Join(mnt, "identity.json")
	if err := WriteFile(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	filler := fillDisk(t, mnt)
	err := WriteFile(path, []byte(strings.Repeat("new", 10_000)), 0o600)
	wantFault(t, err, diag.CodeDiskFull, false, "write "+path, "(0 bytes available)")
	if got := mustRead(t, path); got != "old" {
		t.Errorf("got %d bytes, want the old content", len(got))
	}
	wantNames(t, mnt, "filler", "identity.json")
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(path, []byte("new"), 0o600); err != nil || mustRead(t, path) != "new" {
		t.Errorf("got %v after space was freed, want the new content", err)
	}
}

func TestOpenRefusesAReadOnlyVolume(t *testing.T) {
	mnt := newPath(t)
	mountTmpfs(t, mnt, "size=64k,mode=700")
	dir := filepath.Join(mnt, "data")
	mustClose(t, mustOpen(t, dir, Options{}))
	if err := unix.Mount("", mnt, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	wantFault(t, openErr(dir, Options{}), diag.CodeAccess, true, dir, "read-only")
	wantFault(t, openErr(filepath.Join(mnt, "new"), Options{}), diag.CodeAccess, true, "create data directory", "read-only")
	if v, err := VolumeOf(dir); err != nil || !v.ReadOnly {
		t.Errorf("got %+v, %v, want a read-only volume", v, err)
	}
}

func TestFSTypeIsThatOfTheLongestMount(t *testing.T) {
	const mounts = `26 1 254:0 / / rw,relatime - ext4 /dev/vda rw
41 26 0:50 / /srv rw,relatime shared:7 master:2 - nfs4 server:/export rw,vers=4.2
42 41 8:1 / /srv/my\040data rw - xfs /dev/sda1 rw
43 26 8:2 / /mnt rw - ext4 /dev/sda2 rw
44 43 0:60 / /mnt rw - fuse.sshfs me@host:/ rw
45 26 0:61 / /data\134x rw - btrfs /dev/sdb rw
short line
46 26 0:62 / /odd rw
`
	for path, want := range map[string]string{
		"/":              "ext4",
		"/srvx/y":        "ext4",
		"/srv":           "nfs4",
		"/srv/x/y":       "nfs4",
		"/srv/my data/x": "xfs",
		"/mnt/x":         "fuse.sshfs",
		`/data\x/y`:      "btrfs",
		"/odd/x":         "ext4",
	} {
		if got := fsTypeIn(mounts, path); got != want {
			t.Errorf("fsTypeIn(%q): got %q, want %q", path, got, want)
		}
	}
}

func TestKernelNumbersNeedNoListOfMounts(t *testing.T) {
	for magic, want := range map[uint32]string{
		unix.TMPFS_MAGIC: "tmpfs", unix.RAMFS_MAGIC: "ramfs", unix.NFS_SUPER_MAGIC: "nfs", unix.CIFS_SUPER_MAGIC: "cifs",
		unix.SMB2_SUPER_MAGIC: "smb2", unix.SMB_SUPER_MAGIC: "smbfs", unix.V9FS_MAGIC: "9p", unix.CEPH_SUPER_MAGIC: "ceph",
		unix.AFS_SUPER_MAGIC: "afs", unix.AFS_FS_MAGIC: "afs",
	} {
		if got := fsTypeOf("/", magic); got != want || hazardOf(got) == "" {
			t.Errorf("fsTypeOf(%#x): got %q, want %q, refused", magic, got, want)
		}
	}
}
