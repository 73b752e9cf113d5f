// SPDX-License-Identifier: Apache-2.0

package datadir

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

func TestOpenRefusesAStoreThatIsGone(t *testing.T) {
	path := newPath(t)
	d := mustOpen(t, path, Options{})
	account := filepath.Join(path, storeName, "ACCOUNT")
	if err := os.MkdirAll(account, 0o700); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := d.MarkUsed(); err != nil {
			t.Fatal(err)
		}
	}
	mustClose(t, d)
	mustClose(t, mustOpen(t, path, Options{})) // the store is there

	for _, gone := range []string{account, filepath.Join(path, storeName)} {
		if err := os.Remove(gone); err != nil {
			t.Fatal(err)
		}
		_, err := Open(path, Options{AllowUnsafe: true})
		wantFault(t, err, diag.CodeStoreGone, true, filepath.Join(path, storeName), "rm "+filepath.Join(path, usedName))
	}
	if err := os.Remove(filepath.Join(path, usedName)); err != nil {
		t.Fatal(err)
	}
	mustClose(t, mustOpen(t, path, Options{})) // asked for
}
