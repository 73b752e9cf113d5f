// SPDX-License-Identifier: Apache-2.0

//go:build process && linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sys/unix"

	"github.com/holdfast-mq/holdfast/appliance/admin"
)

// knownWithin is when everybody is to know that a disk can't be written.
const knownWithin = 5 * time.Second

// systemd is the other end of $NOTIFY_SOCKET.
type systemd struct {
	mu  sync.Mutex
	got []string
}

// listenAsSystemd makes the node's next start tell systemd how it is.
func (n *node) listenAsSystemd() *systemd {
	n.t.Helper()
	path := filepath.Join(n.t.TempDir(), "notify")
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		n.t.Fatal(err)
	}
	n.env = append(n.env, "NOTIFY_SOCKET="+path)
	s, ended := &systemd{}, make(chan struct{})
	go func() {
		defer close(ended)
		buf := make([]byte, 4096)
		for {
			size, err := c.Read(buf)
			if err != nil {
				return
			}
			s.mu.Lock()
			s.got = append(s.got, string(buf[:size]))
			s.mu.Unlock()
		}
	}()
	n.t.Cleanup(func() {
		_ = c.Close()
		<-ended
	})
	return s
}

func (s *systemd) all() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.got...)
}

// status is the line that systemctl status shows.
func (s *systemd) status() string {
	all := s.all()
	for i := len(all) - 1; i >= 0; i-- {
		if _, line, ok := strings.Cut(all[i], "STATUS="); ok {
			return line
		}
	}
	return ""
}

// saysReadOnly wants every surface to say that the volume is read-only, in time.
func (n *node) saysReadOnly(since time.Time, s *systemd) {
	n.t.Helper()
	const why = "read-only file system"
	n.waitStatus("stopped", func(s admin.Status) bool {
		return !s.Ready && s.Storage.PublishingStopped != "" && strings.Contains(s.Storage.WriteError, why) && s.Storage.WriteErrors > 0
	})
	if code, body := n.get("/readyz"); code != 503 || !strings.Contains(body, why) {
		n.t.Errorf("got %d and %q of /readyz, want the error", code, body)
	}
	if _, body := n.get("/metrics"); !strings.Contains(body, "holdfast_storage_writable 0\n") || !strings.Contains(body, "holdfast_storage_publishing_stopped 1\n") ||
		strings.Contains(body, "holdfast_storage_write_errors_total 0\n") {
		n.t.Error("got metrics that don't tell of it")
	}
	eventually(n.t, patience, func() error {
		if got := s.status(); !strings.HasPrefix(got, "not ready: storage: ") || !strings.Contains(got, why) {
			return fmt.Errorf("got %q in systemctl status, want the error", got)
		}
		return nil
	})
	if line := n.logged("publishing stopped: the data directory can't be written"); !strings.Contains(line, why) {
		n.t.Errorf("got %q, want the error", line)
	}
	if took := time.Since(since); took > knownWithin {
		n.t.Errorf("got it said everywhere after %s, want it within %s", took, knownWithin)
	}
	if code, _ := n.get("/livez"); code != 200 {
		n.t.Errorf("got %d of /livez, want 200: a restart heals no disk", code)
	}
	if code, out := n.holdfast("status", "-c", "holdfast.yaml"); code != exitNotReady || !strings.Contains(out, "PUBLISHING STOPPED since ") || !strings.Contains(out, ", the data directory can't be written") || !strings.Contains(out, "failed writes since the start") {
		n.t.Errorf("got exit code %d and %q, want that it can't be written", code, out)
	}
}

// staysQuiet publishes for longer than the log repeats itself, and wants few lines of it.
func (n *node) staysQuiet(refused ...func() error) {
	n.t.Helper()
	const most = 12 // lines
	before := len(n.log.String())
	for begun := time.Now(); time.Since(begun) < 12*time.Second; {
		for _, publish := range refused {
			if err := publish(); !isFull(err) {
				n.t.Fatalf("got %v, want error %d", err, refusedWhenFull)
			}
		}
	}
	if said := n.log.String()[before:]; strings.Count(said, "\n") > most {
		n.t.Errorf("got %d lines in 12 s, want a log that does not repeat itself:\n%s", strings.Count(said, "\n"), said)
	}
}

