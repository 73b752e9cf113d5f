// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats-server/v2/server"
)

// The format is the server's; that it still says so is for the process tests.
func TestAnUnfinishedBatchIsNoErrorUnlessItsRestIsThere(t *testing.T) {
	h := &logged{}
	l := newServerLog(slog.New(h), Names{}, newRecovery(Names{}), notRefused, nil)
	l.Errorf(formatNotRestored, "shop", "ORDERS", uint64(7), &fs.PathError{Op: "stat", Path: "x", Err: fs.ErrNotExist})
	l.Errorf(formatNotRestored, "shop", "ORDERS", uint64(7), errors.New("cannot be read"))
	want := []string{
		"INFO text=Stream 'shop > ORDERS' ends in the middle of a batch that was never acknowledged; nothing is lost",
		"ERROR text=Failed restoring partial batch write for stream 'shop > ORDERS' at sequence 7: cannot be read",
	}
	if diff := cmp.Diff(want, h.all()); diff != "" {
		t.Errorf("log differs (-want +got):\n%s", diff)
	}
}

func TestTwoNodesDoNotShareMemory(t *testing.T) {
	r := newRealm(t)
	a, b := newEngine(t, r, r.settings(t), nil), newEngine(t, r, r.settings(t), nil)
	if a.memoryName() == b.memoryName() {
		t.Errorf("got %s for two stores of nodes of one name, want one for each", a.memoryName())
	}
}

func TestStagingMovesBetweenMemoryAndDisk(t *testing.T) {
	r := newRealm(t)
	s := r.settings(t)
	e := newEngine(t, r, s, nil)
	stream := filepath.Join(s.StoreDir, server.JetStreamStoreDir, "A", streamsDir, "S")
	if err := os.MkdirAll(stream, 0o700); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(stream, batchesDir)
	stage := func() string {
		t.Helper()
		if err := e.StageInMemory("A", "S"); err != nil {
			t.Skipf("skipping: %v", err)
		}
		dir, err := os.Readlink(link)
		if err != nil {
			t.Fatal(err)
		}
		return dir
	}
	dir := stage()
	if err := os.RemoveAll(filepath.Dir(filepath.Dir(dir))); err != nil { // somebody tidied up
		t.Fatal(err)
	}
	if got := stage(); got != dir {
		t.Errorf("got %s, want %s again", got, dir)
	}
	for range 2 {
		if err := e.StageOnDisk("A", "S"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Lstat(link); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v for the link of a stream on disk, want none", err)
	}
	stage()
	if err := e.unstageEarlier(); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{link, dir} {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("got %v for %s of an earlier start, want it removed", err, path)
		}
	}
}
