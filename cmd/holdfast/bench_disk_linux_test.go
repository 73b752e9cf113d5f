// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// Root measures the disk of the service's node, too.
func TestBenchDiskLeavesNothingOfRoots(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("skipping: needs root")
	}
	const service = 4711
	dir := t.TempDir()
	if err := os.Chown(dir, service, service); err != nil {
		t.Fatal(err)
	}
	benchDisk(t, "--data-dir", dir)
	info, err := os.Stat(filepath.Join(dir, "disk.json"))
	if err != nil {
		t.Fatal(err)
	}
	if st, ok := info.Sys().(*syscall.Stat_t); !ok || st.Uid != service || st.Gid != service {
		t.Errorf("got %+v, want it to belong to whom the directory does", info.Sys())
	}
}