func remount(at string, flags uintptr, data string) error {
	return unix.Mount("", at, "", unix.MS_REMOUNT|flags, data)
}

func inMemory(t *testing.T, js jetstream.JetStream) {
	t.Helper()
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "MEMORY", Subjects: []string{"memory"}, Storage: jetstream.MemoryStorage}); err != nil {
		t.Fatal(err)
	}
}

// TestProcessGoesOnAfterAReadOnlyRemount mounts the volume of a live node read-only, and
// writable again. The kernel allows the first only while no file is open for writing: a
// stream closes its own half a minute after its last message.
func TestProcessGoesOnAfterAReadOnlyRemount(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"ext4", "xfs"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			disk := mounted(t, kind, 400)
			n := onVolume(t, disk.At)
			text := strings.Replace(roomy(n.data), "        group_commit: on\n", "", 1)
			n.configure(strings.Replace(text, "storage: {", "storage: {durability: interval, sync_interval: 1s, ", 1))
			s := n.listenAsSystemd()
			n.start()
			js := n.jetStream()
			inMemory(t, js)
			acked := 0
			for ; acked < 20; acked++ {
				publish(t, js, "orders.new", fmt.Sprint(acked))
			}
			publish(t, js, "jobs.new", "job")

			eventually(t, 3*time.Minute, func() error { return remount(disk.At, unix.MS_RDONLY, "") })
			at := time.Now()
			// Before anybody knows: this one has no answer, and its stream takes nothing more.
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if _, err := js.Publish(ctx, "orders.new", []byte("lost")); err == nil {
				t.Error("got a message acknowledged on a read-only volume")
			}
			cancel()
			n.saysReadOnly(at, s)
			refused := func() error {
				_, err := js.Publish(t.Context(), "orders.new", []byte("refused"))
				return err
			}
			n.staysQuiet(refused)
			publish(t, js, "memory", "goes on")
			c := consumer(t, js, "ORDERS", "audit")
			for i := range 5 {
				if got := string(next(t, c).Data()); got != fmt.Sprint(i) {
					t.Errorf("got %q, want message %d read from a read-only volume", got, i)
				}
			}

			if err := remount(disk.At, 0, ""); err != nil {
				t.Fatal(err)
			}
			n.waitStatus("going on", func(s admin.Status) bool { return s.Ready && s.Storage.PublishingStopped == "" })
			eventually(t, patience, func() error {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				_, err := js.Publish(ctx, "orders.new", []byte("again"))
				return err
			})
			acked++
			if got := messagesIn(t, js, "ORDERS"); got != acked {
				t.Errorf("got %d orders, want the %d that were acknowledged", got, acked)
			}
			doJobs(t, js, 1)
			for text, want := range map[string]int{"msg=\"publishing stopped": 1, "msg=\"publishing goes on\"": 1} {
				if got := strings.Count(n.log.String(), text); got != want {
					t.Errorf("got %d lines with %q, want %d", got, text, want)
				}
			}
			eventually(t, patience, func() error {
				if got := s.status(); !strings.HasPrefix(got, "ready") {
					return fmt.Errorf("got %q in systemctl status, want a ready node", got)
				}
				return nil
			})
			n.kill9()
			n.start()
			if got := messagesIn(t, n.jetStream(), "ORDERS"); got != acked {
				t.Errorf("got %d orders after a crash, want %d", got, acked)
			}
			n.stop()
		})
	}
}

