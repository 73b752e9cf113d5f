// SPDX-License-Identifier: Apache-2.0

//go:build process && linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestProcessTwoNodesRunSideBySide(t *testing.T) {
	t.Parallel()
	a, b := newNode(t, shop).start(), newNode(t, shop).start()
	publish(t, a.jetStream(), "orders.new", "for a")
	publish(t, b.jetStream(), "orders.new", "for b")
	for want, n := range map[string]*node{"for a": a, "for b": b} {
		if m := next(t, consumer(t, n.jetStream(), "ORDERS", "audit")); string(m.Data()) != want {
			t.Errorf("got %q, want %q", m.Data(), want)
		}
		n.nats([]string{"ORDERS"}, "stream", "ls")
	}
	a.stop()
	b.waitReady()
	b.stop()
}

func TestProcessTakesALongPath(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("long-", 30)
	n := newNode(t, strings.Replace(shop, "data_dir: data", "data_dir: "+long+"/data", 1))
	n.data = filepath.Join(n.home, long, "data")
	if err := os.Mkdir(filepath.Dir(n.data), 0o700); err != nil {
		t.Fatal(err)
	}
	n.start()
	if code, out := n.holdfast("status", "--config", "holdfast.yaml"); code != exitOK {
		t.Errorf("got exit code %d and %q, want a ready node", code, out)
	}
	n.nats([]string{"ORDERS"}, "stream", "ls")
	n.stop()
	if _, err := os.Lstat(filepath.Join(n.data, "admin.sock")); !os.IsNotExist(err) {
		t.Errorf("got %v for the admin socket after the stop, want it gone", err)
	}
}

// TestProcessReadsPathsAsTheirFileMeansThem runs from another directory, with a
// file that can't be written.
func TestProcessReadsPathsAsTheirFileMeansThem(t *testing.T) {
	t.Parallel()
	n := newNode(t, shop)
	etc := filepath.Join(n.home, "etc")
	if err := os.Mkdir(etc, 0o700); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(etc, "holdfast.yaml")
	text := strings.Replace(shop, "data_dir: data", "data_dir: ../var", 1)
	if err := os.WriteFile(file, []byte(text), 0o400); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(etc, 0o500); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(etc, 0o700) })
	n.data = filepath.Join(n.home, "var")
	cmd := n.command("run", "--allow-unsafe-storage")
	cmd.Dir = "/"
	cmd.Env = append(cmd.Env, "HOLDFAST_CONFIG="+file)
	cmd.Stdout, cmd.Stderr = n.log, n.log
	n.launchAs(cmd)
	n.waitReady()
	if code, out := n.holdfast("status", "-c", "etc/holdfast.yaml"); code != exitOK {
		t.Errorf("got exit code %d and %q, want the node found through its file", code, out)
	}
	if code, out := n.holdfast("status", "--data-dir", "var"); code != exitOK {
		t.Errorf("got exit code %d and %q, want the node found through its directory", code, out)
	}
	n.stop()
	if got, err := os.ReadFile(file); err != nil || string(got) != text {
		t.Errorf("got %q, %v, want the file as it was", got, err)
	}
	entries, err := os.ReadDir(etc)
	if err != nil || len(entries) != 1 {
		t.Errorf("got %v, %v, want nothing beside the file", entries, err)
	}
}

