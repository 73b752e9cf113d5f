// SPDX-License-Identifier: Apache-2.0

//go:build process && linux

package main

import (
	bin "encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// grouped is a log and a work queue, each with group commit as said.
func groupedNode(orders, jobs string) string {
	return listening + fmt.Sprintf(`accounts:
  shop:
    streams:
      ORDERS:
        subjects: ["orders.>"]
        max_bytes: 64MiB
        %s
      JOBS:
        subjects: ["jobs.>"]
        retention: workqueue
        max_bytes: 64MiB
        %s
        consumers:
          worker: {ack_wait: 1s}
`, orders, jobs)
}

const (
	groupOn  = `group_commit: "on"`
	groupOff = `group_commit: "off"`
)

// staged is where a stream's batches are staged in memory, "" when they are not.
func (n *node) staged(stream string) string {
	n.t.Helper()
	links, err := filepath.Glob(filepath.Join(n.data, "jetstream", "*", "streams", stream, "batches"))
	if err != nil {
		n.t.Fatal(err)
	}
	for _, l := range links {
		if to, err := os.Readlink(l); err == nil {
			return to
		}
	}
	return ""
}

// memory is where the node stages its batches.
func (n *node) memory() []string {
	var dirs []string
	links, err := filepath.Glob(filepath.Join(n.data, "jetstream", "*", "streams", "*", "batches"))
	if err != nil {
		n.t.Fatal(err)
	}
	for _, l := range links {
		if to, err := os.Readlink(l); err == nil {
			dirs = append(dirs, filepath.Dir(filepath.Dir(to)))
		}
	}
	return slices.Compact(dirs)
}

// forgetMemory does what a reboot does.
func (n *node) forgetMemory() {
	for _, dir := range n.memory() {
		if err := os.RemoveAll(dir); err != nil {
			n.t.Error(err)
		}
	}
}

// inMemory is staged, which must be in memory.
func (n *node) inMemory(stream string) string {
	n.t.Helper()
	dir := n.staged(stream)
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		n.t.Fatalf("got %q as place of the batches of %s (%v), want a directory in memory", dir, stream, err)
	}
	return dir
}

// batch publishes from many at once until a message went in a batch.
func (n *node) batch(stream, subject string) {
	n.t.Helper()
	js := n.jetStream()
	s, err := js.Stream(n.t.Context(), stream)
	if err != nil {
		n.t.Fatal(err)
	}
	eventually(n.t, patience, func() error {
		var last uint64
		var mu sync.Mutex
		var publishers sync.WaitGroup
		for range 32 {
			publishers.Go(func() {
				for range 8 {
					ack, err := js.Publish(n.t.Context(), subject, []byte("in a batch"))
					if err != nil {
						n.t.Errorf("publish: %v", err)
						return
					}
					mu.Lock()
					last = max(last, ack.Sequence)
					mu.Unlock()
				}
			})
		}
		publishers.Wait()
		for seq := last; seq > last-min(last, 256); seq-- {
			m, err := s.GetMsg(n.t.Context(), seq)
			if err != nil {
				return err
			}
			if inBatch(m.Header.Get("Nats-Batch-Id")) {
				return nil
			}
		}
		return fmt.Errorf("got no message of %s in a batch, want some", stream)
	})
}

// calm says that nothing was logged that an operator would be frightened by.
func (n *node) calm() {
	n.t.Helper()
	for line := range strings.Lines(n.log.String()) {
		if strings.Contains(line, "level=ERROR") {
			n.t.Errorf("got an error logged, want none where nothing is lost: %s", line)
		}
	}
}

func gone(t *testing.T, path string) {
	t.Helper()
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("got %v for %s, want it removed", err, path)
	}
}

// leftover is a batch as a kill leaves it in memory: begun and never committed.
func leftover(t *testing.T, dir string) string {
	t.Helper()
	path := filepath.Join(dir, "begun", "msgs")
	if err := os.MkdirAll(path, 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestProcessTakesOverTheMemoryOfAKilledStartAndGivesItBack(t *testing.T) {
	t.Parallel()
	n := newNode(t, groupedNode(groupOn, groupOn)).start()
	n.batch("ORDERS", "orders.a")
	dir := n.inMemory("ORDERS")
	n.kill9()
	begun := leftover(t, dir)
	n.start()
	if got := n.inMemory("ORDERS"); got != dir {
		t.Errorf("got batches staged in %s after a kill, want %s again", got, dir)
	}
	gone(t, begun)
	n.batch("ORDERS", "orders.a")
	n.stop()
	gone(t, filepath.Dir(filepath.Dir(dir)))
	n.calm()
}

func TestProcessGivesTheMemoryOfAKilledStartBackWithoutGroupCommit(t *testing.T) {
	t.Parallel()
	n := newNode(t, groupedNode(groupOn, groupOn)).start()
	n.batch("ORDERS", "orders.a")
	dir := n.inMemory("ORDERS")
	n.kill9()
	leftover(t, dir)
	n.configure(groupedNode(groupOff, groupOff))
	n.start()
	gone(t, filepath.Dir(filepath.Dir(dir)))
	n.stop()
	n.calm()
}

// After a reboot the links lead nowhere. What follows them must work all the same.
func TestProcessGroupsAgainAfterAReboot(t *testing.T) {
	t.Parallel()
	for name, ends := range map[string]func(*node){"killed": (*node).kill9, "stopped": (*node).stop} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNode(t, groupedNode(groupOn, groupOn)).start()
			n.batch("ORDERS", "orders.a")
			n.inMemory("ORDERS")
			ends(n)
			n.forgetMemory()
			n.start()
			n.inMemory("ORDERS")
			n.batch("ORDERS", "orders.a")
			n.stop()
			n.calm()
		})
	}
}

