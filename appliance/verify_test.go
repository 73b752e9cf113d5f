// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-mq/holdfast/appliance/admin"
	"github.com/holdfast-mq/holdfast/appliance/datadir"
	"github.com/holdfast-mq/holdfast/appliance/diag"
)

func TestVerifyIsRememberedAcrossARestart(t *testing.T) {
	home, l := t.TempDir(), &logged{}
	first := run(t, open(t, options(t, home, shop, l))).waitReady(t)
	if _, err := first.jetStream(t).Publish(t.Context(), "orders.new", []byte("an order")); err != nil {
		t.Fatal(err)
	}
	client := admin.NewClient(first.Addresses()["admin"])
	told := 0
	out, err := client.Verify(t.Context(), admin.VerifyRequest{}, func(admin.VerifyProgress) { told++ })
	if err != nil {
		t.Fatal(err)
	}
	if out.Streams < 2 || out.Messages < 1 || out.Bytes == 0 || len(out.Damage)+len(out.Problems) > 0 || told == 0 {
		t.Errorf("got %+v and %d times progress, want all streams read, Holdfast's own too", out, told)
	}
	part, err := client.Verify(t.Context(), admin.VerifyRequest{Streams: []string{"shop/ORDERS"}}, func(admin.VerifyProgress) {})
	if err != nil || part.Streams != 1 {
		t.Errorf("got %+v, %v, want one stream read", part, err)
	}
	_, err = client.Verify(t.Context(), admin.VerifyRequest{Streams: []string{"shop/NONE"}}, func(admin.VerifyProgress) {})
	if diag.CodeOf(err) != diag.CodeUnknownObject {
		t.Errorf("got %v, want an unknown stream refused", err)
	}
	if got := first.Storage().Verify; got.Last.IsZero() || got.Bytes == 0 || got.Running || got.Damaged != 0 {
		t.Errorf("got %+v for metrics, want the pass in them", got)
	}
	first.stop(t)

	again := run(t, open(t, options(t, home, shop, l))).waitReady(t)
	s, err := again.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if last := s.Verify.Last; last == nil || last.Streams != out.Streams || !last.Ended.Equal(out.Ended) || s.Verify.Every != (7*24*time.Hour).Seconds() {
		t.Errorf("got %+v, want the pass over all streams remembered", s.Verify)
	}
	again.stop(t)
}

