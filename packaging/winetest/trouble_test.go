// SPDX-License-Identifier: Apache-2.0

//go:build wine && linux

package winetest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sys/unix"

	"github.com/holdfast-mq/holdfast/packaging/nest"
)

const dataDir = `C:\ProgramData\Holdfast\data`

// drive makes D: a volume of its own, and returns where it is on Linux.
func (w *windows) drive(size string) string {
	w.t.Helper()
	at := filepath.Join(w.root, w.prefix, "drive_d")
	err := errors.Join(os.Mkdir(at, 0o700), unix.Mount("tmpfs", at, "tmpfs", 0, "mode=0700,size="+size),
		os.Symlink("../drive_d", filepath.Join(w.root, w.prefix, "dosdevices", "d:")))
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		if err := unix.Unmount(at, unix.MNT_DETACH); err != nil {
			w.t.Error(err)
		}
	})
	return at
}

// zipped is a Windows with the program of the zip, where `service install` has it.
func zipped(t *testing.T) *windows {
	t.Helper()
	w := boot(t)
	dir := t.TempDir()
	if out, err := exec.Command("unzip", "-q", "-j", built(t, older, ".zip"), "*/holdfast.exe", "-d", dir).CombinedOutput(); err != nil {
		t.Fatalf("unzip: %v: %s", err, out)
	}
	w.put(filepath.Join(dir, "holdfast.exe"), installed)
	return w
}

// overlay changes the configuration.
func (w *windows) overlay(text string) {
	w.t.Helper()
	dir := w.path(`C:\ProgramData\Holdfast\holdfast.d`)
	if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, "50-test.yaml"), []byte(text), 0o644)); err != nil {
		w.t.Fatal(err)
	}
}

// kill ends the service as a power cut would.
func (w *windows) kill() {
	w.t.Helper()
	for _, pid := range w.nodes() {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			w.t.Fatal(err)
		}
	}
	w.eventually(func() error {
		if r := w.try("wine64", installed, "service", "status"); r.code != 3 {
			return fmt.Errorf("service status: exit code %d: %s", r.code, r.out)
		}
		return nil
	})
}

// slow lets the service run for moments, from when it has opened its directory for the
// begun-th time until done. The pauses are longer than those between two signs of a start.
func (w *windows) slow(begun int, done <-chan struct{}) {
	err := nest.Until(patience, 20*time.Millisecond, func() error {
		if n := w.starts(); n < begun {
			return fmt.Errorf("got %d starts in the log, want %d", n, begun)
		}
		return nil
	})
	if err != nil {
		w.t.Error(err)
	}
	signal := func(s syscall.Signal) {
		for _, pid := range w.nodes() {
			_ = syscall.Kill(pid, s) // it may have ended
		}
	}
	for {
		signal(syscall.SIGSTOP)
		select {
		case <-done:
			signal(syscall.SIGCONT)
			return
		case <-time.After(5200 * time.Millisecond):
		}
		signal(syscall.SIGCONT)
		select {
		case <-done:
			return
		case <-time.After(30 * time.Millisecond):
		}
	}
}

// starts is how often the service has begun to start, and opened its directory.
func (w *windows) starts() int {
	text, err := os.ReadFile(w.path(`C:\ProgramData\Holdfast\logs\holdfast.log`))
	if err != nil {
		return 0
	}
	return strings.Count(string(text), "data directory open")
}

// TestLongStart recovers a store of 30,000 messages without its index, slowly: the service
// must be "starting" all the while, and give signs that it gets on.
func TestLongStart(t *testing.T) {
	const messages = 30_000
	w := zipped(t)
	w.holdfast(0, "service", "install", "--no-start")
	w.overlay("storage:\n  durability: interval\n") // to fill it in seconds
	w.holdfast(0, "service", "start")
	w.wantReady()
	w.publish(messages, strings.Repeat("x", 500))
	w.kill()
	w.removeIndexes()

	done, slowed := make(chan struct{}), make(chan struct{})
	go func() { defer close(slowed); w.slow(2, done) }()
	started := make(chan result, 1)
	go func() { started <- w.try("wine64", installed, "service", "start") }()
	begun := time.Now()
	seen := w.checkPoints(3)
	close(done)
	<-slowed
	t.Logf("check points %v after %s", seen, time.Since(begun).Round(time.Second))
	if r := <-started; r.code != 0 || !strings.Contains(r.out, "running") {
		t.Errorf("service start: got exit code %d: %s", r.code, r.out)
	}
	w.wantReady()
	if got := w.left(); got != messages {
		t.Errorf("got %d messages, want %d", got, messages)
	}
	w.holdfast(0, "service", "uninstall")
}

