// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
)

// stored are the messages of the damaged stream; a block holds about 100 of them.
const stored = 250

// damaged makes a stream of three blocks, stops the server, does harm to the stream's
// directory and starts again. It returns the engine and the stream.
func damaged(t *testing.T, kept keptAs, harm func(t *testing.T, msgs string)) (*Engine, jetstream.Stream, string) {
	t.Helper()
	r := newRealm(t, "shop")
	s := r.settings(t)
	if kept.cipher != "" {
		s.Encryption = Encryption{Cipher: kept.cipher, Key: NewKey(keyA)}
	}
	e := started(t, r, s, nil)
	js, err := jetstream.New(connect(t, r, e, "shop"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"ORDERS", "OTHER"} {
		if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: name, Subjects: []string{name}, MaxBytes: 120_000, Compression: kept.compression}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range stored {
		for _, name := range []string{"ORDERS", "OTHER"} {
			if _, err := js.Publish(t.Context(), name, body(uint64(i+1))); err != nil {
				t.Fatal(err)
			}
		}
	}
	if kept.compression != jetstream.NoCompression {
		msgs := filepath.Join(s.StoreDir, server.JetStreamStoreDir, r.public(t, "shop"), streamsDir, "ORDERS", messagesDir)
		eventually(t, func() error { return areCompressed(msgs, 1, 2) }) // in the background
	}
	if err := e.Stop(); err != nil {
		t.Fatal(err)
	}
	streams := filepath.Join(s.StoreDir, server.JetStreamStoreDir, r.public(t, "shop"), streamsDir)
	before := treeOf(t, filepath.Join(streams, "OTHER", messagesDir))
	harm(t, filepath.Join(streams, "ORDERS", messagesDir))
	e = started(t, r, s, nil)
	if js, err = jetstream.New(connect(t, r, e, "shop")); err != nil {
		t.Fatal(err)
	}
	orders, err := js.Stream(t.Context(), "ORDERS")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, treeOf(t, filepath.Join(streams, "OTHER", messagesDir))); diff != "" {
		t.Errorf("the stream beside it changed (-before +after):\n%s", diff)
	}
	return e, orders, s.StoreDir
}

// keptAs is the form in which messages are kept.
type keptAs struct {
	cipher      Cipher
	compression jetstream.StoreCompression
}

func areCompressed(msgs string, blocks ...int) error {
	for _, index := range blocks {
		raw, err := os.ReadFile(filepath.Join(msgs, fmt.Sprint(index)+blockSuffix))
		if err != nil {
			return err
		}
		plain, err := testKey(msgs, index).crypt(raw)
		if err != nil {
			return err
		}
		if !bytes.HasPrefix(plain, []byte(compressed)) {
			return fmt.Errorf("block %d is not compressed", index)
		}
	}
	return nil
}

// testKey is the key of a block under keyA; nil when it has none.
func testKey(msgs string, index int) *objectKey {
	stream := filepath.Dir(msgs)
	account := filepath.Base(filepath.Dir(filepath.Dir(stream)))
	key, _ := (&keyring{key: keyA}).openKeyFile(keyPath(msgs, index), account, blockName(filepath.Base(stream), index))
	return key
}

func body(seq uint64) []byte { return bytes.Repeat(fmt.Appendf(nil, "%06d ", seq), 40) }

// treeOf are the blocks in a directory; the index is written anew at each start.
func treeOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*"+blockSuffix))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, p := range paths {
		text, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		out[filepath.Base(p)] = string(text)
	}
	return out
}

