// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Pins the server's two log formats: with other ones nothing would be counted.
func TestProgressCountsTheStreamsOfARealServer(t *testing.T) {
	r := newRealm(t, "shop", "lab")
	s := r.settings(t)
	e := started(t, r, s, nil)
	if got, want := e.Progress(), (Progress{Phase: PhaseRunning}); !cmp.Equal(got, want) {
		t.Errorf("got %+v from an empty store, want %+v", got, want)
	}
	fill(t, r, e, "shop", 6, 20)
	fill(t, r, e, "lab", 2, 1)
	if err := e.Stop(); err != nil {
		t.Fatal(err)
	}

	var again *Engine
	again = newEngine(t, r, s, onLine{"Restored", func() {
		if err := again.Health(); err != nil {
			t.Errorf("got health %v while streams are recovered, want none", err)
		}
		if again.JetStreamReady() == nil {
			t.Error("got a ready engine while streams are recovered")
		}
	}})
	if err := again.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	p := again.Progress()
	if p.StreamsTotal != 8 || p.StreamsDone != 8 || len(p.Unrecovered) != 0 {
		t.Errorf("got %+v, want 8 of 8 streams", p)
	}
	// 122 messages of 100 bytes and their headers.
	if p.BytesTotal < 122*100 || p.BytesDone != p.BytesTotal {
		t.Errorf("got %d of %d bytes, want all of at least %d", p.BytesDone, p.BytesTotal, 122*100)
	}
	if p.Current != "" {
		t.Errorf("got current stream %q once it runs, want none", p.Current)
	}
}

