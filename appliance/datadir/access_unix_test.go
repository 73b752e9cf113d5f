// SPDX-License-Identifier: Apache-2.0

//go:build unix

package datadir

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

// nobody is a user that is not root on every system; it need not have a name.
const nobody = 65534

func needRoot(t *testing.T, why string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skipf("skipping: needs root (%s)", why)
	}
}

func chown(t *testing.T, uid int, elem ...string) {
	t.Helper()
	if err := os.Chown(filepath.Join(elem...), uid, uid); err != nil {
		t.Fatal(err)
	}
}

func TestOpenRefusesADirectoryOthersCanWrite(t *testing.T) {
	for _, mode := range []os.FileMode{0o770, 0o702, 0o777} {
		dir := newDirWith(t)
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		wantFault(t, openErr(dir, Options{}), diag.CodeAccess, true, dir, "`chmod go-w "+dir+"`")
		wantNames(t, dir)
	}
	dir := newDirWith(t)
	if err := os.Chmod(dir, 0o750); err != nil {
		t.Fatal(err)
	}
	mustOpen(t, dir, Options{})
}

func TestOpenRefusesADirectoryOfAnotherUser(t *testing.T) {
	needRoot(t, "runs a process as another user")
	dir := newDirWith(t)
	refused, _ := startChild(t, order{Dir: dir, UID: nobody})
	wantReport(t, refused, diag.CodeAccess, true, "belongs to root (uid 0)", "(uid 65534)", "sudo chown -R ", dir)
	wantNames(t, dir)

	chown(t, 12345, dir)
	refused, _ = startChild(t, order{Dir: dir, UID: nobody})
	wantReport(t, refused, diag.CodeAccess, true, "belongs to uid 12345", "sudo chown -R ", "sudo -u '#12345' holdfast run")
	wantNames(t, dir)
}

func TestOpenAsRootRefusesADirectoryOfAnotherUser(t *testing.T) {
	needRoot(t, "changes the owner of a directory")
	dir := newDirWith(t)
	chown(t, nobody, dir)
	wantFault(t, openErr(dir, Options{}), diag.CodeAccess, true, dir, "(uid 65534)", "runs as root", "sudo -u ", "holdfast run")
	wantNames(t, dir)
	if got, _ := startChild(t, order{Dir: dir, UID: nobody}); got.Err != "" {
		t.Errorf("got %q as the owner, want no error", got.Err)
	}
}

func TestOpenRefusesFilesThatAnotherUserLeft(t *testing.T) {
	needRoot(t, "changes the owner of files")
	for _, name := range []string{lockName, stampName, credsName} {
		path := newPath(t)
		mustClose(t, mustOpen(t, path, Options{}))
		chown(t, nobody, path, name)
		wantFault(t, openErr(path, Options{}), diag.CodeAccess, true, filepath.Join(path, name)+" belongs to ", "(uid 65534)")

		for _, ours := range []string{"", lockName, stampName, credsName} {
			chown(t, nobody, path, ours)
		}
		chown(t, 0, path, name)
		refused, _ := startChild(t, order{Dir: path, UID: nobody})
		wantReport(t, refused, diag.CodeAccess, true, filepath.Join(path, name)+" belongs to root", "sudo chown -R ", path)
	}
}

func TestOpenRefusesADirectoryItCannotWriteOrReach(t *testing.T) {
	needRoot(t, "runs a process as another user")
	dir := newDirWith(t)
	chown(t, nobody, dir)
	if err := os.Chmod(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	refused, _ := startChild(t, order{Dir: dir, UID: nobody})
	wantReport(t, refused, diag.CodeAccess, true, dir, "permission denied", "chmod u+rwx")

	refused, _ = startChild(t, order{Dir: newPath(t), UID: nobody})
	wantReport(t, refused, diag.CodeAccess, true, "create data directory", "permission denied", "sudo install -d")

	hidden := filepath.Join(newDirWith(t), "sub", "data")
	refused, _ = startChild(t, order{Dir: hidden, UID: nobody})
	wantReport(t, refused, diag.CodeAccess, true, hidden, "permission denied")
}