// TestDamageUnderALiveNodeIsToldAndMended is the whole way of it: found, told everywhere,
// mended without a restart.
func TestDamageUnderALiveNodeIsToldAndMended(t *testing.T) {
	// What may be a duplicate is read by each start, and the last block.
	const window = 100 * time.Millisecond
	shop := strings.Replace(shop, "        max_bytes: 16MiB\n", "        max_bytes: 120000\n        duplicate_window: 100ms\n", 1)
	home, l := t.TempDir(), &logged{}
	n := run(t, open(t, options(t, home, shop, l))).waitReady(t)
	js := n.jetStream(t)
	const messages = 150
	for i := range messages {
		if _, err := js.Publish(t.Context(), "orders.new", fmt.Appendf(nil, "%0500d", i)); err != nil {
			t.Fatal(err)
		}
	}
	n.stop(t)
	// A bit of the second message of the first block is another one, and nothing tells that
	// the file was written.
	blocks, err := filepath.Glob(filepath.Join(home, "data", "jetstream", "*", "streams", "ORDERS", "msgs", "1.blk"))
	if err != nil || len(blocks) != 1 {
		t.Fatalf("got %v, %v, want the block", blocks, err)
	}
	info, err := os.Stat(blocks[0])
	if err != nil {
		t.Fatal(err)
	}
	buf, err := os.ReadFile(blocks[0])
	if err != nil {
		t.Fatal(err)
	}
	buf[int(binary.LittleEndian.Uint32(buf))+100] ^= 1
	if err := errors.Join(os.WriteFile(blocks[0], buf, 0o600), os.Chtimes(blocks[0], info.ModTime(), info.ModTime())); err != nil {
		t.Fatal(err)
	}

	<-time.After(window)
	n = run(t, open(t, options(t, home, shop, l))).waitReady(t)
	client := admin.NewClient(n.Addresses()["admin"])
	out, err := client.Verify(t.Context(), admin.VerifyRequest{}, func(admin.VerifyProgress) {})
	if err != nil || len(out.Damage) != 1 || out.Damage[0].Stream != "shop/ORDERS" || out.Damage[0].Lost != "lost: 2" || !out.Damage[0].Open {
		t.Fatalf("got %+v, %v, want message 2 found; the start: %+v", out.Damage, err, n.engine.Progress().Damaged)
	}
	s, err := client.Status(t.Context())
	if err != nil || len(s.Damage) != 1 || s.Damage[0].Ranges[0] != (admin.SeqRange{From: 2, To: 2}) || s.Verify.Last.Damaged != 1 {
		t.Errorf("got %+v, %v in the status, want it there", s.Damage, err)
	}
	if got := n.Storage(); got.Damaged["shop/ORDERS"] != 1 || got.Verify.Damaged != 1 {
		t.Errorf("got %+v for metrics, want it there", got)
	}
	if l.count("damage found on the disk") != 1 {
		t.Error("got no line in the log, want one")
	}
	done, err := client.Mend(t.Context(), admin.MendRequest{Streams: []string{"shop/ORDERS"}})
	if err != nil || len(done.Damage) != 1 || done.ClosedSeconds <= 0 {
		t.Fatalf("got %+v, %v, want it mended", done, err)
	}
	js = n.jetStream(t)
	eventually(t, func() error {
		stream, err := js.Stream(t.Context(), "ORDERS")
		if err != nil {
			return err
		}
		for seq := uint64(1); seq <= messages; seq++ {
			if _, err := stream.GetMsg(t.Context(), seq); (err == nil) != (seq != 2) {
				return fmt.Errorf("message %d: %w", seq, err)
			}
		}
		return nil
	})
	if _, err := js.Publish(t.Context(), "orders.new", []byte("one more")); err != nil {
		t.Error(err)
	}
	if s, err = client.Status(t.Context()); err != nil || len(s.Damage) != 1 || s.Damage[0].Open {
		t.Errorf("got %+v, %v, want it told on, and mended", s.Damage, err)
	}
	n.stop(t)
}

func TestAPassIsDueSomeTimeAfterTheLast(t *testing.T) {
	start := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	const day, week = 24 * time.Hour, 7 * 24 * time.Hour
	for name, c := range map[string]struct {
		up    time.Duration
		last  time.Duration // before now; 0 is never
		every time.Duration
		want  bool
	}{
		"never, right after the start":    {up: time.Minute, every: week},
		"never, some time after it":       {up: 20 * time.Minute, every: week, want: true},
		"long ago, right after the start": {up: time.Minute, last: 2 * week, every: week},
		"long ago":                        {up: day, last: week, every: week, want: true},
		"lately":                          {up: day, last: week - time.Minute, every: week},
		"off":                             {up: week, last: 2 * week},
		"in a future that never was":      {up: day, last: -1000 * day, every: week, want: true},
		"short":                           {up: time.Minute, every: time.Minute, want: true},
	} {
		a := &Appliance{started: start}
		now := start.Add(c.up)
		if c.last != 0 {
			a.verify.last = &admin.VerifiedLast{Ended: now.Add(-c.last)}
		}
		if got := a.verifyDue(now, c.every); got != c.want {
			t.Errorf("%s: got %t, want %t", name, got, c.want)
		}
	}
}

