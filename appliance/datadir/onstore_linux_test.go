// SPDX-License-Identifier: Apache-2.0

package datadir

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// What is measured, tried and kept free is the volume that messages are on.
func TestOnStoreIsOnTheVolumeOfTheStore(t *testing.T) {
	dir := t.TempDir()
	store := filepath.Join(dir, storeName)
	if got := OnStore(dir); got != dir {
		t.Errorf("got %s without a store, want %s", got, dir)
	}
	if err := os.MkdirAll(filepath.Join(store, "ACCOUNT"), 0o700); err != nil {
		t.Fatal(err)
	}
	if got := OnStore(dir); got != dir {
		t.Errorf("got %s with the store on the same volume, want %s", got, dir)
	}
	mountTmpfs(t, store, "size=4m")
	if got := OnStore(dir); got != dir {
		t.Errorf("got %s with an empty volume, want %s", got, dir)
	}
	account := filepath.Join(store, "ACCOUNT")
	if err := os.Mkdir(account, 0o700); err != nil {
		t.Fatal(err)
	}
	if got := OnStore(dir); got != account {
		t.Errorf("got %s, want %s", got, account)
	}
	d := &Dir{path: dir}
	_, flush := d.FlushTime()
	took, probe := d.Probe()
	if err := errors.Join(flush, probe); err != nil || took <= 0 {
		t.Fatalf("got %v and %s for a write, want it to work and to take time", err, took)
	}
	if _, err := os.Stat(filepath.Join(account, "probe")); err != nil {
		t.Errorf("got %v, want the volume of the store tried", err)
	}
	if filepath.Dir(d.BallastFile()) != account {
		t.Errorf("got %s, want room kept on the volume of the store", d.BallastFile())
	}
	// Found again when another account comes first.
	growing := d.GrowingDir()
	if err := errors.Join(os.Mkdir(growing, 0o700), os.Mkdir(filepath.Join(store, "AAA"), 0o700)); err != nil {
		t.Fatal(err)
	}
	if d.GrowingDir() != growing {
		t.Errorf("got %s, want %s", d.GrowingDir(), growing)
	}
}
