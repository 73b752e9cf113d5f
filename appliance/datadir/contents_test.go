// SPDX-License-Identifier: Apache-2.0

package datadir

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

func TestOpenRefusesADirectoryOfSomethingElse(t *testing.T) {
	dir := newDirWith(t, "d.txt", "a.txt", "b/", "c\nnew.txt", "e.txt")
	err := openErr(dir, Options{})
	wantFault(t, err, diag.CodeForeignDir, true, dir, `"a.txt", "b", "c\nnew.txt" and 2 more`)
	if strings.Contains(err.Error(), "d.txt") {
		t.Errorf("got %q, want at most three names", err)
	}
	wantNames(t, dir, "a.txt", "b", "c\nnew.txt", "d.txt", "e.txt")
}

func TestOpenTakesADirectoryThatIsAsGoodAsEmpty(t *testing.T) {
	for _, names := range [][]string{
		{},
		{"lost+found/"},
		{"LOCK"},
		{"jetstream/"},
		{"jetstream/lost+found/"},
		{".holdfast-123.tmp"},
	} {
		mustOpen(t, newDirWith(t, names...), Options{})
	}
}

func TestOpenRefusesAStoreWhoseStampIsLost(t *testing.T) {
	for _, names := range [][]string{
		{"identity.json"},
		{"jetstream/", "jetstream/ACCOUNT/"},
		{"jetstream/", "jetstream/$SYS/", "a.txt"},
	} {
		dir := newDirWith(t, names...)
		wantFault(t, openErr(dir, Options{}), diag.CodeStamp, true, dir, "no VERSION file", "restore")
	}
	dangling := newDirWith(t, "identity.json")
	if err := os.Symlink("elsewhere", filepath.Join(dangling, stampName)); err != nil {
		t.Fatal(err)
	}
	wantFault(t, openErr(dangling, Options{}), diag.CodeStamp, true, dangling, "no VERSION file")

	path := newPath(t)
	d := mustOpen(t, path, Options{})
	if err := os.WriteFile(d.IdentityFile(), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	mustClose(t, d)
	if err := os.Remove(filepath.Join(path, stampName)); err != nil {
		t.Fatal(err)
	}
	wantFault(t, openErr(path, Options{}), diag.CodeStamp, true, "identity.json")
}

// What the first look saw may have changed until the lock was taken.
func TestTheContentsAreCheckedAgainBehindTheLock(t *testing.T) {
	d := &Dir{path: newDirWith(t, "identity.json")}
	wantFault(t, d.prepare(Options{}), diag.CodeStamp, true, "identity.json")
	d = &Dir{path: newDirWith(t, "a.txt")}
	wantFault(t, d.prepare(Options{}), diag.CodeForeignDir, true, "a.txt")
}

func TestOpenDeletesWhatAPowerCutLeft(t *testing.T) {
	path := newPath(t)
	d := mustOpen(t, path, Options{})
	mustClose(t, d)
	for _, dir := range []string{path, d.CredsDir()} {
		if err := os.WriteFile(filepath.Join(dir, ".holdfast-1.tmp"), []byte("seed"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	d = mustOpen(t, path, Options{})
	wantNames(t, path, lockName, stampName, credsName, resolverName, tlsName)
	wantNames(t, d.CredsDir())
}
