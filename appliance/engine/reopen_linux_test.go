// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
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
	if got := e.WriteErrors(); got != 1 {
		t.Errorf("got %d write errors, want that of the stream", got)
	}
	if got, want := e.Stuck(), []string{"shop/S"}; !slices.Equal(got, want) {
		t.Errorf("got stuck %q, want %q", got, want)
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

// TestReopenSwitchesJetStreamOnAgain has the server switch JetStream off: it does when it
// is not allowed to write.
func TestReopenSwitchesJetStreamOnAgain(t *testing.T) {
	r := newRealm(t, "shop")
	s := r.settings(t)
	e := started(t, r, s, nil)
	js, err := jetstream.New(connect(t, r, e, "shop"), jetstream.WithDefaultTimeout(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}}); err != nil {
		t.Fatal(err)
	}
	publish := func() error {
		_, err := js.Publish(t.Context(), "s", []byte("m"), jetstream.WithRetryAttempts(1))
		return err
	}
	if err := publish(); err != nil {
		t.Fatal(err)
	}
	block := filepath.Join(s.StoreDir, "jetstream", r.public(t, "shop"), "streams", "S", messagesDir, "1"+blockSuffix)
	free := immutable(t, block)
	if err := publish(); err == nil {
		t.Fatal("got a message stored in a file that must not be written")
	}
	eventually(t, func() error {
		if got := e.Stuck(); !slices.Equal(got, []string{allStreams}) {
			return fmt.Errorf("got stuck %q, want all streams: the server has changed", got)
		}
		return nil
	})
	if err := e.JetStreamReady(); err == nil {
		t.Error("got ready without JetStream")
	}
	free()
	if err := e.Reopen(); err != nil {
		t.Fatal(err)
	}
	eventually(t, publish)
	info, err := js.Stream(t.Context(), "S")
	if err != nil {
		t.Fatal(err)
	}
	if st := info.CachedInfo().State; st.FirstSeq != 1 || st.Msgs < 2 || st.Msgs != st.LastSeq {
		t.Errorf("got %+v, want what was acknowledged", st)
	}
	if err := errors.Join(e.Health(), e.JetStreamReady()); err != nil {
		t.Errorf("got %v, want a node in order", err)
	}
}

// immutable makes a file one that nobody may write, root neither, until free is called.
func immutable(t *testing.T, path string) (free func()) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	const flag = 0x10 // FS_IMMUTABLE_FL
	before, err := unix.IoctlGetInt(int(f.Fd()), unix.FS_IOC_GETFLAGS)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, before|flag)
	}
	if err != nil {
		f.Close()
		t.Skipf("skipping: needs root and a file system with immutable files: %v", err)
	}
	freed := false
	free = func() {
		if !freed {
			freed = true
			if err := unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, before); err != nil {
				t.Error(err)
			}
			f.Close()
		}
	}
	t.Cleanup(free)
	return free
}
