// SPDX-License-Identifier: Apache-2.0

package datadir

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

func TestOpenRefusesATemporaryDirectoryUnlessForced(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp) // what os.TempDir reads on Unix
	t.Setenv("TMP", temp)    // and on Windows
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(temp, link); err != nil {
		t.Fatal(err)
	}
	for _, top := range []string{temp, link} {
		path := filepath.Join(top, "data")
		_, err := Open(path, Options{})
		wantFault(t, err, diag.CodeFileSystem, true, path, "it is below "+temp+",", "--allow-unsafe-storage")
		if _, err := os.Stat(path); !os.IsNotExist(err) {
			t.Errorf("got %v, want nothing to be created", err)
		}
	}
	d := mustOpen(t, filepath.Join(temp, "data"), Options{})
	if got := strings.Join(d.Warnings(), "\n"); !strings.Contains(got, "it is below "+temp) {
		t.Errorf("got warnings %q, want the temporary directory", got)
	}
}

func TestOpenTakesALocalDisk(t *testing.T) {
	top := localDisk(t)
	d, err := Open(filepath.Join(top, "data"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got := d.Warnings(); len(got) != 0 {
		t.Errorf("got warnings %q, want none", got)
	}
	mustClose(t, d)
}

// localDisk makes a directory that is on a disk and not temporary: beside the
// source, at home, or where services keep their state.
func localDisk(t *testing.T) string {
	t.Helper()
	places := []string{"/var/lib"}
	if home, err := os.UserHomeDir(); err == nil {
		places = append([]string{home}, places...)
	}
	if here, err := os.Getwd(); err == nil {
		places = append([]string{here}, places...)
	}
	for _, place := range places {
		v, err := VolumeOf(place)
		if err != nil || tempDirAbove(place) != "" || hazardOf(v.FSType)+cautionOf(v.FSType) != "" {
			continue
		}
		top, err := os.MkdirTemp(place, "holdfast-testdir-") //nolint:usetesting // t.TempDir is below a temporary directory, which is refused
		if err != nil {
			continue
		}
		t.Cleanup(func() { _ = os.RemoveAll(top) })
		return top
	}
	t.Skipf("skipping: needs a directory on a local disk (none of %s)", strings.Join(places, ", "))
	return ""
}

func TestTempDirAbove(t *testing.T) {
	if os.PathSeparator != '/' {
		t.Skip("skipping: needs Unix paths")
	}
	for path, want := range map[string]string{
		"/tmp/x/y":        "/tmp",
		"/tmp":            "/tmp",
		"/var/tmp/x":      "/var/tmp",
		"/tmpfoo/x":       "",
		"/var/lib/x":      "",
		"/var/lib/../tmp": "/var/tmp",
		"/":               "",
	} {
		t.Setenv("TMPDIR", "/")
		if got := tempDirAbove(path); got != want {
			t.Errorf("tempDirAbove(%q): got %q, want %q", path, got, want)
		}
	}
}

func TestFileSystemsAreJudgedByTheirType(t *testing.T) {
	const refused, warned, taken = "refused", "warned", "taken"
	for fsType, want := range map[string]string{
		"ext4": taken, "xfs": taken, "btrfs": taken, "zfs": taken, "f2fs": taken, "NTFS": taken, "apfs": taken, "fuseblk": taken,
		"tmpfs": refused, "ramfs": refused, "ramdisk": refused, "nfs": refused, "nfs4": refused, "cifs": refused, "smb3": refused,
		"9p": refused, "ceph": refused, "fuse.sshfs": refused, "fuse.glusterfs": refused, "network": refused, "smbfs": refused,
		"overlay": warned, "fuse.fuse-overlayfs": warned, "fuse.mergerfs": warned, "fuse": warned,
	} {
		got := taken
		switch {
		case hazardOf(fsType) != "":
			got = refused
		case cautionOf(fsType) != "":
			got = warned
		}
		if got != want {
			t.Errorf("got %s %s, want it %s", fsType, got, want)
		}
	}
}