func TestOnePassAtATime(t *testing.T) {
	a := &Appliance{}
	yielded := make(chan struct{})
	endOwn, err := a.beginPass(t.Context(), func() { close(yielded) })
	if err != nil {
		t.Fatal(err)
	}
	asked := make(chan func())
	go func() {
		end, err := a.beginPass(t.Context(), nil)
		if err != nil {
			t.Error(err)
		}
		asked <- end
	}()
	<-yielded // the node's own is told to end
	endOwn()
	endAsked := <-asked
	if _, err := a.beginPass(t.Context(), nil); diag.CodeOf(err) != diag.CodeNotReady {
		t.Errorf("got %v, want a second one refused", err)
	}
	endAsked()
	end, err := a.beginPass(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	end()
}

// TestAPassBeginsByItself also stops the node while it is under way: that ends at once.
func TestAPassBeginsByItself(t *testing.T) {
	l := &logged{}
	text := strings.Replace(shop, "limit: 256MiB", "limit: 256MiB, verify: {every: 1m, rate: 1MiB}", 1)
	o := options(t, t.TempDir(), text, l)
	o.VerifyLook = 10 * time.Millisecond
	a := open(t, o)
	a.started = a.started.Add(-time.Hour) // it has run for some time
	n := run(t, a).waitReady(t)
	eventually(t, func() error {
		if a.verifyStatus().Last == nil {
			return errors.New("got no pass")
		}
		return nil
	})
	if _, err := os.Stat(datadir.VerifyReport(a.dir.Path())); err != nil {
		t.Error(err)
	}
	if n := l.count("reading what is stored"); n != 1 {
		t.Errorf("got %d passes within a minute, want 1", n)
	}
	n.stop(t)
}

func TestAStopEndsAPassAtOnce(t *testing.T) {
	n := run(t, open(t, options(t, t.TempDir(), shop, &logged{}))).waitReady(t)
	js := n.jetStream(t)
	for range 20 {
		if _, err := js.Publish(t.Context(), "orders.new", make([]byte, 1000)); err != nil {
			t.Fatal(err)
		}
	}
	begun, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		first := true
		_, err := n.Verify(context.Background(), admin.VerifyRequest{Rate: 1}, func(admin.VerifyProgress) {
			if first {
				first = false
				close(begun)
			}
		})
		ended <- err
	}()
	<-begun
	n.stop(t)
	select {
	case err := <-ended:
		if !errors.Is(err, errStopping) {
			t.Errorf("got %v, want the stop as the reason", err)
		}
	case <-time.After(patience):
		t.Error("got no end of the pass with the node")
	}
}

func TestAStoppedNodeIsVerifiedAndMended(t *testing.T) {
	home := t.TempDir()
	dir := filepath.Join(home, "data")
	n := run(t, open(t, options(t, home, shop, &logged{}))).waitReady(t)
	if _, err := n.jetStream(t).Publish(t.Context(), "orders.new", []byte("an order")); err != nil {
		t.Fatal(err)
	}
	if _, err := VerifyStopped(t.Context(), dir, admin.VerifyRequest{}, func(admin.VerifyProgress) {}); diag.CodeOf(err) != diag.CodeLocked {
		t.Errorf("got %v while the node runs, want the lock", err)
	}
	n.stop(t)
	out, err := VerifyStopped(t.Context(), dir, admin.VerifyRequest{Streams: []string{"shop/ORDERS"}}, func(admin.VerifyProgress) {})
	if err != nil || out.Streams != 1 || out.Messages != 1 || len(out.Damage) > 0 {
		t.Errorf("got %+v, %v, want the stream whole", out, err)
	}
	if _, err := VerifyStopped(t.Context(), dir, admin.VerifyRequest{Streams: []string{"shop/NONE"}}, func(admin.VerifyProgress) {}); diag.CodeOf(err) != diag.CodeUnknownObject {
		t.Errorf("got %v, want an unknown stream refused", err)
	}
	if done, err := MendStopped(dir, admin.MendRequest{Streams: []string{"shop/ORDERS"}}); err != nil || len(done.Damage) > 0 {
		t.Errorf("got %+v, %v, want nothing to mend", done, err)
	}
	if _, err := VerifyStopped(t.Context(), home, admin.VerifyRequest{}, func(admin.VerifyProgress) {}); err == nil {
		t.Error("got no error for a directory of somebody else")
	}
}