// checkPoints waits until n different ones were told while the service was starting.
func (w *windows) checkPoints(n int) (seen []int) {
	w.t.Helper()
	shown := regexp.MustCompile(`check point (\d+)`)
	w.eventually(func() error {
		out := w.try("wine64", installed, "service", "status").out
		if strings.Contains(out, ": running") {
			w.t.Fatalf("it was ready after check points %v, want %d of them", seen, n)
		}
		m := shown.FindStringSubmatch(out)
		if m == nil || !strings.Contains(out, "starting") {
			return fmt.Errorf("got %s, want a service that starts", out)
		}
		var point int
		if _, err := fmt.Sscan(m[1], &point); err != nil {
			return err
		}
		switch last := len(seen) - 1; {
		case last >= 0 && point < seen[last]:
			w.t.Fatalf("got check point %d after %v, want that they rise", point, seen)
		case point > 0 && (last < 0 || point > seen[last]):
			seen = append(seen, point)
		}
		if len(seen) < n {
			return fmt.Errorf("got check points %v, want %d", seen, n)
		}
		return nil
	})
	return seen
}

// removeIndexes has the next start read every message.
func (w *windows) removeIndexes() {
	w.t.Helper()
	files, err := filepath.Glob(w.path(dataDir) + "/jetstream/*/streams/*/msgs/index.db")
	if err != nil {
		w.t.Fatal(err)
	}
	for _, f := range files {
		if err := os.Remove(f); err != nil {
			w.t.Fatal(err)
		}
	}
}

// TestFullDisk fills the volume of a node that is publishing to, to the last byte. Nothing
// that was acknowledged may be lost, and it must go on by itself when there is room.
func TestFullDisk(t *testing.T) {
	w := zipped(t)
	w.holdfast(0, "service", "install", "--no-start")
	volume := w.drive("96m")
	w.overlay("node:\n  data_dir: 'D:\\data'\nstorage:\n  min_free: 1MiB\naccounts:\n  main:\n    streams:\n      JOBS:\n        max_bytes: 32MiB\n")
	w.holdfast(0, "service", "start")
	w.wantReady()
	w.creds = filepath.Join(volume, "data", "creds", "main", "admin.creds")
	js, _ := w.client()
	text := strings.Repeat("x", 4000)
	acked := uint64(0)
	publish := func() error {
		ack, err := js.Publish(t.Context(), "jobs.x", []byte(text), jetstream.WithRetryAttempts(1))
		if err == nil {
			acked = ack.Sequence
		}
		return err
	}
	w.eventually(publish)
	eaten := filepath.Join(volume, "eaten")
	w.eat(eaten)
	var err error
	for range 5000 {
		if err = publish(); err != nil {
			break
		}
	}
	t.Logf("on a full volume: %v, after %d acknowledged", err, acked)
	if err == nil {
		t.Fatal("a full volume does no harm")
	}
	// While the volume fills, either the node notices first and refuses publishers, or a
	// write fails first.
	braked := strings.Contains(err.Error(), "err_code=10002")
	w.eventually(func() error {
		r := w.try("wine64", installed, "status")
		if !strings.Contains(r.out, "PUBLISHING STOPPED") || !braked && !strings.Contains(r.out, "write error") {
			return fmt.Errorf("status says nothing of it: %s", r.out)
		}
		return nil
	})
	if err := os.Remove(eaten); err != nil {
		t.Fatal(err)
	}
	before := acked
	w.eventually(publish)
	if acked <= before {
		t.Errorf("got sequence %d after %d", acked, before)
	}
	if got := w.left(); got < acked {
		t.Errorf("got %d messages, want the %d that were acknowledged", got, acked)
	}
	for line := range strings.Lines(w.log()) {
		if strings.Contains(line, "space") || strings.Contains(line, "stream") || strings.Contains(line, "publishing") {
			t.Log(strings.TrimSpace(line))
		}
	}
	w.holdfast(0, "service", "stop")
	w.holdfast(0, "service", "start")
	w.wantReady()
	if got := w.left(); got < acked {
		t.Errorf("after a restart: got %d messages, want the %d that were acknowledged", got, acked)
	}
	w.holdfast(0, "service", "stop")
}

// eat fills the volume, as another program would.
func (w *windows) eat(path string) {
	w.t.Helper()
	f, err := os.Create(path)
	if err != nil {
		w.t.Fatal(err)
	}
	defer f.Close()
	for _, size := range []int{1 << 20, 4096} {
		block := make([]byte, size)
		for err = nil; err == nil; {
			_, err = f.Write(block)
		}
	}
	if !errors.Is(err, unix.ENOSPC) {
		w.t.Fatal(err)
	}
}
