// SPDX-License-Identifier: Apache-2.0

//go:build unix

package datadir

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

func TestOpenWorksAfterTheOwnerWasKilled(t *testing.T) {
	path := newPath(t)
	owner, kill := startChild(t, order{Dir: path, Spawn: true})
	if owner.Err != "" {
		t.Fatal(owner.Err)
	}
	before := mustRead(t, path, stampName)
	kill()
	// A process that the owner started must not have inherited the lock.
	if err := syscall.Kill(owner.Spawned, 0); err != nil {
		t.Fatalf("got %v from the owner's own child, want it alive", err)
	}
	mustOpen(t, path, Options{})
	if got := mustRead(t, path, stampName); got != before {
		t.Errorf("got stamp %q, want %q", got, before)
	}
}

func TestDeletingTheLockFileDoesNotUnlock(t *testing.T) {
	path := newPath(t)
	owner, _ := startChild(t, order{Dir: path})
	if owner.Err != "" {
		t.Fatal(owner.Err)
	}
	if err := os.Remove(filepath.Join(path, lockName)); err != nil {
		t.Fatal(err)
	}
	wantFault(t, openErr(path, Options{}), diag.CodeLocked, false, path)
	// The new LOCK of the refused one must not count as held.
	wantFault(t, openErr(path, Options{}), diag.CodeLocked, false, path)
}