// block edits a block file.
func block(t *testing.T, msgs string, index int, edit func(buf []byte, offsets []int) []byte) {
	t.Helper()
	path := filepath.Join(msgs, fmt.Sprint(index)+blockSuffix)
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	key := testKey(msgs, index)
	buf, err := key.crypt(raw)
	if err != nil {
		t.Fatal(err)
	}
	r, err := newBlockReader("ORDERS", index, buf)
	if err != nil {
		t.Fatal(err)
	}
	var offsets []int
	for at := 0; at < len(buf); {
		rec, ok := r.at(at)
		if !ok {
			t.Fatalf("block %d: got no record at %d: the server writes something else", index, at)
		}
		offsets = append(offsets, at)
		at += rec.size
	}
	// A bit of what is encrypted is a bit of what it decrypts to.
	if raw, err = key.crypt(edit(buf, offsets)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
}

func seqAt(buf []byte, offset int) uint64 { return binary.LittleEndian.Uint64(buf[offset+4:]) }

// TestDamageCostsNoMoreThanWhatIsDamaged is a table of what disks and people do to
// files.
func TestDamageCostsNoMoreThanWhatIsDamaged(t *testing.T) {
	for _, c := range []Cipher{"", CipherAES, CipherChaCha} {
		t.Run("cipher "+string(c), func(t *testing.T) { testDamage(t, keptAs{cipher: c}) })
	}
}

func testDamage(t *testing.T, kept keptAs) {
	var want []SeqRange // set by the harm
	one := func(seq uint64) []SeqRange { return []SeqRange{{seq, seq}} }
	flip := func(index, record, byteOf int) func(*testing.T, string) {
		return func(t *testing.T, msgs string) {
			block(t, msgs, index, func(buf []byte, offsets []int) []byte {
				at := offsets[(record+len(offsets))%len(offsets)]
				want = one(seqAt(buf, at))
				buf[at+byteOf] ^= 0x40
				return buf
			})
		}
	}
	for name, harm := range map[string]func(t *testing.T, msgs string){
		"a bit of a message, in the middle":           flip(2, 50, 100),
		"a bit of a message, in the first block":      flip(1, 3, 100),
		"a bit of the very first message":             flip(1, 0, 100),
		"a bit of a message, in the last block":       flip(3, 10, 100),
		"a bit of the very last message":              flip(3, -1, 100),
		"a bit of a length":                           flip(2, 50, 1),
		"a bit of a sequence":                         flip(2, 50, 4),
		"a bit of a checksum, at the end of a block":  flip(2, -1, recordHead+6+280),
		"a bit of the length of the first in a block": flip(2, 0, 1),
		"a page of zeros": func(t *testing.T, msgs string) {
			block(t, msgs, 2, func(buf []byte, offsets []int) []byte {
				from, to := offsets[20]+50, offsets[33]+50
				want = []SeqRange{{seqAt(buf, offsets[20]), seqAt(buf, offsets[33])}}
				clear(buf[from:to])
				return buf
			})
		},
		"two places": func(t *testing.T, msgs string) {
			block(t, msgs, 2, func(buf []byte, offsets []int) []byte {
				want = []SeqRange{{seqAt(buf, offsets[5]), seqAt(buf, offsets[5])}, {seqAt(buf, offsets[60]), seqAt(buf, offsets[60])}}
				buf[offsets[5]+90]++
				buf[offsets[60]+90]++
				return buf
			})
		},
		"the end of a block in the middle": func(t *testing.T, msgs string) {
			block(t, msgs, 2, func(buf []byte, offsets []int) []byte {
				want = []SeqRange{{seqAt(buf, offsets[len(offsets)-4]), seqAt(buf, offsets[len(offsets)-1])}}
				return buf[:offsets[len(offsets)-4]+100]
			})
		},
		"the end of the last block": func(t *testing.T, msgs string) {
			block(t, msgs, 3, func(buf []byte, offsets []int) []byte {
				want = []SeqRange{{seqAt(buf, offsets[len(offsets)-4]), stored}}
				return buf[:offsets[len(offsets)-4]+100]
			})
		},
		"the last block": func(t *testing.T, msgs string) {
			block(t, msgs, 3, func(buf []byte, _ []int) []byte {
				want = []SeqRange{{seqAt(buf, 0), stored}}
				return nil
			})
		},
		"in the middle, and the very last message": func(t *testing.T, msgs string) {
			flip(2, 50, 100)(t, msgs)
			first := want
			flip(3, -1, 100)(t, msgs)
			want = append(first, want...)
		},
		"in the middle, and the end of the last block": func(t *testing.T, msgs string) {
			flip(2, 50, 100)(t, msgs)
			first := want
			block(t, msgs, 3, func(buf []byte, offsets []int) []byte {
				want = append(first, SeqRange{seqAt(buf, offsets[len(offsets)-4]), stored})
				return buf[:offsets[len(offsets)-4]+100]
			})
		},
		"a bit of the length of the very last message, which looks as if it were being written": flip(3, -1, 1),
		"in the middle, with a message that was being written": func(t *testing.T, msgs string) {
			flip(2, 50, 100)(t, msgs)
			first := want
			block(t, msgs, 3, func(buf []byte, _ []int) []byte {
				return append(buf, buf[:150]...)
			})
			want = first
		},
		"the index": func(t *testing.T, msgs string) {
			want = nil
			if err := os.Remove(filepath.Join(msgs, indexName)); err != nil {
				t.Fatal(err)
			}
		},
		"half an index": func(t *testing.T, msgs string) {
			want = nil
			if err := os.Truncate(filepath.Join(msgs, indexName), 20); err != nil {
				t.Fatal(err)
			}
		},
		"a message that was being written": func(t *testing.T, msgs string) {
			block(t, msgs, 3, func(buf []byte, offsets []int) []byte {
				want = nil
				torn := slices.Clone(buf[offsets[len(offsets)-1] : offsets[len(offsets)-1]+150])
				binary.LittleEndian.PutUint64(torn[4:], stored+1)
				return append(buf, torn...)
			})
		},
		"zeros where a message was being written": func(t *testing.T, msgs string) {
			block(t, msgs, 3, func(buf []byte, _ []int) []byte {
				want = nil
				return append(buf, make([]byte, 3000)...)
			})
		},
		"a message that holds what looks like a record": func(t *testing.T, msgs string) {
			block(t, msgs, 2, func(buf []byte, offsets []int) []byte {
				at := offsets[50]
				want = one(seqAt(buf, at))
				// A whole record of a later sequence, in the body of the broken one.
				r, err := newBlockReader("ORDERS", 2, nil)
				if err != nil {
					t.Fatal(err)
				}
				forged := r.reaching(seqAt(buf, at) + 1)
				binary.LittleEndian.PutUint64(forged[4:], seqAt(buf, at)+1) // a message, and no removal
				r.sum.Reset()
				_, _ = r.sum.Write(forged[4:20])
				copy(buf[at+recordHead+6:], r.sum.Sum(forged[:recordHead]))
				return buf
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			e, orders, storeDir := damaged(t, kept, harm)
			checkLost(t, e, storeDir, want)
			checkMessages(t, orders, want)
		})
	}
}

// checkLost compares what is said to be lost, and looks for the files as they were.
func checkLost(t *testing.T, e *Engine, storeDir string, want []SeqRange) {
	t.Helper()
	got := []SeqRange{}
	for _, d := range Damages(storeDir) {
		if d.Account != "shop" || d.Stream != "ORDERS" || d.Found.IsZero() {
			t.Errorf("got %+v, want the stream by its name", d)
		}
		if _, err := os.Stat(d.Original); err != nil {
			t.Errorf("got %v, want the block as it was", err)
		}
		got = append(got, d.Lost...)
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("what is said to be lost differs (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(Damages(storeDir), e.Progress().Damaged, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("what the start found differs from what is kept (-kept +found):\n%s", diff)
	}
}

// A start that is killed while it mends is gone on with by the next: what it had written
// by then is put into the place of what it found.
func TestMendingIsGoneOnWith(t *testing.T) {
	var want []SeqRange
	harm := func(t *testing.T, msgs string) {
		want = nil
		for index, record := range map[int]int{2: 50, 3: -1} {
			block(t, msgs, index, func(buf []byte, offsets []int) []byte {
				at := offsets[(record+len(offsets))%len(offsets)]
				want = append(want, SeqRange{seqAt(buf, at), seqAt(buf, at)})
				buf[at+100]++
				return buf
			})
		}
	}
	for name, written := range map[string]func(msgs, mended string) error{
		"the last block": func(msgs, mended string) error { return copyNamed(mended, msgs, "3.blk") },
		"the last block, the index gone": func(msgs, mended string) error {
			return errors.Join(copyNamed(mended, msgs, "3.blk"), os.Remove(filepath.Join(msgs, indexName)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, orders, _ := damaged(t, keptAs{}, func(t *testing.T, msgs string) {
				harm(t, msgs)
				// What a whole run writes, of a copy of the store.
				dir := filepath.Dir(msgs)
				key := streamKey{filepath.Base(filepath.Dir(filepath.Dir(dir))), filepath.Base(dir)}
				store := t.TempDir()
				mended := filepath.Join(store, server.JetStreamStoreDir, key.account, streamsDir, key.stream, messagesDir)
				if err := os.CopyFS(mended, os.DirFS(msgs)); err != nil {
					t.Fatal(err)
				}
				if found, err := mendOne(store, key, Names{}, nil); err != nil || len(found) != 2 {
					t.Fatalf("got %+v, %v, want two blocks mended", found, err)
				}
				if err := written(msgs, mended); err != nil {
					t.Fatal(err)
				}
			})
			checkMessages(t, orders, want)
		})
	}
}

func copyNamed(from, to, name string) error {
	text, err := os.ReadFile(filepath.Join(from, name))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(to, name), text, 0o600)
}

// checkMessages reads every message and publishes one more.
func checkMessages(t *testing.T, orders jetstream.Stream, lost []SeqRange) {
	t.Helper()
	for seq := uint64(1); seq <= stored; seq++ {
		gone := slices.ContainsFunc(lost, func(r SeqRange) bool { return seq >= r.From && seq <= r.To })
		m, err := orders.GetMsg(t.Context(), seq)
		switch {
		case gone && err == nil:
			t.Fatalf("got message %d, want it lost", seq)
		case !gone && err != nil:
			t.Fatalf("got %v for message %d, want it", err, seq)
		case !gone && !bytes.Equal(m.Data, body(seq)):
			t.Fatalf("got another message as %d", seq)
		}
	}
	info, err := orders.Info(t.Context())
	if err != nil || info.State.LastSeq != stored {
		t.Errorf("got %+v, %v, want the next message to be %d", info.State, err, stored+1)
	}
}

func TestBlocksOfAnOrdinaryLifeAreNotDamaged(t *testing.T) {
	for _, c := range []Cipher{"", CipherAES, CipherChaCha} {
		t.Run("cipher "+string(c), func(t *testing.T) { testOrdinaryLife(t, c) })
	}
}

func testOrdinaryLife(t *testing.T, c Cipher) {
	r := newRealm(t, "shop")
	s := r.settings(t)
	if c != "" {
		s.Encryption = Encryption{Cipher: c, Key: NewKey(keyA)}
	}
	keys := s.Encryption.ring(s.Encryption.Key, c)
	e := started(t, r, s, nil)
	js, err := jetstream.New(connect(t, r, e, "shop"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []jetstream.StreamConfig{
		{Name: "LIMITS", MaxBytes: 64 << 10, Discard: jetstream.DiscardOld},
		{Name: "WORK", MaxBytes: 120_000, Retention: jetstream.WorkQueuePolicy},
		{Name: "LAST", MaxBytes: 120_000, MaxMsgsPerSubject: 1},
		{Name: "SMALL", MaxBytes: 120_000, Compression: jetstream.S2Compression},
		{Name: "PURGED", MaxBytes: 120_000},
		{Name: "ERASED", MaxBytes: 120_000},
		{Name: "BATCH", MaxBytes: 120_000, AllowAtomicPublish: true},
	} {
		c.Subjects = []string{c.Name + ".*"}
		stream, err := js.CreateStream(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		for i := range stored {
			if _, err := js.Publish(t.Context(), fmt.Sprintf("%s.%d", c.Name, i%7), body(uint64(i))); err != nil {
				t.Fatal(err)
			}
		}
		switch c.Name {
		case "WORK":
			consumer, err := js.CreateConsumer(t.Context(), c.Name, jetstream.ConsumerConfig{Durable: "worker"})
			if err != nil {
				t.Fatal(err)
			}
			batch, err := consumer.Fetch(stored)
			if err != nil {
				t.Fatal(err)
			}
			for m := range batch.Messages() {
				if err := m.DoubleAck(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		case "PURGED":
			if err := stream.Purge(t.Context()); err != nil {
				t.Fatal(err)
			}
		case "ERASED":
			for _, seq := range []uint64{1, 2, 100, 101, 180, stored} {
				remove := stream.DeleteMsg
				if seq%2 == 0 {
					remove = stream.SecureDeleteMsg
				}
				if err := remove(t.Context(), seq); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	// As a crash leaves it, and after a clean stop; both with the index believed old.
	crashed := filepath.Join(t.TempDir(), "crashed")
	if err := os.CopyFS(crashed, os.DirFS(s.StoreDir)); err != nil {
		t.Fatal(err)
	}
	if err := e.Stop(); err != nil {
		t.Fatal(err)
	}
	for _, store := range []string{crashed, s.StoreDir} {
		for _, key := range storedStreams(filepath.Join(store, server.JetStreamStoreDir)) {
			msgs := filepath.Join(store, server.JetStreamStoreDir, key.account, streamsDir, key.stream, messagesDir)
			past := time.Unix(1, 0)
			if err := os.Chtimes(filepath.Join(msgs, indexName), past, past); err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
			before := treeOf(t, msgs)
			found, err := mendOne(store, key, r.names(), keys)
			if err != nil || len(found) > 0 {
				t.Errorf("%s: got %+v, %v, want no damage", key.stream, found, err)
			}
			if diff := cmp.Diff(before, treeOf(t, msgs)); diff != "" {
				t.Errorf("%s: got it changed", key.stream)
			}
			// How far a stream with compressed blocks goes is seen, too.
			if last := filepath.Join(msgs, fmt.Sprint(len(before))+blockSuffix); key.stream == "SMALL" && store == s.StoreDir {
				if err := os.Truncate(last, 0); err != nil {
					t.Fatal(err)
				}
				if found, err := mendOne(store, key, r.names(), keys); err != nil || len(found) != 1 || len(found[0].Lost) != 1 || found[0].Lost[0].To != stored {
					t.Errorf("got %+v, %v, want the end of the stream lost", found, err)
				}
			}
		}
	}
}

// mendOne mends the blocks of one stream.
func mendOne(store string, key streamKey, names Names, ring *keyring) ([]Damage, error) {
	return mendBlocks(store, key, names, ring, time.Now(), &checking{})
}
