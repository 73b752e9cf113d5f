// SPDX-License-Identifier: Apache-2.0

package acl

import (
	"os"
	"path/filepath"
	"testing"
)

func TestWritersNamesStrangers(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	me, err := Me()
	if err != nil {
		t.Fatal(err)
	}
	if err := Set(dir, Own(me)); err != nil {
		t.Fatal(err)
	}
	if who, err := Writers(dir); err != nil || len(who) > 0 {
		t.Errorf("own directory: got %q, %v, want nobody", who, err)
	}
	if err := Set(dir, "D:PAI(A;OICI;FA;;;WD)"); err != nil {
		t.Fatal(err)
	}
	if who, err := Writers(dir); err != nil || len(who) != 1 {
		t.Errorf("open directory: got %q, %v, want everybody", who, err)
	}
}
