// SPDX-License-Identifier: Apache-2.0

package disk

import (
	"os"
	"path/filepath"
	"testing"
)

func TestBallastIsThereUntilTheVolumeIsFull(t *testing.T) {
	const line, size = 4 * mib, 1 * mib
	b := Ballast{Path: filepath.Join(t.TempDir(), "ballast"), Size: size}
	exists := func() bool {
		_, err := os.Stat(b.Path)
		return err == nil
	}
	for i, step := range []struct {
		free  uint64
		owed  uint64
		gone  bool
		there bool
	}{
		{free: 6*mib - 1, owed: size}, // publishing would stop for it
		{free: 6 * mib, there: true},
		{free: line - 1, there: true}, // publishers are stopped; others may need more room
		{free: size / 2, there: true},
		{free: size/2 - 1, owed: size, gone: true},
		{free: 3 * size, owed: size},
		{free: 6 * mib, there: true},
	} {
		owed, gone, err := b.Tend(Room{Free: step.free}, line)
		if err != nil || owed != step.owed || gone != step.gone || exists() != step.there {
			t.Errorf("step %d: got owed %d, gone %v, there %v, %v, want %+v", i, owed, gone, exists(), err, step)
		}
	}
	if info, err := os.Stat(b.Path); err != nil || info.Size() != size || info.Mode().Perm() != 0o600 {
		t.Errorf("got %v, %v, want %d bytes of ours alone", info, err, size)
	}
}

func TestBallastOfACrashIsMadeAnew(t *testing.T) {
	b := Ballast{Path: filepath.Join(t.TempDir(), "ballast"), Size: mib}
	if err := os.WriteFile(b.Path, make([]byte, 3*kib), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, size := range []uint64{mib, 2 * mib} { // the second when min_free was changed
		b.Size = size
		if owed, gone, err := b.Tend(Room{Free: gib}, 4*mib); err != nil || owed != 0 || gone {
			t.Errorf("got owed %d, gone %v, %v, want a whole one", owed, gone, err)
		}
		if info, err := os.Stat(b.Path); err != nil || info.Size() != int64(size) {
			t.Errorf("got %v, %v, want %d bytes", info, err, size)
		}
	}
}

func TestBallastGivesItsInode(t *testing.T) {
	b := Ballast{Path: filepath.Join(t.TempDir(), "ballast"), Size: mib}
	for inodes, want := range []bool{9: true, 10: false} {
		if inodes < 9 {
			continue
		}
		if owed, _, err := b.Tend(Room{Free: gib}, mib); err != nil || owed != 0 {
			t.Fatalf("got owed %d, %v, want one made", owed, err)
		}
		if _, gone, err := b.Tend(Room{Free: gib, Inodes: uint64(inodes), InodesTotal: 1000}, mib); err != nil || gone != want {
			t.Errorf("%d inodes: got gone %v, %v, want %v", inodes, gone, err, want)
		}
	}
}
