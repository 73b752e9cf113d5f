// SPDX-License-Identifier: Apache-2.0

package datadir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

func TestWriteFileReplacesTheContentAndTheMode(t *testing.T) {
	dir := newDirWith(t, "file")
	path := filepath.Join(dir, "file")
	for _, perm := range []os.FileMode{0o600, 0o640, 0o644, 0o600} {
		if err := WriteFile(path, []byte(perm.String()), perm); err != nil {
			t.Fatal(err)
		}
		if got := mustRead(t, path); got != perm.String() {
			t.Errorf("got %q, want %q", got, perm)
		}
		fi, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := fi.Mode().Perm(); got != perm && runtime.GOOS != "windows" {
			t.Errorf("got mode %04o, want %04o", got, perm)
		}
	}
	wantNames(t, dir, "file")
}

func TestWriteFileLeavesNothingBehindWhenItFails(t *testing.T) {
	dir := newDirWith(t, "target/", "target/full")
	err := WriteFile(filepath.Join(dir, "target"), []byte("new"), 0o600)
	if err == nil {
		t.Fatal("got no error for a directory in the way, want one")
	}
	wantNames(t, dir, "target")
}

func TestWriteFileNamesThePathOnce(t *testing.T) {
	path := filepath.Join(newPath(t), "absent", "file")
	err := WriteFile(path, nil, 0o600)
	if !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("got %v, want %v", err, fs.ErrNotExist)
	}
	if got, want := err.Error(), "write "+path+": no such file or directory"; got != want && runtime.GOOS != "windows" {
		t.Errorf("got %q, want %q", got, want)
	}
}
