// SPDX-License-Identifier: Apache-2.0

//go:build process && linux

package main

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// snapshot is every file of a data directory that a refused start must not
// touch, with its checksum.
func snapshot(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		// The lock file tells who holds it now.
		if err != nil || !d.Type().IsRegular() || d.Name() == "LOCK" {
			return err
		}
		b, err := os.ReadFile(path)
		files[path] = fmt.Sprintf("%d bytes, %x", len(b), sha256.Sum256(b))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func unchanged(t *testing.T, dir string, before map[string]string) {
	t.Helper()
	if diff := cmp.Diff(before, snapshot(t, dir)); diff != "" {
		t.Errorf("got a changed data directory, want it as it was (-want +got):\n%s", diff)
	}
}

// filled is a stopped node with one message in its log.
func filled(t *testing.T) *node {
	t.Helper()
	n := newNode(t, shop).start()
	publish(t, n.jetStream(), "orders.new", "precious")
	n.stop()
	return n
}

// unharmed starts the node and looks for the message of filled.
func unharmed(t *testing.T, n *node) {
	t.Helper()
	n.start()
	s, err := n.jetStream().Stream(t.Context(), "ORDERS")
	if err != nil {
		t.Fatal(err)
	}
	if m, err := s.GetMsg(t.Context(), 1); err != nil || string(m.Data) != "precious" {
		t.Errorf("got %v, %v, want the message from before", m, err)
	}
	n.stop()
}

func TestProcessNamesWhoHasItsPort(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, key := range []string{"client", "http"} {
		n := filled(t)
		before := snapshot(t, n.data)
		n.configure(strings.Replace(shop, key+`: "127.0.0.1:0"`, fmt.Sprintf("%s: %q", key, l.Addr()), 1))
		n.refuses(exitFailed, "listen on "+l.Addr().String(), "address already in use", "process "+strconv.Itoa(os.Getpid()),
			"hint: stop it, or set listen."+key+" to another address")
		unchanged(t, n.data, before)
		n.configure(shop)
		unharmed(t, n)
	}
}

func TestProcessRefusesASecondNodeOnItsDirectory(t *testing.T) {
	t.Parallel()
	first := newNode(t, shop).start()
	second := newNode(t, strings.Replace(shop, "data_dir: data", fmt.Sprintf("data_dir: %q", first.data), 1))
	second.refuses(exitFailed, first.data+" is in use by process "+strconv.Itoa(first.cmd.Process.Pid), "hint: stop it (`kill ")
	// Neither its socket nor its lock was taken away.
	publish(t, first.jetStream(), "orders.new", "precious")
	first.waitReady()
	second.refuses(exitFailed, "is in use by process")
	first.stop()
	unharmed(t, first)
}

func TestProcessRefusesATruncatedIdentity(t *testing.T) {
	t.Parallel()
	n := filled(t)
	file := filepath.Join(n.data, "identity.json")
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{0, 1, len(whole) / 2, len(whole) - 2} {
		if err := os.WriteFile(file, whole[:size], 0o600); err != nil {
			t.Fatal(err)
		}
		before := snapshot(t, n.data)
		n.refuses(exitPermanent, "identity.json: the file is truncated or damaged", "hint: restore identity.json from a backup")
		unchanged(t, n.data, before)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	before := snapshot(t, n.data)
	n.refuses(exitPermanent, "the file is gone, but the store has messages", "hint: restore the newest identity.json")
	unchanged(t, n.data, before)

	if err := os.WriteFile(file, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	unharmed(t, n)
}

func TestProcessRefusesADirectoryOfANewerVersion(t *testing.T) {
	t.Parallel()
	n := filled(t)
	file := filepath.Join(n.data, "VERSION")
	stamp, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	newer := strings.NewReplacer(`"format": 1`, `"format": 99`, `"written_by": "0.1.0`, `"written_by": "9.9.9`).Replace(string(stamp))
	if err := os.WriteFile(file, []byte(newer), 0o600); err != nil {
		t.Fatal(err)
	}
	before := snapshot(t, n.data)
	n.refuses(exitPermanent, "was written by version \"9.9.9", "in format 99", "hint: install that version")
	unchanged(t, n.data, before)
	if err := os.WriteFile(file, stamp, 0o600); err != nil {
		t.Fatal(err)
	}
	unharmed(t, n)
}

func TestProcessRefusesADirectoryOfAnotherUser(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("skipping: needs root, to give the directory to somebody else")
	}
	const nobody = 65534
	n := filled(t)
	if err := os.Lchown(n.data, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	before := snapshot(t, n.data)
	n.refuses(exitPermanent, n.data+" belongs to nobody", "this process runs as root", "hint: run as its owner: `sudo -u nobody holdfast run`")
	unchanged(t, n.data, before)
	if err := os.Lchown(n.data, 0, 0); err != nil {
		t.Fatal(err)
	}

	// And the other way round. The program and the file have to be within
	// nobody's reach.
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	// The source tree may be where nobody can't go, so the program is copied.
	n.bin = filepath.Join(t.TempDir(), "holdfast")
	if err := os.WriteFile(n.bin, read(t, path), 0o755); err != nil {
		t.Fatal(err)
	}
	openUp(t, filepath.Dir(n.bin))
	openUp(t, n.home)
	if err := os.Chmod(n.file(), 0o644); err != nil {
		t.Fatal(err)
	}
	n.as = &syscall.Credential{Uid: nobody, Gid: nobody}
	n.refuses(exitPermanent, n.data+" belongs to root", "this process runs as nobody", "hint: give it to this user: `sudo chown -R nobody:", n.data)
	unchanged(t, n.data, before)
	n.as = nil
	unharmed(t, n)
}

// openUp lets everybody into a temporary directory.
func openUp(t *testing.T, dir string) {
	t.Helper()
	for ; strings.HasPrefix(dir, os.TempDir()+"/"); dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

func TestProcessSaysThatTheVolumeIsFull(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("skipping: needs root, to mount a small volume")
	}
	n := newNode(t, strings.NewReplacer("limit: 256MiB", "limit: 2MiB", "64MiB", "1MiB").Replace(shop))
	if err := os.Mkdir(n.data, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", n.data, "tmpfs", 0, "size=4m,mode=0700"); err != nil {
		t.Skipf("skipping: can't mount a small volume: %v", err)
	}
	t.Cleanup(func() {
		n.kill9()
		if err := syscall.Unmount(n.data, 0); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	fill := func() {
		f, err := os.Create(filepath.Join(n.data, "lost+found"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for chunk := make([]byte, 4096); err == nil; {
			_, err = f.Write(chunk)
		}
	}
	free := func() {
		if err := os.Remove(filepath.Join(n.data, "lost+found")); err != nil {
			t.Fatal(err)
		}
	}
	fill()
	n.refuses(exitFailed, "no space left on device", "hint: free space on that volume")
	free()
	n.start()
	publish(t, n.jetStream(), "orders.new", "precious")
	n.stop()

	// What is stored can be read while the volume is full.
	fill()
	n.start()
	if m := next(t, consumer(t, n.jetStream(), "ORDERS", "audit")); string(m.Data()) != "precious" {
		t.Errorf("got %q, want the message from before", m.Data())
	}
	n.stop()
	free()
	unharmed(t, n)
}
