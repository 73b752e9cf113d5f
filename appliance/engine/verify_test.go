// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// verify makes a pass in which waiting takes no time worth mentioning.
func verify(t *testing.T, e *Engine, o VerifyOptions) Verified {
	t.Helper()
	s := scrub{storeDir: e.settings.StoreDir, names: e.log.names, ring: e.ring(), o: o, live: e.fates, settle: 20 * time.Millisecond}
	out, err := s.run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return out
}

const (
	inLength = 1 // of a record
	inBody   = 100
)

// flipQuietly flips a bit of a message and returns its sequence.
func flipQuietly(t *testing.T, l *lab, index, record, byteOf int) (seq uint64) {
	t.Helper()
	quietly(t, blockPath(l.orders, index), func() error {
		block(t, filepath.Join(l.orders, messagesDir), index, func(buf []byte, offsets []int) []byte {
			at := offsets[(record+len(offsets))%len(offsets)]
			seq = seqAt(buf, at)
			buf[at+byteOf] ^= 0x40
			return buf
		})
		return nil
	})
	return seq
}

// TestVerifyFindsWhatAStartDoesNotRead is damage that nothing tells of: the index is
// newer than the block.
func TestVerifyFindsWhatAStartDoesNotRead(t *testing.T) {
	for name, harm := range map[string]func(t *testing.T, l *lab) []SeqRange{
		"a bit": func(t *testing.T, l *lab) []SeqRange {
			seq := flipQuietly(t, l, 2, 50, inBody)
			return []SeqRange{{seq, seq}}
		},
		"bits in two blocks": func(t *testing.T, l *lab) []SeqRange {
			one, two := flipQuietly(t, l, 1, 0, inBody), flipQuietly(t, l, 2, -1, inLength)
			return []SeqRange{{one, one}, {two, two}}
		},
		"a page of zeros": func(t *testing.T, l *lab) []SeqRange {
			var lost SeqRange
			quietly(t, blockPath(l.orders, 2), func() error {
				block(t, filepath.Join(l.orders, messagesDir), 2, func(buf []byte, offsets []int) []byte {
					lost = SeqRange{seqAt(buf, offsets[20]), seqAt(buf, offsets[33])}
					clear(buf[offsets[20]+50 : offsets[33]+50])
					return buf
				})
				return nil
			})
			return []SeqRange{lost}
		},
		"the end of a block": func(t *testing.T, l *lab) []SeqRange {
			var lost SeqRange
			quietly(t, blockPath(l.orders, 2), func() error {
				block(t, filepath.Join(l.orders, messagesDir), 2, func(buf []byte, offsets []int) []byte {
					n := len(offsets)
					lost = SeqRange{seqAt(buf, offsets[n-4]), seqAt(buf, offsets[n-1])}
					return buf[:offsets[n-4]+100]
				})
				return nil
			})
			return []SeqRange{lost}
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			want := harm(t, l)
			e, js := l.start(t)
			if early := e.Progress().Damaged; len(early) > 0 {
				t.Fatalf("got %+v from the start: a pass is not needed to find it", early)
			}
			checkVerified(t, l, e, want)

			// Nobody has read it meanwhile; mended it costs what is damaged.
			mended, err := e.Mend([]string{"shop/ORDERS"})
			if err != nil || len(mended) != len(Damages(l.s.StoreDir)) {
				t.Fatalf("got %+v, %v, want it mended", mended, err)
			}
			for _, d := range Damages(l.s.StoreDir) {
				if d.Open {
					t.Errorf("got %+v, want it mended", d)
				}
			}
			orders := streamSoon(t, js)
			checkMessages(t, orders, want)
			if again := verify(t, e, VerifyOptions{}); len(again.Damaged) > 0 {
				t.Errorf("got %+v after mending, want nothing", again.Damaged)
			}
			if diff := cmp.Diff(l.other, treeOf(t, filepath.Join(l.streams, "OTHER", messagesDir))); diff != "" {
				t.Error("the stream beside it changed")
			}
		})
	}
}

// A start reads blocks with messages that others may be duplicates of, and the last one,
// and cuts them off, whatever the index says.
func TestAStartMendsWhatTheServerReadsAtOnce(t *testing.T) {
	for name, c := range map[string]struct {
		window time.Duration
		block  int
	}{
		"what may be a duplicate": {time.Hour, 2},
		"the last block":          {window, 3},
	} {
		t.Run(name, func(t *testing.T) { startMends(t, c.window, c.block) })
	}
}