// TestProcessSaysThatTheKernelMadeTheVolumeReadOnly has ext4 find an error under load,
// which makes it read-only. It has to be unmounted and mounted after that.
func TestProcessSaysThatTheKernelMadeTheVolumeReadOnly(t *testing.T) {
	t.Parallel()
	disk := mounted(t, "ext4", 400)
	if err := remount(disk.At, 0, "errors=remount-ro"); err != nil {
		t.Fatal(err)
	}
	trigger := filepath.Join("/sys/fs/ext4", deviceName(t, disk.At), "trigger_fs_error")
	if _, err := os.Stat(trigger); err != nil {
		t.Skipf("skipping: %v", err)
	}
	n := onVolume(t, disk.At)
	s := n.listenAsSystemd()
	n.start()
	js := n.jetStream()
	inMemory(t, js)
	for i := range 5 {
		publish(t, js, "jobs.new", fmt.Sprint(i))
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var latest atomic.Uint64
	var publishing sync.WaitGroup
	for range 4 {
		publishing.Go(func() {
			for ctx.Err() == nil {
				ctx, cancel := context.WithTimeout(ctx, time.Second)
				if ack, err := js.Publish(ctx, "orders.new", make([]byte, 1000)); err == nil {
					for seen := latest.Load(); ack.Sequence > seen && !latest.CompareAndSwap(seen, ack.Sequence); seen = latest.Load() {
					}
				}
				cancel()
			}
		})
	}
	eventually(t, patience, func() error {
		if latest.Load() < 100 {
			return errors.New("too few messages yet")
		}
		return nil
	})
	// What is acknowledged while the error happens is another matter: the kernel may answer
	// a flush that is under way with success, and not have done it (docs/ops/full-disk.md).
	before := latest.Load()
	at := time.Now()
	if err := os.WriteFile(trigger, []byte("test"), 0o200); err != nil {
		t.Fatal(err)
	}
	n.saysReadOnly(at, s)
	cancel()
	publishing.Wait()
	n.staysQuiet(
		func() error { _, err := js.Publish(t.Context(), "orders.new", []byte("x")); return err },
		func() error { _, err := js.Publish(t.Context(), "jobs.new", []byte("x")); return err },
	)
	publish(t, js, "memory", "goes on")
	c := consumer(t, js, "JOBS", "worker")
	for i := range 3 {
		if got := string(next(t, c).Data()); got != fmt.Sprint(i) {
			t.Errorf("got %q, want job %d", got, i)
		}
	}

	n.kill9()
	if err := errors.Join(disk.Unmount(t.Context()), disk.Mount(t.Context())); err != nil {
		t.Fatal(err)
	}
	n.start()
	info, err := n.jetStream().Stream(t.Context(), "ORDERS")
	if err != nil {
		t.Fatal(err)
	}
	if st := info.CachedInfo().State; st.LastSeq < before || st.Msgs != st.LastSeq {
		t.Errorf("got %d messages up to %d, want all of those up to %d", st.Msgs, st.LastSeq, before)
	}
	n.stop()
}

// deviceName is the block device that a mount point is on.
func deviceName(t *testing.T, at string) string {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Stat(at, &st); err != nil {
		t.Fatal(err)
	}
	sys, err := filepath.EvalSymlinks(fmt.Sprintf("/sys/dev/block/%d:%d", unix.Major(st.Dev), unix.Minor(st.Dev)))
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Base(sys)
}

// TestProcessApplySaysWhyWhilePublishingIsStopped has no room from the start.
func TestProcessApplySaysWhyWhilePublishingIsStopped(t *testing.T) {
	t.Parallel()
	n := newNode(t, strings.Replace(shop, "limit: 256MiB", "limit: 256MiB, min_free: 99%", 1)).start()
	n.waitStatus("stopped", func(s admin.Status) bool { return s.Storage.PublishingStopped != "" })
	other := filepath.Join(n.home, "other.yaml")
	text := strings.Replace(shop, "limit: 256MiB", "limit: 256MiB, min_free: 99%", 1)
	if err := os.WriteFile(other, []byte(strings.Replace(text, "max_bytes: 64MiB", "max_bytes: 65MiB", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out := n.holdfast("apply", "--yes", "-c", "holdfast.yaml", other)
	for _, want := range []string{"neither made nor changed", "min_free", "make room"} {
		if !strings.Contains(out, want) {
			t.Errorf("got exit code %d and %q, want %q in it", code, out, want)
		}
	}
	if code != exitFailed {
		t.Errorf("got exit code %d, want %d", code, exitFailed)
	}
	n.stop()
}
