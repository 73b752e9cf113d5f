// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
)

// edit changes a file.
func edit(t *testing.T, path string, change func([]byte) []byte) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, change(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func flipped(text []byte) []byte {
	text[len(text)/2] ^= 0x40
	return text
}

// sequences are those of a block's messages.
func sequences(t *testing.T, msgs string, index int) (r SeqRange) {
	t.Helper()
	raw, err := os.ReadFile(blockFile(msgs, index))
	if err != nil {
		t.Fatal(err)
	}
	b, err := decodeBlock("ORDERS", index, raw, testKey(msgs, index))
	if err != nil {
		t.Fatal(err)
	}
	s := b.scan(0)
	if len(s.holes) > 0 || s.messages == 0 {
		t.Fatalf("got %+v, want whole records: the server writes something else", s)
	}
	return SeqRange{s.last - uint64(s.messages) + 1, s.last}
}

// TestDamagedKeysCostTheirBlocks is about the files that only an encrypted store has.
func TestDamagedKeysCostTheirBlocks(t *testing.T) {
	var want []SeqRange
	lose := func(index int, damage func(t *testing.T, path string)) func(*testing.T, string) {
		return func(t *testing.T, msgs string) {
			want = []SeqRange{sequences(t, msgs, index)}
			// The node had been idle for a while when it was stopped.
			later := time.Now().Add(time.Second)
			if err := os.Chtimes(filepath.Join(msgs, indexName), later, later); err != nil {
				t.Fatal(err)
			}
			damage(t, keyPath(msgs, index))
		}
	}
	gone := func(t *testing.T, path string) {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	flip := func(t *testing.T, path string) { edit(t, path, flipped) }
	none := func(t *testing.T, path string) { edit(t, path, func([]byte) []byte { return nil }) }
	for name, harm := range map[string]func(t *testing.T, msgs string){
		"a bit of the key in the middle": lose(2, flip),
		"the key in the middle":          lose(2, gone),
		"an empty key":                   lose(1, none),
		"a bit of the last key":          lose(3, flip),
		"the last key":                   lose(3, gone),
		"the last key, and the index": func(t *testing.T, msgs string) {
			lose(3, gone)(t, msgs)
			want[0].To = 0 // nobody knows
			gone(t, filepath.Join(msgs, indexName))
		},
		"a new block, the key not written yet": func(t *testing.T, msgs string) {
			want = nil
			if err := os.WriteFile(filepath.Join(msgs, "4.blk"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		},
		"zeros where a message was being written": func(t *testing.T, msgs string) {
			want = nil
			edit(t, filepath.Join(msgs, "3.blk"), func(raw []byte) []byte { return append(raw, make([]byte, 3000)...) })
		},
		"half a message, then zeros": func(t *testing.T, msgs string) {
			want = nil
			edit(t, filepath.Join(msgs, "3.blk"), func(raw []byte) []byte { return append(raw, make([]byte, 17)...) })
		},
	} {
		for _, c := range []Cipher{CipherAES, CipherChaCha} {
			t.Run(name+", "+string(c), func(t *testing.T) {
				e, orders, storeDir := damaged(t, keptAs{cipher: c}, harm)
				checkLost(t, e, storeDir, want)
				if len(want) > 0 && want[0].To == 0 {
					checkEnd(t, orders, want[0].From)
					return
				}
				checkMessages(t, orders, want)
			})
		}
	}
}

// checkEnd: everything before a sequence is there.
func checkEnd(t *testing.T, orders jetstream.Stream, from uint64) {
	t.Helper()
	info, err := orders.Info(t.Context())
	if err != nil || info.State.Msgs != from-1 || info.State.LastSeq < from {
		t.Errorf("got %+v, %v, want %d messages, and sequence %d not given out again", info.State, err, from-1, from)
	}
}

// TestBlockInTheQuarantineCanBeRead: with its key beside it, under a new key, too.
func TestBlockInTheQuarantineCanBeRead(t *testing.T) {
	r := newRealm(t, "shop")
	s := r.settings(t)
	s.Encryption = Encryption{Key: NewKey(keyA)}
	makeWorld(t, r, s)
	account := r.public(t, "shop")
	msgs := filepath.Join(s.StoreDir, server.JetStreamStoreDir, account, streamsDir, "PLAIN", messagesDir)
	edit(t, blockFile(msgs, 1), flipped)
	s.Encryption = Encryption{Key: NewKey(keyB), PreviousKey: NewKey(keyA)}
	if err := started(t, r, s, nil).Stop(); err != nil {
		t.Fatal(err)
	}
	s.Encryption = Encryption{Key: NewKey(keyA), PreviousKey: NewKey(keyB)}
	if err := started(t, r, s, nil).Stop(); err != nil {
		t.Fatal(err)
	}
	found := Damages(s.StoreDir)
	if len(found) != 1 || len(found[0].Lost) != 1 {
		t.Fatalf("got %+v, want one block", found)
	}
	raw, err := os.ReadFile(found[0].Original)
	if err != nil {
		t.Fatal(err)
	}
	key, ok := (&keyring{key: keyA}).openKeyFile(keyPath(filepath.Dir(found[0].Original), 1), account, blockName("PLAIN", 1))
	if !ok {
		t.Fatal("got no key beside it that opens")
	}
	b, err := decodeBlock("PLAIN", 1, raw, key)
	if err != nil {
		t.Fatal(err)
	}
	if got := b.scan(0); got.messages != found[0].Kept || len(got.holes) != 1 {
		t.Errorf("got %+v, want the block as it was found, with %d whole messages", got, found[0].Kept)
	}
}

// TestDamageInCompressedBlocks: what stands before the damage can be read.
func TestDamageInCompressedBlocks(t *testing.T) {
	var want []SeqRange
	inBody := func(index int) func(*testing.T, string) {
		return func(t *testing.T, msgs string) {
			want = []SeqRange{sequences(t, msgs, index)}
			edit(t, blockFile(msgs, index), flipped)
		}
	}
	for name, harm := range map[string]func(t *testing.T, msgs string){
		"a bit in the middle":      inBody(2),
		"a bit in the first block": inBody(1),
		"the end": func(t *testing.T, msgs string) {
			want = []SeqRange{sequences(t, msgs, 2)}
			edit(t, filepath.Join(msgs, "2.blk"), func(raw []byte) []byte { return raw[:len(raw)/2] })
		},
		"the head, which nobody needs": func(t *testing.T, msgs string) {
			want = nil
			edit(t, filepath.Join(msgs, "2.blk"), func(raw []byte) []byte { raw[0] ^= 1; return raw })
		},
		"the last block, which is not compressed": func(t *testing.T, msgs string) {
			block(t, msgs, 3, func(buf []byte, offsets []int) []byte {
				want = []SeqRange{{seqAt(buf, offsets[7]), seqAt(buf, offsets[7])}}
				buf[offsets[7]+100]++
				return buf
			})
		},
	} {
		for _, c := range []Cipher{"", CipherAES, CipherChaCha} {
			t.Run(name+", cipher "+string(c), func(t *testing.T) {
				e, orders, storeDir := damaged(t, keptAs{cipher: c, compression: jetstream.S2Compression}, harm)
				checkLost(t, e, storeDir, want)
				checkMessages(t, orders, want)
			})
		}
	}
}

// TestDamagedKeyOfAStreamCostsItsSettings: the messages are there when it is made again.
func TestDamagedKeyOfAStreamCostsItsSettings(t *testing.T) {
	for name, harm := range map[string]func(t *testing.T, path string){
		"flipped": func(t *testing.T, path string) { edit(t, path, flipped) },
		"gone":    func(t *testing.T, path string) { remove(t, path) },
	} {
		t.Run(name, func(t *testing.T) { testDamagedKeyOfAStream(t, harm) })
	}
}

func testDamagedKeyOfAStream(t *testing.T, harm func(t *testing.T, path string)) {
	t.Helper()
	r := newRealm(t, "shop")
	s := r.settings(t)
	s.Encryption = Encryption{Key: NewKey(keyA)}
	e := started(t, r, s, nil)
	fill(t, r, e, "shop", 3, 5)
	makeConsumer(t, r, e, "S1", 2)
	makeConsumer(t, r, e, "S2", 2)
	if err := e.Stop(); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(s.StoreDir, server.JetStreamStoreDir, r.public(t, "shop"), streamsDir)
	harm(t, filepath.Join(dir, "S0", server.JetStreamMetaFileKey))
	edit(t, filepath.Join(dir, "S1", consumersDir, "c", server.JetStreamMetaFileKey), flipped)
	edit(t, filepath.Join(dir, "S2", consumersDir, "c", positionFile), flipped)

	e = started(t, r, s, nil)
	p := e.Progress()
	if len(p.Damaged) != 1 || p.Damaged[0].Stream != "S0" || !p.Damaged[0].Settings {
		t.Errorf("got %+v, want the settings of S0", p.Damaged)
	}
	if diff := cmp.Diff(p.Damaged, Damages(s.StoreDir)); diff != "" {
		t.Errorf("what is kept differs (-found +kept):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"shop/S1/c", "shop/S2/c"}, p.StartedOver, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("consumers that start over (-want +got):\n%s", diff)
	}
	js, err := jetstream.New(connect(t, r, e, "shop"))
	if err != nil {
		t.Fatal(err)
	}
	again, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S0", Subjects: []string{"S0.>"}})
	if err != nil {
		t.Fatal(err)
	}
	for seq := uint64(1); seq <= 5; seq++ {
		if m, err := again.GetMsg(t.Context(), seq); err != nil || !bytes.Equal(m.Data, make([]byte, 100)) {
			t.Errorf("got %v, %v, want message %d", m, err, seq)
		}
	}
	if p := pending(t, r, e, "S2"); p != 5 {
		t.Errorf("got %d pending, want all 5 again", p)
	}
	if err := e.Stop(); err != nil {
		t.Fatal(err)
	}
	e = started(t, r, s, nil)
	if p := e.Progress(); len(p.Damaged) > 0 || len(p.Unrecovered) > 0 || p.StreamsDone != 3 {
		t.Errorf("got %+v, want nothing more to find", p)
	}
}