func startMends(t *testing.T, window time.Duration, block int) {
	t.Helper()
	l := newLabWith(t, window)
	seq := flipQuietly(t, l, block, 10, inLength)
	e, js := l.start(t)
	if got := e.Progress().Damaged; len(got) != 1 || !cmp.Equal(got[0].Lost, []SeqRange{{seq, seq}}) {
		t.Errorf("got %+v, want %d found by the start", got, seq)
	}
	checkMessages(t, streamSoon(t, js), []SeqRange{{seq, seq}})
}

// streamSoon finds ORDERS once the streams are read again.
func streamSoon(t *testing.T, js jetstream.JetStream) (orders jetstream.Stream) {
	t.Helper()
	eventually(t, func() (err error) {
		orders, err = js.Stream(t.Context(), "ORDERS")
		return err
	})
	return orders
}

// checkVerified makes two passes: what the first finds is not told twice.
func checkVerified(t *testing.T, l *lab, e *Engine, want []SeqRange) {
	t.Helper()
	for range 2 {
		var got []SeqRange
		out := verify(t, e, VerifyOptions{})
		for _, d := range out.Damaged {
			if d.Account != "shop" || d.Stream != "ORDERS" || !d.Open {
				t.Errorf("got %+v, want it of shop/ORDERS and open", d)
			}
			if _, err := os.Stat(d.Original); err != nil {
				t.Errorf("got %v, want a copy of the block", err)
			}
			got = append(got, d.Lost...)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("what is lost differs (-want +got):\n%s", diff)
		}
		if out.Streams != 2 || out.Blocks != 6 || out.Messages < 2*stored-30 || out.Bytes == 0 || len(out.Problems) > 0 {
			t.Errorf("got %+v, want all blocks of both streams read", out)
		}
		if diff := cmp.Diff(out.Damaged, Damages(l.s.StoreDir), cmpopts.IgnoreFields(Damage{}, "Found")); diff != "" {
			t.Errorf("what was found differs from what is kept (-found +kept):\n%s", diff)
		}
	}
}

// The server cuts a block off where it is damaged; what was behind is brought back from
// the copy that a pass made before.
func TestMendingBringsBackWhatTheServerCutOff(t *testing.T) {
	for name, mend := range map[string]func(t *testing.T, l *lab, e *Engine, js jetstream.JetStream) jetstream.JetStream{
		"at once": func(t *testing.T, _ *lab, e *Engine, js jetstream.JetStream) jetstream.JetStream {
			if _, err := e.Mend([]string{"shop/ORDERS"}); err != nil {
				t.Fatal(err)
			}
			return js
		},
		"by a restart": func(t *testing.T, l *lab, e *Engine, _ jetstream.JetStream) jetstream.JetStream {
			if err := e.Stop(); err != nil {
				t.Fatal(err)
			}
			e, js := l.start(t)
			if got := e.Progress().Damaged; len(got) != 1 {
				t.Errorf("got %+v, want the start to mend it", got)
			}
			return js
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			seq := flipQuietly(t, l, 2, 50, inLength)
			e, js := l.start(t)
			if out := verify(t, e, VerifyOptions{}); len(out.Damaged) != 1 {
				t.Fatalf("got %+v, want the damage", out)
			}
			whole, err := os.Stat(blockPath(l.orders, 2))
			if err != nil {
				t.Fatal(err)
			}
			orders := streamSoon(t, js)
			if _, err := orders.GetMsg(t.Context(), seq+1); err == nil {
				t.Fatal("the server reads past the damage: it has changed")
			}
			if cut, err := os.Stat(blockPath(l.orders, 2)); err != nil || cut.Size() >= whole.Size() {
				t.Fatalf("the server has not cut the block off (%v): it has changed", err)
			}
			checkMessages(t, streamSoon(t, mend(t, l, e, js)), []SeqRange{{seq, seq}})
		})
	}
}