// allow_atomic: false makes the server leave the folder of batches alone, so nobody but
// us removes a link to memory that is gone.
func TestProcessClientsBatchAfterGroupCommitAndAReboot(t *testing.T) {
	t.Parallel()
	n := newNode(t, groupedNode(groupOn, groupOn)).start()
	n.batch("ORDERS", "orders.a")
	n.apply(groupedNode("allow_atomic: false", groupOn))
	n.stop()
	n.start()
	n.apply(groupedNode("allow_atomic: true\n        duplicate_window: 4m", groupOn)) // else it were the first one again, and stale
	n.atomically("orders.a")
	n.apply(groupedNode(groupOn+"\n        duplicate_window: 3m", groupOn))
	n.batch("ORDERS", "orders.a")
	n.stop()
	n.calm()
}

// A batch of a client is more than an acknowledgement: none of it or all of it is there
// after a power cut, for which it has to be staged on disk.
func TestProcessStagesTheBatchesOfClientsOnDisk(t *testing.T) {
	t.Parallel()
	for name, fields := range map[string]string{"grouped": "allow_atomic: true", "alone": groupOff + "\n        allow_atomic: true"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNode(t, groupedNode(groupOn, groupOn)).start()
			n.batch("ORDERS", "orders.a")
			n.apply(groupedNode(fields, groupOn))
			if got := n.staged("ORDERS"); got != "" {
				t.Errorf("got batches of clients staged in %s, want them on disk", got)
			}
			n.atomically("orders.a")
			n.stop()
			n.calm()
		})
	}
}

// A power cut may leave the beginning of a batch, whose rest was in memory.
func TestProcessStartsCalmlyWithTheBeginningOfABatch(t *testing.T) {
	t.Parallel()
	n := newNode(t, groupedNode(groupOn, groupOn)).start()
	js := n.jetStream()
	eventually(t, patience, func() error {
		n.batch("ORDERS", "orders.a")
		m := lastMessage(t, js)
		if !inBatch(m.Header.Get("Nats-Batch-Id")) || m.Header.Get("Nats-Batch-Sequence") == "1" {
			return fmt.Errorf("got header %v at the end, want the end of a batch", m.Header)
		}
		return nil
	})
	last := lastMessage(t, js).Sequence
	n.inMemory("ORDERS")
	n.kill9()
	n.forgetMemory()
	n.cutLastRecord("ORDERS")
	n.start()
	n.logged("nothing is lost")
	if got := lastMessage(t, n.jetStream()).Sequence; got != last-1 {
		t.Errorf("got %d as last message after the start, want %d", got, last-1)
	}
	n.batch("ORDERS", "orders.a")
	n.stop()
	n.calm()
}

func lastMessage(t *testing.T, js jetstream.JetStream) *jetstream.RawStreamMsg {
	t.Helper()
	s, err := js.Stream(t.Context(), "ORDERS")
	if err != nil {
		t.Fatal(err)
	}
	m, err := s.GetMsg(t.Context(), s.CachedInfo().State.LastSeq)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// cutLastRecord removes the last message of a stream's only block, and the index, as if
// they had not reached the disk.
func (n *node) cutLastRecord(stream string) {
	n.t.Helper()
	blocks, err := filepath.Glob(filepath.Join(n.data, "jetstream", "*", "streams", stream, "msgs", "*.blk"))
	if err != nil || len(blocks) != 1 {
		n.t.Fatalf("got blocks %q (%v), want one", blocks, err)
	}
	b, err := os.ReadFile(blocks[0])
	if err != nil {
		n.t.Fatal(err)
	}
	at := 0
	for next := 0; next < len(b); { // a record begins with its length, whose top bit says that there is a header
		at = next
		next += int(bin.LittleEndian.Uint32(b[at:]) &^ (1 << 31))
	}
	if err := os.Truncate(blocks[0], int64(at)); err != nil {
		n.t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(filepath.Dir(blocks[0]), "index.db")); err != nil && !os.IsNotExist(err) {
		n.t.Fatal(err)
	}
}

// apply makes a configuration the node's.
func (n *node) apply(config string) {
	n.t.Helper()
	n.configure(config)
	eventually(n.t, patience, func() error {
		code, out := n.holdfast("apply", "--config", "holdfast.yaml", "--yes")
		if code != exitOK {
			return fmt.Errorf("got exit code %d from apply, want 0\n%s", code, out)
		}
		return nil
	})
}

// atomically publishes a batch of two, as a client does.
func (n *node) atomically(subject string) {
	n.t.Helper()
	nc := n.connect()
	for seq, commit := range []string{"", "1"} {
		m := nats.NewMsg(subject)
		m.Header.Set("Nats-Batch-Id", "a-client")
		m.Header.Set("Nats-Batch-Sequence", fmt.Sprint(seq+1))
		if commit != "" {
			m.Header.Set("Nats-Batch-Commit", commit)
		}
		answer, err := nc.RequestMsg(m, patience)
		if err != nil {
			n.t.Fatal(err)
		}
		if strings.Contains(string(answer.Data), "error") || commit != "" && !strings.Contains(string(answer.Data), `"count":2`) {
			n.t.Errorf("got %s for message %d of a client's batch, want it stored", answer.Data, seq+1)
		}
	}
}
