// SPDX-License-Identifier: Apache-2.0

//go:build process && linux

package main

import (
	"context"
	"errors"
	"fmt"
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
	"github.com/holdfast-mq/holdfast/cmd/internal/loopdisk"
)

// refusedWhenFull is what JetStream tells a publisher while publishing is stopped.
const refusedWhenFull = jetstream.ErrorCode(10002)

// roomy declares more than a small volume has, and a queue; the limits are not what
// these tests are about.
func roomy(data string) string {
	text := strings.Replace(shop, "limit: 256MiB", "limit: 100%, min_free: 48MiB", 1)
	text = strings.Replace(text, "data_dir: data", "data_dir: "+data, 1)
	text = strings.Replace(text, "max_bytes: 64MiB", "max_bytes: 300MiB", 1)
	text = strings.Replace(text, "max_bytes: 64MiB", "max_bytes: 16MiB", 1)
	return strings.Replace(text, "        duplicate_window: 10m\n", "        group_commit: on\n", 1)
}

// onVolume is a node whose data is on a volume of its own.
func onVolume(t *testing.T, at string) *node {
	t.Helper()
	data := filepath.Join(at, "data")
	n := newNode(t, roomy(data))
	n.data = data
	return n
}

func mounted(t *testing.T, kind string, mib int64) *loopdisk.Disk {
	t.Helper()
	if missing := loopdisk.Missing([]string{kind}); len(missing) > 0 {
		if os.Getenv("HOLDFAST_TEST_SKIP_NOTHING") != "" {
			t.Fatalf("needs %s", strings.Join(missing, ", "))
		}
		t.Skipf("skipping: needs %s", strings.Join(missing, ", "))
	}
	d, err := loopdisk.New(t.Context(), t.TempDir(), kind, mib<<20)
	if err == nil {
		err = d.Mount(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(d.At, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return d
}

func isFull(err error) bool {
	var apiErr *jetstream.APIError
	return errors.As(err, &apiErr) && apiErr.ErrorCode == refusedWhenFull
}

// publishUntilRefused publishes from several publishers to each subject until they are
// refused, and returns how many messages of each were acknowledged.
func publishUntilRefused(t *testing.T, js jetstream.JetStream, subjects ...string) map[string]int {
	t.Helper()
	counts := map[string]*atomic.Int64{}
	var publishing sync.WaitGroup
	for _, subject := range subjects {
		count := &atomic.Int64{}
		counts[subject] = count
		for range 3 {
			publishing.Go(func() {
				for {
					_, err := js.Publish(t.Context(), subject, make([]byte, 50<<10))
					if isFull(err) {
						return
					}
					if err != nil {
						t.Errorf("%s: got %v, want error %d before the volume is full", subject, err, refusedWhenFull)
						return
					}
					count.Add(1)
				}
			})
		}
	}
	publishing.Wait()
	out := map[string]int{}
	for s, c := range counts {
		out[s] = int(c.Load())
	}
	return out
}

func messagesIn(t *testing.T, js jetstream.JetStream, stream string) int {
	t.Helper()
	s, err := js.Stream(t.Context(), stream)
	if err != nil {
		t.Fatal(err)
	}
	return int(s.CachedInfo().State.Msgs)
}

// doJobs acknowledges n jobs, each until the server has it.
func doJobs(t *testing.T, js jetstream.JetStream, n int) {
	t.Helper()
	c := consumer(t, js, "JOBS", "worker")
	for range n {
		if err := next(t, c).DoubleAck(t.Context()); err != nil {
			t.Fatalf("got %v, want the acknowledgement taken", err)
		}
	}
}

// eatAll fills the volume to the last byte, as another program would.
func eatAll(t *testing.T, path string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, size := range []int{1 << 20, 4 << 10, 1} {
		for err = nil; err == nil; {
			_, err = f.Write(make([]byte, size))
		}
		if !errors.Is(err, unix.ENOSPC) {
			t.Fatal(err)
		}
	}
}

// TestProcessStopsPublishersBeforeTheVolumeIsFull fills a volume, lets another program
// take the rest, makes room and does it again.
func TestProcessStopsPublishersBeforeTheVolumeIsFull(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"ext4", "xfs"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			disk := mounted(t, kind, 400)
			n := onVolume(t, disk.At).start()
			js := n.jetStream()
			if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "UNDECLARED", Subjects: []string{"undeclared"}}); err != nil {
				t.Fatal(err)
			}
			const jobs = 40
			for i := range jobs {
				publish(t, js, "jobs.new", fmt.Sprint(i))
			}
			stored := map[string]int{}
			for round := range 2 {
				for subject, acked := range publishUntilRefused(t, js, "orders.new", "undeclared") {
					stored[subject] += acked
				}
				s := n.waitStatus("stopped", func(s admin.Status) bool { return s.Storage.PublishingStopped != "" })
				if s.Storage.VolumeFree < s.Storage.MinFree*9/10 || !s.Ready {
					t.Errorf("got %d bytes free, ready %v, want about %d and a ready node", s.Storage.VolumeFree, s.Ready, s.Storage.MinFree)
				}
				doJobs(t, js, 5)

				eaten := filepath.Join(disk.At, "eaten")
				eatAll(t, eaten)
				eventually(t, patience, func() error {
					if _, err := os.Stat(filepath.Join(n.data, "ballast")); err == nil {
						return errors.New("the ballast is still there on a full volume")
					}
					return nil
				})
				doJobs(t, js, 10)
				if _, err := js.Publish(t.Context(), "orders.new", []byte("x")); !isFull(err) {
					t.Errorf("got %v on a full volume, want error %d", err, refusedWhenFull)
				}

				if err := os.Remove(eaten); err != nil {
					t.Fatal(err)
				}
				st, err := js.Stream(t.Context(), "UNDECLARED")
				if err != nil {
					t.Fatal(err)
				}
				if got := messagesIn(t, js, "UNDECLARED"); got != stored["undeclared"] {
					t.Errorf("got %d messages of UNDECLARED, want %d", got, stored["undeclared"])
				}
				if err := st.Purge(t.Context()); err != nil {
					t.Fatalf("got %v, want a purge to make room", err)
				}
				stored["undeclared"] = 0
				n.waitStatus("going on", func(s admin.Status) bool { return s.Ready && s.Storage.PublishingStopped == "" })
				for _, subject := range []string{"orders.new", "undeclared"} {
					if _, err := js.Publish(t.Context(), subject, []byte("again")); err != nil {
						t.Errorf("%s: got %v after there was room, want it stored", subject, err)
					}
					stored[subject]++
				}
				if got, left := messagesIn(t, js, "JOBS"), jobs-15*(round+1); got != left {
					t.Errorf("got %d jobs, want %d", got, left)
				}
			}
			n.kill9()
			n.start()
			js = n.jetStream()
			if got := messagesIn(t, js, "ORDERS"); got != stored["orders.new"] {
				t.Errorf("got %d orders after a crash, want the %d acknowledged ones", got, stored["orders.new"])
			}
			n.stop()
		})
	}
}

