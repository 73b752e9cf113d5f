// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"os"
	"testing"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

func TestALostIdentityComesBackFromItsExport(t *testing.T) {
	dir := t.TempDir()
	r := run(t, open(t, options(t, dir, shop, &logged{}))).waitReady(t)
	before, err := r.Login("shop", "packer", false)
	if err != nil {
		t.Fatal(err)
	}
	data, err := r.ExportIdentity()
	if err != nil {
		t.Fatal(err)
	}
	path, file := r.dir.Path(), r.dir.IdentityFile()
	if err := RestoreIdentity(path, data, true, "test"); diag.CodeOf(err) != diag.CodeLocked {
		t.Errorf("got %v while the node runs, want %s", err, diag.CodeLocked)
	}
	r.stop(t)

	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(options(t, dir, shop, &logged{})); diag.CodeOf(err) != diag.CodeIdentityGone {
		t.Fatalf("got %v without the identity, want %s: a new one could read nothing", err, diag.CodeIdentityGone)
	}
	if err := RestoreIdentity(path, data[:len(data)/2], false, "test"); diag.CodeOf(err) != diag.CodeIdentity {
		t.Errorf("got %v for half a backup, want %s", err, diag.CodeIdentity)
	}
	if err := RestoreIdentity(path, data, false, "test"); err != nil {
		t.Fatal(err)
	}
	r = run(t, open(t, options(t, dir, shop, &logged{}))).waitReady(t)
	after, err := r.Login("shop", "packer", false)
	if err != nil || after.Creds != before.Creds {
		t.Errorf("got other credentials or %v after the restore, want the same", err)
	}
	r.stop(t)
}
