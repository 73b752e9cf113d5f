// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sys/unix"
)

// mountSmall mounts a volume of some MiB in memory.
func mountSmall(t *testing.T, mib int) string {
	t.Helper()
	at := t.TempDir()
	if err := unix.Mount("tmpfs", at, "tmpfs", 0, fmt.Sprintf("size=%dm", mib)); err != nil {
		if os.Getenv("HOLDFAST_TEST_SKIP_NOTHING") != "" {
			t.Fatal(err)
		}
		t.Skipf("skipping: needs a mount: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(at, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return at
}

func TestReopenEndsAWriteError(t *testing.T) {
	volume := mountSmall(t, 32)
	r := newRealm(t, "shop")
	s := r.settings(t)
	s.StoreDir = filepath.Join(volume, "store")
	e := started(t, r, s, nil)
	js, err := jetstream.New(connect(t, r, e, "shop"), jetstream.WithDefaultTimeout(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}}); err != nil {
		t.Fatal(err)
	}
	acked := uint64(0)
	publish := func() error {
		ack, err := js.Publish(t.Context(), "s", make([]byte, 1000), jetstream.WithRetryAttempts(1))
		if err == nil {
			acked = ack.Sequence
		}
		return err
	}
	if err := publish(); err != nil {
		t.Fatal(err)
	}
	eat(t, volume)
	for err == nil {
		err = publish()
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v on a full volume, want no answer: the server has changed", err)
	}
	if err := os.Remove(filepath.Join(volume, "eaten")); err != nil {
		t.Fatal(err)
	}
	if err := publish(); err == nil {
		t.Fatal("a full volume does no harm any more: Reopen is not needed")
	}
	if err := e.JetStreamReady(); err == nil {
		t.Error("got ready with a stream that can't be written")
	}

	if err := e.Reopen(); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(e.Health(), e.JetStreamReady()); err != nil {
		t.Errorf("got %v, want a node in order", err)
	}
	before := acked
	eventually(t, publish)
	info, err := js.Stream(t.Context(), "S")
	if err != nil {
		t.Fatal(err)
	}
	if st := info.CachedInfo().State; st.FirstSeq != 1 || st.LastSeq < acked || acked <= before || st.Msgs != st.LastSeq {
		t.Errorf("got %+v with %d acknowledged before and %d after, want all of them", st, before, acked)
	}
}

// eat fills the volume to the last byte, as another program would.
func eat(t *testing.T, volume string) {
	t.Helper()
	f, err := os.Create(filepath.Join(volume, "eaten"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for block := make([]byte, 4096); err == nil; {
		_, err = f.Write(block)
	}
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
}
