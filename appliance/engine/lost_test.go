// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
)

// lab is a store with two streams of three blocks each, and ORDERS with a consumer that
// has acknowledged ten messages. Its server has stopped.
type lab struct {
	r       *realm
	s       Settings
	streams string // directory
	orders  string // directory
	other   map[string]string
}

func newLab(t *testing.T) *lab {
	t.Helper()
	l := newLabWith(t, window)
	// The server reads what is in the window for duplicates at each start.
	<-time.After(window)
	return l
}

// window is the shortest for duplicates.
const window = 100 * time.Millisecond

func newLabWith(t *testing.T, window time.Duration) *lab {
	t.Helper()
	l := &lab{r: newRealm(t, "shop")}
	l.s = l.r.settings(t)
	e, js := l.start(t)
	for _, name := range []string{"ORDERS", "OTHER"} {
		if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: name, Subjects: []string{name}, MaxBytes: 120_000, Duplicates: window}); err != nil {
			t.Fatal(err)
		}
		for i := range stored {
			if _, err := js.Publish(t.Context(), name, body(uint64(i+1))); err != nil {
				t.Fatal(err)
			}
		}
	}
	c, err := js.CreateConsumer(t.Context(), "ORDERS", jetstream.ConsumerConfig{Durable: "c", AckPolicy: jetstream.AckExplicitPolicy})
	if err != nil {
		t.Fatal(err)
	}
	batch, err := c.Fetch(10)
	if err != nil {
		t.Fatal(err)
	}
	for m := range batch.Messages() {
		if err := m.DoubleAck(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.Stop(); err != nil {
		t.Fatal(err)
	}
	l.streams = filepath.Join(l.s.StoreDir, server.JetStreamStoreDir, l.r.public(t, "shop"), streamsDir)
	l.orders = filepath.Join(l.streams, "ORDERS")
	l.other = treeOf(t, filepath.Join(l.streams, "OTHER", messagesDir))
	return l
}

func (l *lab) start(t *testing.T) (*Engine, jetstream.JetStream) {
	t.Helper()
	e := started(t, l.r, l.s, nil)
	js, err := jetstream.New(connect(t, l.r, e, "shop"))
	if err != nil {
		t.Fatal(err)
	}
	return e, js
}

// forgetNotes is a store of which nothing is noted.
func (l *lab) forgetNotes(t *testing.T) {
	t.Helper()
	if err := os.RemoveAll(filepath.Join(l.s.StoreDir, knownDir)); err != nil {
		t.Fatal(err)
	}
}

// crashed is a store whose server was not stopped cleanly.
func (l *lab) crashed(t *testing.T) {
	t.Helper()
	if err := os.Remove(filepath.Join(l.s.StoreDir, knownDir, stopName)); err != nil {
		t.Fatal(err)
	}
}

// quietly changes a file as a disk does it: nothing tells that it was written.
func quietly(t *testing.T, path string, change func() error) {
	t.Helper()
	info, err := os.Stat(path)
	if err == nil {
		err = errors.Join(change(), os.Chtimes(path, info.ModTime(), info.ModTime()))
	}
	if err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, paths ...string) {
	t.Helper()
	for _, p := range paths {
		if err := os.RemoveAll(p); err != nil {
			t.Fatal(err)
		}
	}
}

// rangeOf are the sequences in a block of ORDERS.
func rangeOf(t *testing.T, orders string, index int) SeqRange {
	t.Helper()
	r, err := openBlock(orders, streamKey{stream: "ORDERS"}, index, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.collect = true
	r.scan(0)
	return SeqRange{r.seqs[0], r.seqs[len(r.seqs)-1]}
}

// TestWhatIsLostAsAWholeIsTold is a table of parts of a store that are gone, or that the
// server would pass over.
func TestWhatIsLostAsAWholeIsTold(t *testing.T) {
	all := []SeqRange{{1, stored}}
	meta := func(l *lab) string { return filepath.Join(l.orders, server.JetStreamMetaFile) }
	for name, c := range map[string]struct {
		harm func(t *testing.T, l *lab) (lost []SeqRange)
		says string // of the damage; "" where there is none to be told
		gone bool   // the stream is not there
		bare bool   // its configuration is not known any more
	}{
		"the configuration": {func(t *testing.T, l *lab) []SeqRange {
			remove(t, meta(l))
			return nil
		}, "its configuration was damaged, and is back as it was at ", false, false},
		"the configuration and its checksum": {func(t *testing.T, l *lab) []SeqRange {
			remove(t, meta(l), filepath.Join(l.orders, server.JetStreamMetaFileSum))
			return nil
		}, "its configuration was damaged, and is back as it was at ", false, false},
		"a configuration that can't be read": {func(t *testing.T, l *lab) []SeqRange {
			remove(t, meta(l))
			if err := os.Mkdir(meta(l), 0o700); err != nil {
				t.Fatal(err)
			}
			return nil
		}, "its configuration was damaged, and is back as it was at ", false, false},
		"half of the configuration": {func(t *testing.T, l *lab) []SeqRange {
			if err := os.Truncate(meta(l), 40); err != nil {
				t.Fatal(err)
			}
			return nil
		}, "its configuration was damaged, and is back as it was at ", false, false},
		"a digit of the configuration": {func(t *testing.T, l *lab) []SeqRange {
			text, err := os.ReadFile(meta(l))
			if err == nil {
				err = os.WriteFile(meta(l), bytes.Replace(text, []byte("120000"), []byte("100000"), 1), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			return nil
		}, "its configuration was damaged, and is back as it was at ", false, false},
		"the configuration after a crash": {func(t *testing.T, l *lab) []SeqRange {
			l.crashed(t)
			remove(t, meta(l))
			return nil
		}, "its configuration was damaged, and is back as it was at ", false, false},
		"the configuration, of which there is no note": {func(t *testing.T, l *lab) []SeqRange {
			l.forgetNotes(t)
			if err := os.Truncate(meta(l), 40); err != nil {
				t.Fatal(err)
			}
			return nil
		}, "its configuration was lost: it is a plain stream with all of its messages", false, true},
		"the configuration of a consumer": {func(t *testing.T, l *lab) []SeqRange {
			remove(t, filepath.Join(l.orders, consumersDir, "c", server.JetStreamMetaFile))
			return nil
		}, "the configuration of consumer c was damaged, and is back", false, false},
		"the directory": {func(t *testing.T, l *lab) []SeqRange {
			remove(t, l.orders)
			return all
		}, "the directory of the stream is gone; it had 250 messages when the node was stopped", true, false},
		"the directory, after a crash": {func(t *testing.T, l *lab) []SeqRange {
			l.crashed(t)
			remove(t, l.orders)
			return []SeqRange{{1, 0}}
		}, "had 250 messages up to sequence 250 not long before", true, false},
		"a name": {func(t *testing.T, l *lab) []SeqRange {
			if err := os.Rename(l.orders, filepath.Join(l.streams, ".ORDERS")); err != nil {
				t.Fatal(err)
			}
			return nil
		}, "its directory was named like that of a deleted stream, and was named back", false, false},
		"a stream that was being deleted": {func(t *testing.T, l *lab) []SeqRange {
			remove(t, meta(l))
			if err := os.Rename(l.orders, filepath.Join(l.streams, ".ORDERS")); err != nil {
				t.Fatal(err)
			}
			return nil
		}, "", true, false},
		"a block in the middle": {func(t *testing.T, l *lab) []SeqRange {
			lost := rangeOf(t, l.orders, 2)
			remove(t, blockPath(l.orders, 2))
			return []SeqRange{lost}
		}, "the file of block 2 is gone", false, false},
		"a block in the middle and the index": {func(t *testing.T, l *lab) []SeqRange {
			lost := rangeOf(t, l.orders, 2)
			remove(t, blockPath(l.orders, 2), filepath.Join(l.orders, messagesDir, indexName))
			return []SeqRange{lost}
		}, "the file of block 2 is gone", false, false},
		"a block in the middle and the index, after a crash": {func(t *testing.T, l *lab) []SeqRange {
			l.crashed(t)
			lost := rangeOf(t, l.orders, 2)
			remove(t, blockPath(l.orders, 2), filepath.Join(l.orders, messagesDir, indexName))
			return []SeqRange{lost}
		}, "the file of block 2 is gone", false, false},
		"a block in the middle, after a crash": {func(t *testing.T, l *lab) []SeqRange {
			l.crashed(t)
			lost := rangeOf(t, l.orders, 2)
			remove(t, blockPath(l.orders, 2))
			return []SeqRange{lost}
		}, "the file of block 2 is gone", false, false},
		"the first block": {func(t *testing.T, l *lab) []SeqRange {
			lost := rangeOf(t, l.orders, 1)
			remove(t, blockPath(l.orders, 1))
			return []SeqRange{lost}
		}, "the file of block 1 is gone", false, false},
		"the last block": {func(t *testing.T, l *lab) []SeqRange {
			lost := rangeOf(t, l.orders, 3)
			remove(t, blockPath(l.orders, 3))
			return []SeqRange{lost}
		}, "the file of block 3 is gone", false, false},
		"the end of a block, between two messages": {func(t *testing.T, l *lab) []SeqRange {
			var lost SeqRange
			block(t, filepath.Join(l.orders, messagesDir), 2, func(buf []byte, offsets []int) []byte {
				n := len(offsets)
				lost = SeqRange{seqAt(buf, offsets[n-5]), seqAt(buf, offsets[n-1])}
				return buf[:offsets[n-5]]
			})
			return []SeqRange{lost}
		}, "lost: ", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			want := c.harm(t, l)
			e, js := l.start(t)
			checkDamages(t, l, e, want, c.says)
			orders, err := js.Stream(t.Context(), "ORDERS")
			if c.gone {
				if !errors.Is(err, jetstream.ErrStreamNotFound) {
					t.Errorf("got %v, want no stream", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			checkMessages(t, orders, want)
			if got := orders.CachedInfo().Config.MaxBytes; !c.bare && got != 120_000 || c.bare && got != -1 {
				t.Errorf("got a limit of %d, want the configuration back, or none", got)
			}
			consumer, err := js.Consumer(t.Context(), "ORDERS", "c")
			if err != nil {
				t.Fatal(err)
			}
			if got := consumer.CachedInfo().AckFloor.Stream; got != 10 {
				t.Errorf("got a consumer at %d, want it at 10", got)
			}
			// What was told once is not told by the next start.
			if err := e.Stop(); err != nil {
				t.Fatal(err)
			}
			e, _ = l.start(t)
			if again := e.Progress().Damaged; len(again) > 0 {
				t.Errorf("got %+v from the next start, want nothing new", again)
			}
		})
	}
}

// checkDamages compares what is told, and that the stream beside it is untouched.
func checkDamages(t *testing.T, l *lab, e *Engine, lost []SeqRange, says string) {
	t.Helper()
	var got []SeqRange
	found := Damages(l.s.StoreDir)
	for _, d := range found {
		if d.Account != "shop" || d.Stream != "ORDERS" || !strings.Contains(d.String(), says) {
			t.Errorf("got %q of %s/%s, want %q", d, d.Account, d.Stream, says)
		}
		got = append(got, d.Lost...)
	}
	if (says != "") != (len(found) == 1) {
		t.Errorf("got %+v, want %q told once", found, says)
	}
	if diff := cmp.Diff(lost, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("what is said to be lost differs (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(found, e.Progress().Damaged, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("what the start found differs from what is kept (-kept +found):\n%s", diff)
	}
	if diff := cmp.Diff(l.other, treeOf(t, filepath.Join(l.streams, "OTHER", messagesDir))); diff != "" {
		t.Errorf("the stream beside it changed")
	}
}

// A stream whose block went because its messages were removed is not damaged, whatever
// the end of the node.
func TestABlockWithoutMessagesMayGo(t *testing.T) {
	l := newLab(t)
	e, js := l.start(t)
	orders, err := js.Stream(t.Context(), "ORDERS")
	if err != nil {
		t.Fatal(err)
	}
	in := rangeOf(t, l.orders, 2)
	for seq := in.From; seq <= in.To; seq++ {
		if err := orders.DeleteMsg(t.Context(), seq); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(blockPath(l.orders, 2)); err == nil {
		t.Fatal("an empty block stays: the server has changed")
	}
	crashed := *l
	crashed.s.StoreDir = filepath.Join(t.TempDir(), "crashed")
	if err := os.CopyFS(crashed.s.StoreDir, os.DirFS(l.s.StoreDir)); err != nil {
		t.Fatal(err)
	}
	for name, dir := range map[string]string{"while it runs": l.s.StoreDir, "after a crash": crashed.s.StoreDir} {
		for _, index := range []bool{true, false} {
			key := streamKey{l.r.public(t, "shop"), "ORDERS"}
			in, err := inspect(dir, key, l.r.names(), nil, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			if !index {
				in.index = nil
			}
			m := mending{inspection: in, gone: in.missing()}
			for _, g := range m.gone {
				m.last = in.blocksLast(t, 1)
				if r, ok := m.goneRepair(g, 1); ok {
					t.Errorf("%s, index %t: got %+v, want nothing missed", name, index, r.damage)
				}
			}
		}
	}
	if err := e.Stop(); err != nil {
		t.Fatal(err)
	}
	if e, _ = l.start(t); len(e.Progress().Damaged) > 0 {
		t.Errorf("got %+v after a clean stop, want nothing missed", e.Progress().Damaged)
	}
}

func (s *inspection) blocksLast(t *testing.T, index int) uint64 {
	t.Helper()
	r, err := s.read(index)
	if err != nil {
		t.Fatal(err)
	}
	return r.scan(0).last
}

// A stream that somebody deleted while the node ran is not missed.
func TestADeletedStreamIsNotMissed(t *testing.T) {
	l := newLab(t)
	e, js := l.start(t)
	if err := e.Remember(); err != nil {
		t.Fatal(err)
	}
	if err := js.DeleteStream(t.Context(), "ORDERS"); err != nil {
		t.Fatal(err)
	}
	if err := e.Stop(); err != nil {
		t.Fatal(err)
	}
	if e, _ = l.start(t); len(e.Progress().Damaged) > 0 {
		t.Errorf("got %+v, want a deleted stream forgotten", e.Progress().Damaged)
	}
}

// What is stored for accounts that nobody has declared stays as it is.
func TestOrphanedAccountsStay(t *testing.T) {
	l := newLab(t)
	orphan := newRealm(t, "old").public(t, "old")
	to := filepath.Join(l.s.StoreDir, server.JetStreamStoreDir, orphan)
	if err := os.CopyFS(to, os.DirFS(filepath.Dir(l.streams))); err != nil {
		t.Fatal(err)
	}
	before := treeOf(t, filepath.Join(to, streamsDir, "ORDERS", messagesDir))
	e, _ := l.start(t)
	if err := e.Stop(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, treeOf(t, filepath.Join(to, streamsDir, "ORDERS", messagesDir))); diff != "" || len(before) != 3 {
		t.Errorf("got another store of an account that nobody has declared:\n%s", diff)
	}
	for _, name := range []string{"ORDERS", "OTHER"} {
		if _, err := os.Stat(filepath.Join(to, streamsDir, name, server.JetStreamMetaFile)); err != nil {
			t.Error(err)
		}
	}
}

// TestAConfigurationThatCanNotBeReadIsKept has something in its place that nobody has
// looked into.
func TestAConfigurationThatCanNotBeReadIsKept(t *testing.T) {
	l := newLab(t)
	meta := filepath.Join(l.orders, server.JetStreamMetaFile)
	remove(t, meta)
	err := os.Mkdir(meta, 0o700)
	if err == nil {
		err = os.WriteFile(filepath.Join(meta, "kept"), []byte("me"), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	_, js := l.start(t)
	checkMessages(t, streamSoon(t, js), nil)
	if text, err := os.ReadFile(filepath.Join(meta+asideSuffix, "kept")); err != nil || string(text) != "me" {
		t.Errorf("got %q and %v, want what was in its place", text, err)
	}
}