func TestProgressShowsTheStreamThatIsBeingRecovered(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"A", "B", ".deleted"} {
		msgs := filepath.Join(dir, "jetstream", "ACC", "streams", name, "msgs")
		if err := os.MkdirAll(msgs, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(msgs, "1.blk"), make([]byte, 1000), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r := newRecovery(Names{Account: func(string) string { return "shop" }})
	if got := r.progress().Phase; got != PhaseNew {
		t.Errorf("got phase %s, want %s", got, PhaseNew)
	}
	r.read = func() int64 { return 0 }
	r.begin(dir)
	r.checked(mended{})
	r.notice(formatRestoreBegins, []any{"ACC", "A"})
	r.notice(formatRestoreBegins, []any{"ACC", "B"})
	r.notice(formatRestoreEnds, []any{"1", "ACC", "A", "1s"})
	got := r.progress()
	want := Progress{
		Phase: PhaseRecovering, StreamsTotal: 2, StreamsDone: 1, BytesTotal: 2000, BytesDone: 1000, Current: "shop/B",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("progress differs (-want +got):\n%s", diff)
	}
	r.enter(PhaseRunning)
	// A backup that is restored later says the same.
	r.notice(formatRestoreEnds, []any{"1", "ACC", "B", "1s"})
	if got, want := r.progress().Unrecovered, []string{"shop/B"}; !slices.Equal(got, want) {
		t.Errorf("got unrecovered %v, want %v", got, want)
	}
}

// TestWhatACrashLeftIsCheckedAndCounted takes the indexes away, which is what a crash
// makes of them.
func TestWhatACrashLeftIsCheckedAndCounted(t *testing.T) {
	r := newRealm(t, "shop", "lab")
	s := r.settings(t)
	e := started(t, r, s, nil)
	fill(t, r, e, "shop", 12, 20)
	fill(t, r, e, "lab", 1, 5)
	if err := e.Stop(); err != nil {
		t.Fatal(err)
	}
	// Block and index may be written within one tick of the clock, which is no matter here.
	settled := func(account string) (indexes []string) {
		t.Helper()
		indexes, err := filepath.Glob(filepath.Join(s.StoreDir, "jetstream", r.public(t, account), "streams", "*", messagesDir, indexName))
		later := time.Now().Add(time.Hour)
		for _, index := range indexes {
			err = errors.Join(err, os.Chtimes(index, later, later))
		}
		if err != nil || len(indexes) == 0 {
			t.Fatalf("got %d indexes, %v, want one for each stream", len(indexes), err)
		}
		return indexes
	}
	settled("shop")
	settled("lab")
	e = started(t, r, s, nil)
	if p := e.Progress(); p.BytesToCheck != 0 || p.Checking() {
		t.Errorf("got %+v after a clean stop, want nothing to check", p)
	}
	if err := e.Stop(); err != nil {
		t.Fatal(err)
	}
	indexes := settled("shop")
	settled("lab")
	for _, index := range indexes {
		if err := os.Remove(index); err != nil {
			t.Fatal(err)
		}
	}
	e = started(t, r, s, nil)
	p := e.Progress()
	if p.BytesToCheck < 12*20*100 || p.BytesToCheck >= p.BytesTotal || p.BytesChecked != p.BytesToCheck || p.Checking() {
		t.Errorf("got %+v, want the streams of one account checked", p)
	}
	if p.StreamsDone != 13 || len(p.Damaged) > 0 {
		t.Errorf("got %+v, want all streams and no damage", p)
	}
}

func TestProgressOfALargeStreamIsWhatWasRead(t *testing.T) {
	read := int64(5000)
	r := newRecovery(Names{})
	r.read = func() int64 { return read }
	r.sizes = map[streamKey]int64{{"A", "LARGE"}: 1000}
	r.phase = PhaseRecovering
	read = 5500
	if got := r.progress().BytesDone; got != 0 {
		t.Errorf("got %d bytes before the server reads, want none", got)
	}
	r.checked(mended{})
	for _, c := range [][2]int64{{5500, 0}, {5900, 400}, {9000, 1000}} {
		read = c[0]
		if got := r.progress().BytesDone; got != c[1] {
			t.Errorf("got %d bytes done after %d were read, want %d", got, read-5500, c[1])
		}
	}
}

func TestStreamThatDidNotComeBackIsReported(t *testing.T) {
	r := newRealm(t, "shop")
	s := r.settings(t)
	e := started(t, r, s, nil)
	fill(t, r, e, "shop", 3, 1)
	if err := e.Stop(); err != nil {
		t.Fatal(err)
	}
	meta := filepath.Join(s.StoreDir, "jetstream", r.public(t, "shop"), "streams", "S1", "meta.inf")
	// What is not whole is brought back; this is, and the server can't use it.
	if err := os.WriteFile(meta, []byte(`{"name":"S1","storage":"file","subjects":["a..b"]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	remove(t, filepath.Join(s.StoreDir, knownDir))

	h := &logged{}
	e = started(t, r, s, h)
	if got, want := e.Progress().Unrecovered, []string{"shop/S1"}; !slices.Equal(got, want) {
		t.Errorf("got unrecovered %v, want %v", got, want)
	}
	// The node goes on with the others, but does not call itself ready.
	if err := e.Health(); err != nil {
		t.Errorf("got %v, want a healthy engine", err)
	}
	want := "check the engine: JetStream stream 'shop > S1' could not be recovered"
	if err := e.JetStreamReady(); fmt.Sprint(err) != want {
		t.Errorf("got %v, want %s", err, want)
	}
	warned := slices.ContainsFunc(h.all(), func(l string) bool {
		return strings.HasPrefix(l, "WARN") && strings.Contains(l, "invalid subject")
	})
	if !warned {
		t.Errorf("got no warning about the damaged stream:\n%s", strings.Join(h.all(), "\n"))
	}
}

// A store is recovered in seconds or minutes depending on this: accounts that the
// server meets only in its store have their streams recovered one by one.
func TestStreamsOfAnAccountRecoverInParallel(t *testing.T) {
	r := newRealm(t, "shop")
	s := r.settings(t)
	e := started(t, r, s, nil)
	fill(t, r, e, "shop", 2, 1)
	if err := e.Stop(); err != nil {
		t.Fatal(err)
	}
	// Each stream waits until the other has begun.
	var both sync.WaitGroup
	both.Add(2)
	met := make(chan struct{})
	go func() {
		both.Wait()
		close(met)
	}()
	started(t, r, s, onLine{"Starting restore", func() {
		both.Done()
		select {
		case <-met:
		case <-time.After(patience):
			t.Error("got streams recovered one after the other, want them in parallel")
		}
	}})
}