// TestProcessStarterNeedsNoFile is the first thing that a newcomer sees.
func TestProcessStarterNeedsNoFile(t *testing.T) {
	t.Parallel()
	n := newNode(t, "")
	if err := os.Remove(n.file()); err != nil {
		t.Fatal(err)
	}
	n.data = filepath.Join(n.home, starterDir)
	n.env = []string{"HOLDFAST_LISTEN__CLIENT=127.0.0.1:0", "HOLDFAST_LISTEN__HTTP=127.0.0.1:0"}
	cmd := n.command("run")
	cmd.Stdout, cmd.Stderr = n.log, n.log
	n.launchAs(cmd)
	n.waitReady()
	n.logged("Holdfast is ready. Data is in")
	n.logged(n.address("client"))
	n.logged("Stop with Ctrl-C")
	// What the greeting says to try.
	for _, c := range []struct{ args, want string }{
		{"nats pub --jetstream jobs.hello first-job", "Stored in Stream: JOBS Sequence: 1"},
		{"nats consumer next JOBS worker", "first-job"},
		{"status", "main/JOBS"},
	} {
		if !strings.Contains(n.log.String(), strings.TrimSuffix(c.args, "first-job")) {
			t.Errorf("got a greeting without %q, want it there", c.args)
		}
		if code, out := n.holdfast(strings.Fields(c.args)...); code != exitOK || !strings.Contains(out, c.want) {
			t.Errorf("%s: got exit code %d and %q, want 0 and %q", c.args, code, out, c.want)
		}
	}
	n.stop()
}

func TestProcessSaysAtEveryStartThatIntervalDurabilityLosesMessages(t *testing.T) {
	t.Parallel()
	n := newNode(t, strings.Replace(shop, "limit: 256MiB", "limit: 256MiB, durability: interval, sync_interval: 5s", 1))
	for start := range 2 {
		n.start()
		want := "durability is interval: a power cut loses what was acknowledged since the last fsync"
		if got := strings.Count(n.log.String(), want); got != start+1 {
			t.Errorf("got %d warnings after %d starts, want one each", got, start+1)
		}
		if line := n.logged(want); !strings.Contains(line, "level=WARN") || !strings.Contains(line, "sync_interval=5s") {
			t.Errorf("got %q, want a warning with the interval", line)
		}
		if _, out := n.holdfast("status", "-c", "holdfast.yaml"); !strings.Contains(out, "interval: fsync every 5s; a power cut loses") {
			t.Errorf("got status %q, want it to say so too", out)
		}
		n.stop()
	}
}

func TestProcessKeepsToGOMEMLIMIT(t *testing.T) {
	t.Parallel()
	n := newNode(t, strings.Replace(shop, "accounts:", "log: {level: debug}\naccounts:", 1))
	n.env = []string{"GOMEMLIMIT=300MiB"}
	n.start()
	if line := n.logged("memory limited"); !strings.Contains(line, "limit=300MiB") {
		t.Errorf("got %q, want 300MiB", line)
	}
	if s := n.waitReady(); s.Node.MemoryLimit != 300<<20 {
		t.Errorf("got a limit of %d bytes in the status, want %d", s.Node.MemoryLimit, 300<<20)
	}
	n.stop()
}

func TestProcessTakesTheEnvironmentAndOverlays(t *testing.T) {
	t.Parallel()
	n := newNode(t, shop)
	if err := os.Mkdir(filepath.Join(n.home, "holdfast.d"), 0o700); err != nil {
		t.Fatal(err)
	}
	overlay := "accounts: {shop: {streams: {ORDERS: {max_msgs: 7}}}}\n"
	if err := os.WriteFile(filepath.Join(n.home, "holdfast.d", "10-site.yaml"), []byte(overlay), 0o600); err != nil {
		t.Fatal(err)
	}
	n.env = []string{"HOLDFAST_ACCOUNTS__SHOP__STREAMS__ORDERS__MAX_BYTES=16MiB"}
	n.start()
	s, err := n.jetStream().Stream(t.Context(), "ORDERS")
	if err != nil {
		t.Fatal(err)
	}
	if c := s.CachedInfo().Config; c.MaxMsgs != 7 || c.MaxBytes != 16<<20 {
		t.Errorf("got max_msgs %d and max_bytes %d, want 7 and %d", c.MaxMsgs, c.MaxBytes, 16<<20)
	}
	n.stop()

	n.env = []string{"HOLDFAST_ACCOUNTS__SHOP__STREAMS__ORDERS__MAX_BYTE=16MiB"}
	before := snapshot(t, n.data)
	n.refuses(exitPermanent, fmt.Sprintf("$%s", strings.TrimSuffix(n.env[0], "=16MiB")), "HF1008")
	unchanged(t, n.data, before)
}
