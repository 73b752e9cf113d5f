// SPDX-License-Identifier: Apache-2.0

package datadir

import (
	"os"
	"testing"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

func TestHoldKeepsNodesOut(t *testing.T) {
	path := newPath(t)
	if _, err := Hold(path); err == nil {
		t.Error("got a directory held that is not there")
	}
	empty := t.TempDir()
	if _, err := Hold(empty); err == nil {
		t.Error("got a directory held that no node has run on")
	}
	if left, err := os.ReadDir(empty); err != nil || len(left) > 0 {
		t.Errorf("got %v, %v in it, want nothing", left, err)
	}
	d := mustOpen(t, path, Options{})
	_, err := Hold(path)
	wantFault(t, err, diag.CodeLocked, false, path, "")
	mustClose(t, d)
	release, err := Hold(path)
	if err != nil {
		t.Fatal(err)
	}
	_, err = Open(path, Options{AllowUnsafe: true})
	wantFault(t, err, diag.CodeLocked, false, path, "")
	if err := release(); err != nil {
		t.Fatal(err)
	}
	mustClose(t, mustOpen(t, path, Options{}))
}
