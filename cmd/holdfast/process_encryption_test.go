// SPDX-License-Identifier: Apache-2.0

//go:build process && linux

package main

import (
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-mq/holdfast/appliance/admin"
)

// storeKey writes a key and returns its reference.
func (n *node) storeKey(name string) string {
	n.t.Helper()
	path := filepath.Join(n.home, name)
	if err := os.WriteFile(path, []byte(keyText(name)+"\n"), 0o600); err != nil {
		n.t.Fatal(err)
	}
	return "file:" + path
}

func keyText(name string) string { return "the-key-" + name + "-abcdefghijklmnopqrstuvwxyz-0123456789" }

// encrypt writes a configuration with keys; "" is none.
func (n *node) encrypt(key, previous string) {
	n.t.Helper()
	var parts []string
	if key != "" {
		parts = append(parts, "key: "+n.storeKey(key))
	}
	if previous != "" {
		parts = append(parts, "previous_key: "+n.storeKey(previous))
	}
	n.configure(strings.Replace(shop, "limit: 256MiB", "limit: 256MiB, encryption: {"+strings.Join(parts, ", ")+"}", 1))
}

// inPlainText finds files of the store with a text in them.
func (n *node) inPlainText(text string) (found []string) {
	n.t.Helper()
	err := filepath.WalkDir(n.data, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		if strings.Contains(string(content), text) {
			found = append(found, path)
		}
		return err
	})
	if err != nil {
		n.t.Fatal(err)
	}
	return found
}

// TestProcessChangesKeysThroughKills changes the key, or turns encryption on and off, with
// each round, and kills the node in the start that does it, and under load.
func TestProcessChangesKeysThroughKills(t *testing.T) {
	n, b := newNode(t, shop), newBooks()
	publishers := []*publisher{{no: 1, subject: "orders.a"}, {no: 2, subject: "orders.b"}, {no: 3, subject: "jobs.a"}, {no: 4, subject: "jobs.b"}}
	for round, keys := range [][2]string{{"k1", ""}, {"k2", "k1"}, {"k3", "k2"}, {"", "k3"}, {"", ""}, {"k4", ""}, {"k5", "k4"}} {
		n.encrypt(keys[0], keys[1])
		for range 3 {
			n.launch()
			// The moment of the kill is the point here, so it is random.
			moment := time.NewTimer(time.Duration(rand.IntN(120)) * time.Millisecond)
			select {
			case <-moment.C:
			case <-n.exited:
				t.Fatalf("round %d: got an end by itself, want a start\n%s", round, n.log)
			}
			n.kill9()
		}
		n.start()
		if e := n.waitReady().Storage.Encryption; (e != nil) != (keys[0] != "") || e != nil && e.PreviousKey != (keys[1] != "") {
			t.Errorf("round %d: got %+v in status, want it for the keys %q", round, e, keys)
		}
		if found := n.inPlainText("publisher 1, message"); keys[0] != "" && len(found) > 0 {
			t.Errorf("round %d: got messages in plain text in %q", round, found)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var clients sync.WaitGroup
		for _, p := range publishers {
			js := n.jetStream()
			clients.Go(func() { p.run(ctx, js, b) })
		}
		c := consumer(t, n.jetStream(), "JOBS", "worker")
		clients.Go(func() { work(ctx, c, b) })
		acked, done := b.count()
		eventually(t, patience, func() error {
			if a, d := b.count(); a < acked+200 || d < done+5 {
				return fmt.Errorf("round %d: got %d more messages stored and %d done, want 200 and 5", round, a-acked, d-done)
			}
			return nil
		})
		n.kill9()
		cancel()
		clients.Wait()
	}
	n.encrypt("k5", "")
	n.start()
	js := n.jetStream()
	checkStored(t, js, b)
	checkDelivered(t, js, b)
	n.stop()
	for _, k := range []string{"k1", "k2", "k3", "k4", "k5"} {
		if strings.Contains(n.log.String(), keyText(k)) {
			t.Errorf("got key %s in the log", k)
		}
		if found := n.inPlainText(keyText(k)); len(found) > 0 {
			t.Errorf("got key %s in %q", k, found)
		}
	}
}

func TestProcessRefusesAWrongKey(t *testing.T) {
	t.Parallel()
	n := newNode(t, shop)
	n.encrypt("right", "")
	n.start()
	if _, err := n.jetStream().Publish(t.Context(), "orders.a", []byte("hello")); err != nil {
		t.Fatal(err)
	}
	status, metrics := n.get("/metrics")
	if !strings.Contains(metrics, `holdfast_storage_encrypted{cipher="aes"} 1`) || !strings.Contains(metrics, "holdfast_storage_previous_key 0") {
		t.Errorf("got %d and %s, want the cipher", status, metrics)
	}
	if code, out := n.holdfast("status", "--config", "holdfast.yaml"); code != exitOK || !strings.Contains(out, "Encryption") || !strings.Contains(out, "aes") {
		t.Errorf("got exit code %d and %q, want the cipher", code, out)
	}
	if cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", n.cmd.Process.Pid)); err != nil || strings.Contains(string(cmdline), keyText("right")) {
		t.Errorf("got %q, %v, want no key in the list of processes", cmdline, err)
	}
	n.stop()
	for _, keys := range [][2]string{{"wrong", ""}, {"", ""}, {"", "wrong"}, {"wrong", "wronger"}} {
		n.encrypt(keys[0], keys[1])
		said := n.refuses(exitPermanent, "holdfast.yaml:3:26", "Nothing was changed")
		for _, k := range append(keys[:], "right") {
			if k != "" && strings.Contains(said, keyText(k)) {
				t.Errorf("got a key in %q", said)
			}
		}
	}
	n.encrypt("right", "")
	n.start()
	s := n.waitStatus("with its message", func(s admin.Status) bool { return s.Ready })
	for _, a := range s.Accounts {
		for _, st := range a.Streams {
			if a.Name == "shop" && st.Name == "ORDERS" && st.Messages != 1 {
				t.Errorf("got %+v, want the message", st)
			}
		}
	}
	n.stop()
}
