// SPDX-License-Identifier: Apache-2.0

//go:build windows

package datadir

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/windows"

	"github.com/holdfast-mq/holdfast/appliance/acl"
	"github.com/holdfast-mq/holdfast/appliance/diag"
)

func TestWindowsDiskFullIsRecognised(t *testing.T) {
	for _, e := range []error{windows.ERROR_DISK_FULL, windows.ERROR_HANDLE_DISK_FULL, windows.ERROR_DISK_QUOTA_EXCEEDED} {
		err := explain("write", `C:\x`, &os.PathError{Op: "write", Path: `C:\x`, Err: e})
		if diag.CodeOf(err) != diag.CodeDiskFull {
			t.Errorf("got %v for %v, want a full disk", err, e)
		}
	}
}

func TestWindowsVolumeHasFreeSpace(t *testing.T) {
	v, err := VolumeOf(t.TempDir())
	if err != nil || v.Free == 0 || v.Total < v.Free || v.FSType == "" {
		t.Errorf("got %+v, %v, want what is free, of what, on which file system", v, err)
	}
}

func TestWindowsWriteFileReplaces(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state größe.json")
	for _, text := range []string{"one", "two"} {
		if err := WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "two" {
		t.Errorf("got %q, %v, want two", got, err)
	}
}

// TestWindowsWriteFileWaitsForAReader has the file open as a scanner has it: nobody may
// replace it meanwhile.
func TestWindowsWriteFileWaitsForAReader(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	if err := WriteFile(path, []byte("one"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path) // which lets others write it, and not replace it
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		<-time.After(50 * time.Millisecond)
		_ = f.Close()
	}()
	if err := WriteFile(path, []byte("two"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "two" {
		t.Errorf("got %q, %v, want two", got, err)
	}
}

func TestWindowsOpenDirectoryIsRefused(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	if err := createDir(dir); err != nil {
		t.Fatal(err)
	}
	if err := checkAccess(dir); err != nil {
		t.Errorf("a new directory: %v", err)
	}
	if err := acl.Set(dir, "D:PAI(A;OICI;FA;;;WD)"); err != nil {
		t.Fatal(err)
	}
	if err := checkAccess(dir); diag.CodeOf(err) != diag.CodeAccess || diag.Hint(err) == "" {
		t.Errorf("got %v for a directory that everybody can write, want a refusal with a hint", err)
	}
}