func TestProcessStopsPublishersBeforeNoFileCanBeMade(t *testing.T) {
	t.Parallel()
	at := t.TempDir()
	if err := unix.Mount("tmpfs", at, "tmpfs", 0, "size=400m,nr_inodes=2000"); err != nil {
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
	n := onVolume(t, at).start()
	js := n.jetStream()
	publish(t, js, "jobs.new", "one")
	many := filepath.Join(at, "many")
	if err := os.Mkdir(many, 0o700); err != nil {
		t.Fatal(err)
	}
	for i := 0; ; i++ {
		err := os.WriteFile(filepath.Join(many, fmt.Sprint(i)), nil, 0o600)
		if errors.Is(err, unix.ENOSPC) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	s := n.waitStatus("stopped", func(s admin.Status) bool { return s.Storage.PublishingStopped != "" })
	if !strings.Contains(s.Storage.PublishingStopped, "files can still be made") {
		t.Errorf("got %q, want that it is about files", s.Storage.PublishingStopped)
	}
	if _, err := js.Publish(t.Context(), "jobs.new", []byte("two")); !isFull(err) {
		t.Errorf("got %v, want error %d", err, refusedWhenFull)
	}
	doJobs(t, js, 1)
	if err := os.RemoveAll(many); err != nil {
		t.Fatal(err)
	}
	n.waitStatus("going on", func(s admin.Status) bool { return s.Ready && s.Storage.PublishingStopped == "" })
	// A removal that could make no file has left the stream without one, which the
	// server finds out with the next message: that one is not answered.
	eventually(t, patience, func() error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := js.Publish(ctx, "jobs.new", []byte("three"))
		return err
	})
	doJobs(t, js, 1)
	n.stop()
}

// TestProcessSaysThatTheDiskFailed has a file system die under an idle node.
func TestProcessSaysThatTheDiskFailed(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"ext4", "xfs"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			disk := mounted(t, kind, 400)
			off, err := disk.PowerSwitch()
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = off.Close() }() // closed by the cut, unless the test ends before
			n := onVolume(t, disk.At).start()
			js := n.jetStream()
			publish(t, js, "jobs.new", "one")
			if err := off.Cut(); err != nil {
				t.Fatal(err)
			}
			s := n.waitStatus("stopped", func(s admin.Status) bool { return s.Storage.WriteError != "" && s.Storage.PublishingStopped != "" })
			if s.Ready || !strings.Contains(strings.Join(s.Missing, "\n"), "input/output error") {
				t.Errorf("got ready %v, missing %q, want that the disk failed", s.Ready, s.Missing)
			}
			for _, subject := range []string{"jobs.new", "orders.new"} {
				if _, err := js.Publish(t.Context(), subject, []byte("two")); !isFull(err) {
					t.Errorf("%s: got %v, want error %d", subject, err, refusedWhenFull)
				}
			}
			if code, body := n.get("/readyz"); code != 503 || !strings.Contains(body, "input/output error") {
				t.Errorf("got %d and %q of /readyz, want the error", code, body)
			}
			if code, body := n.get("/livez"); code != 200 {
				t.Errorf("got %d and %q of /livez, want 200: a restart heals no disk", code, body)
			}
			if _, body := n.get("/metrics"); !strings.Contains(body, "holdfast_storage_writable 0\n") || !strings.Contains(body, "holdfast_storage_publishing_stopped 1\n") {
				t.Error("got metrics that don't tell of it")
			}
			if code, out := n.holdfast("status", "-c", "holdfast.yaml"); code != exitNotReady || !strings.Contains(out, "PUBLISHING STOPPED since ") || !strings.Contains(out, ", the data directory can't be written") {
				t.Errorf("got exit code %d and %q, want that it can't be written", code, out)
			}
			n.logged("publishing stopped: the data directory can't be written")
			if got := strings.Count(n.log.String(), "publishing stopped"); got != 1 {
				t.Errorf("got %d lines, want one", got)
			}
			n.kill9()
		})
	}
}