func TestAStoppedStoreIsReadAndNotChanged(t *testing.T) {
	l := newLab(t)
	seq := flipQuietly(t, l, 2, 50, inBody)
	if err := os.WriteFile(filepath.Join(l.s.ResolverDir, "x.jwt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	names := StoredNames(l.s.ResolverDir)
	if got, want := StoredStreams(l.s.StoreDir, names), []string{"shop/ORDERS", "shop/OTHER"}; !cmp.Equal(got, want) {
		t.Fatalf("got streams %v, want %v", got, want)
	}
	before := everything(t, l.s.StoreDir)
	var last VerifyProgress
	out, err := VerifyStore(t.Context(), l.s.StoreDir, names, VerifyOptions{Progress: func(p VerifyProgress) { last = p }})
	if err != nil {
		t.Fatal(err)
	}
	if len(out.Damaged) != 1 || !cmp.Equal(out.Damaged[0].Lost, []SeqRange{{seq, seq}}) || out.Damaged[0].Stream != "ORDERS" || out.Streams != 2 {
		t.Errorf("got %+v, want the one that is damaged", out)
	}
	if last.StreamsDone != 2 || last.BytesDone != last.BytesTotal || last.Damaged != 1 {
		t.Errorf("got %+v at the end, want all of it done", last)
	}
	if diff := cmp.Diff(before, everything(t, l.s.StoreDir)); diff != "" {
		t.Errorf("got another store after a pass (-before +after):\n%s", diff)
	}
	if out, err := VerifyStore(t.Context(), l.s.StoreDir, names, VerifyOptions{Streams: []string{"shop/OTHER"}}); err != nil || len(out.Damaged) > 0 || out.Streams != 1 {
		t.Errorf("got %+v, %v, want the other stream whole", out, err)
	}
	if mended, err := MendStore(l.s.StoreDir, names, []string{"shop/ORDERS"}); err != nil || len(mended) != 1 {
		t.Fatalf("got %+v, %v, want it mended", mended, err)
	}
	_, js := l.start(t)
	checkMessages(t, streamSoon(t, js), []SeqRange{{seq, seq}})
}

// TestAStoppedStoreSaysWhatIsMissing has streams that blocks alone do not tell of.
func TestAStoppedStoreSaysWhatIsMissing(t *testing.T) {
	l := newLab(t)
	remove(t, filepath.Join(l.streams, "OTHER"), filepath.Join(l.orders, server.JetStreamMetaFile))
	if err := os.WriteFile(filepath.Join(l.s.ResolverDir, "x.jwt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	names := StoredNames(l.s.ResolverDir)
	before := everything(t, l.s.StoreDir)
	out, err := VerifyStore(t.Context(), l.s.StoreDir, names, VerifyOptions{})
	want := []string{"stream shop/ORDERS: its configuration can't be read; a start brings it back", "stream shop/OTHER: its directory is gone; the next start says what it had"}
	if err != nil || !cmp.Equal(out.Problems, want) {
		t.Errorf("got %q and %v, want %q", out.Problems, err, want)
	}
	if diff := cmp.Diff(before, everything(t, l.s.StoreDir)); diff != "" {
		t.Errorf("got another store after a pass (-before +after):\n%s", diff)
	}
}

// everything is the content of all files below a directory.
func everything(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		out[path] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// The index is read as the server writes it: with subjects, and what was removed.
func TestIndexTellsWhatIsInBlocks(t *testing.T) {
	r := newRealm(t, "shop")
	s := r.settings(t)
	e := started(t, r, s, nil)
	js, err := jetstream.New(connect(t, r, e, "shop"))
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"o.*"}, MaxBytes: 120_000, AllowMsgTTL: true})
	if err != nil {
		t.Fatal(err)
	}
	for i := range stored {
		m := nats.NewMsg(fmt.Sprintf("o.%d", i%7))
		m.Data = body(uint64(i + 1))
		if i%50 == 0 {
			m.Header.Set("Nats-TTL", "1h")
		}
		if _, err := js.PublishMsg(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	for _, seq := range []uint64{1, 7, 8, 120} {
		if err := stream.DeleteMsg(t.Context(), seq); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.Stop(); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(s.StoreDir, server.JetStreamStoreDir, r.public(t, "shop"), streamsDir, "ORDERS")
	blocks, ok := indexedBlocks(filepath.Join(dir, messagesDir, indexName), "ORDERS", nil)
	if !ok || len(blocks) != 3 {
		t.Fatalf("got %+v, %t, want three blocks", blocks, ok)
	}
	var all []SeqRange
	for _, index := range []int{1, 2, 3} {
		all = append(all, blocks[index].lacks(nil)...)
		br, err := openBlock(dir, streamKey{stream: "ORDERS"}, index, nil)
		if err != nil {
			t.Fatal(err)
		}
		br.collect = true
		br.scan(0)
		if lacks := blocks[index].lacks(br.seqs); len(lacks) > 0 {
			t.Errorf("block %d: got %v missing, want nothing", index, lacks)
		}
	}
	first, second := blocks[1].last, blocks[2].last
	want := []SeqRange{{2, 6}, {9, first}, {first + 1, 119}, {121, second}, {second + 1, stored}}
	if diff := cmp.Diff(want, all); diff != "" {
		t.Errorf("what is in the blocks differs (-want +got):\n%s", diff)
	}
	if messages, first, last := indexHead(filepath.Join(dir, messagesDir, indexName), "ORDERS", nil); messages != stored-4 || first != 2 || last != stored {
		t.Errorf("got %d messages from %d to %d, want %d from 2 to %d", messages, first, last, stored-4, stored)
	}
}

// TestVerifyOfABusyStoreFindsNothing is what must not be taken for damage: blocks that
// are written, compacted, emptied and removed while they are read.
func TestVerifyOfABusyStoreFindsNothing(t *testing.T) {
	r := newRealm(t, "shop")
	s := r.settings(t)
	e := started(t, r, s, nil)
	nc := connect(t, r, e, "shop")
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var busy sync.WaitGroup
	stop := sync.OnceFunc(func() { cancel(); busy.Wait() })
	defer stop()
	for _, c := range []jetstream.StreamConfig{
		{Name: "LIMITS", MaxBytes: 300_000, Discard: jetstream.DiscardOld},
		{Name: "WORK", MaxBytes: 4_000_000, Retention: jetstream.WorkQueuePolicy},
		{Name: "LAST", MaxBytes: 4_000_000, MaxMsgsPerSubject: 2},
		{Name: "PURGED", MaxBytes: 4_000_000},
		{Name: "ERASED", MaxBytes: 4_000_000},
	} {
		c.Subjects = []string{c.Name + ".*"}
		stream, err := js.CreateStream(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		busy.Go(func() { disturb(ctx, js, stream, c.Name) })
	}
	passes := 0
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end); passes++ {
		// The slack is about the time between the server's look and its index.
		if out := verify(t, e, VerifyOptions{}); len(out.Damaged)+len(out.Problems) > 0 {
			t.Errorf("got %+v, want a busy store whole", out)
			break
		}
	}
	stop()
	if out := verify(t, e, VerifyOptions{}); len(out.Damaged)+len(out.Problems) > 0 || out.Streams != 5 || out.Blocks < 5 {
		t.Errorf("got %+v after %d passes, want a quiet store whole", out, passes)
	}
}

// disturb publishes and removes until ctx is done.
func disturb(ctx context.Context, js jetstream.JetStream, stream jetstream.Stream, name string) {
	var consumer jetstream.Consumer
	if name == "WORK" {
		var err error
		if consumer, err = js.CreateConsumer(ctx, name, jetstream.ConsumerConfig{Durable: "w", AckPolicy: jetstream.AckExplicitPolicy}); err != nil {
			return
		}
	}
	for i := 1; ctx.Err() == nil; i++ {
		ack, err := js.Publish(ctx, fmt.Sprintf("%s.%d", name, i%50), body(uint64(i)))
		if err != nil {
			return
		}
		switch {
		case name == "WORK" && i%200 == 0:
			batch, err := consumer.FetchNoWait(190)
			if err != nil {
				return
			}
			for m := range batch.Messages() {
				_ = m.Ack()
			}
		case name == "PURGED" && i%400 == 0:
			_ = stream.Purge(ctx, jetstream.WithPurgeKeep(uint64(i%3)))
		case name == "ERASED" && i%3 == 0:
			remove := stream.DeleteMsg
			if i%2 == 0 {
				remove = stream.SecureDeleteMsg
			}
			_ = remove(ctx, ack.Sequence-uint64(i%20))
		}
	}
}

// The end of the last block that is not whole is a message that is being written; what
// the server has said is stored is not.
func TestVerifyKnowsAnEndThatIsLost(t *testing.T) {
	l := newLab(t)
	e, _ := l.start(t)
	path := blockPath(l.orders, 3)
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	buf, err := os.ReadFile(path)
	if err == nil {
		_, err = f.Write(buf[:150])
	}
	if err = errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	if out := verify(t, e, VerifyOptions{}); len(out.Damaged) > 0 {
		t.Errorf("got %+v, want a message that is being written to be no damage", out.Damaged)
	}
	var lost SeqRange
	if err := os.WriteFile(path, buf, 0o600); err != nil {
		t.Fatal(err)
	}
	block(t, filepath.Join(l.orders, messagesDir), 3, func(b []byte, offsets []int) []byte {
		n := len(offsets)
		lost = SeqRange{seqAt(b, offsets[n-3]), stored}
		return b[:offsets[n-3]]
	})
	out := verify(t, e, VerifyOptions{})
	if len(out.Damaged) != 1 || !cmp.Equal(out.Damaged[0].Lost, []SeqRange{lost}) || !strings.Contains(out.Damaged[0].What, "the end of the stream is gone") {
		t.Errorf("got %+v, want %v lost", out.Damaged, lost)
	}
}

func TestVerifySaysWhatItCanNotRead(t *testing.T) {
	l := newLab(t)
	in := rangeOf(t, l.orders, 2)
	e, _ := l.start(t)
	// A directory in its place can be read by nobody, root neither.
	remove(t, blockPath(l.orders, 2))
	if err := os.Mkdir(blockPath(l.orders, 2), 0o700); err != nil {
		t.Fatal(err)
	}
	out := verify(t, e, VerifyOptions{})
	if len(out.Damaged) != 1 || !strings.Contains(out.Damaged[0].What, "block 2 can't be read") || !cmp.Equal(out.Damaged[0].Lost, []SeqRange{in}) {
		t.Errorf("got %+v, want block 2, which has %v", out.Damaged, in)
	}
	if _, err := e.Mend([]string{"shop/ORDERS"}); err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.New(connect(t, l.r, e, "shop"))
	if err != nil {
		t.Fatal(err)
	}
	checkMessages(t, streamSoon(t, js), []SeqRange{in})
	if _, err := os.Stat(blockPath(l.orders, 2) + ".unreadable"); err != nil {
		t.Errorf("got %v, want the file still there", err)
	}
}

func TestVerifyKeepsToItsRateAndStopsAtOnce(t *testing.T) {
	l := newLab(t)
	e, _ := l.start(t)
	begun := time.Now()
	out := verify(t, e, VerifyOptions{Rate: 400_000})
	if want := time.Duration(float64(out.Bytes) / 400_000 * float64(time.Second)); time.Since(begun) < want*9/10 {
		t.Errorf("got %d bytes in %v, want at least %v", out.Bytes, time.Since(begun), want)
	}
	ctx, cancel := context.WithCancel(t.Context())
	begun = time.Now()
	_, err := e.Verify(ctx, VerifyOptions{Rate: 1 << 10, Progress: func(p VerifyProgress) {
		if p.BytesDone > 0 || p.Current != "" {
			time.AfterFunc(10*time.Millisecond, cancel)
		}
	}})
	if !errors.Is(err, context.Canceled) || time.Since(begun) > 5*time.Second {
		t.Errorf("got %v after %v, want an end at once", err, time.Since(begun))
	}
}

func TestVerifyReadsCompressedBlocks(t *testing.T) {
	r := newRealm(t, "shop")
	s := r.settings(t)
	e := started(t, r, s, nil)
	js, err := jetstream.New(connect(t, r, e, "shop"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "SMALL", Subjects: []string{"s"}, MaxBytes: 120_000, Compression: jetstream.S2Compression}); err != nil {
		t.Fatal(err)
	}
	for i := range stored {
		if _, err := js.Publish(t.Context(), "s", body(uint64(i))); err != nil {
			t.Fatal(err)
		}
	}
	// The server compresses a block some time after it has begun another one.
	streams := filepath.Join(s.StoreDir, server.JetStreamStoreDir)
	eventually(t, func() error {
		out := verify(t, e, VerifyOptions{})
		info, err := js.Stream(t.Context(), "SMALL")
		if err != nil {
			return err
		}
		if have := info.CachedInfo().State.Msgs; out.Hidden > 0 || len(out.Damaged) > 0 || uint64(out.Messages) != have {
			return fmt.Errorf("got %+v, want all %d messages read", out, have)
		}
		blocks, _ := filepath.Glob(filepath.Join(streams, "*", streamsDir, "SMALL", messagesDir, "*"+blockSuffix))
		for _, path := range blocks {
			if text, err := os.ReadFile(path); err == nil && strings.HasPrefix(string(text), compressed) {
				return nil
			}
		}
		return errors.New("got no compressed block")
	})
}
