// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats-server/v2/server"
)

// newSealedLab is a lab that was encrypted by a start, and has stopped again.
func newSealedLab(t *testing.T) *lab {
	t.Helper()
	l := newLab(t)
	l.s.Encryption = Encryption{Key: NewKey(keyA)}
	e, _ := l.start(t)
	if err := e.Stop(); err != nil {
		t.Fatal(err)
	}
	// The last block and the index were copied at once.
	later := time.Now().Add(time.Second)
	for _, name := range []string{"ORDERS", "OTHER"} {
		if err := os.Chtimes(filepath.Join(l.streams, name, messagesDir, indexName), later, later); err != nil {
			t.Fatal(err)
		}
	}
	l.other = treeOf(t, filepath.Join(l.streams, "OTHER", messagesDir))
	<-time.After(window)
	return l
}

func (l *lab) ring() *keyring { return l.s.Encryption.ring(l.s.Encryption.Key, CipherAES) }

func (l *lab) key(t *testing.T) streamKey {
	t.Helper()
	return streamKey{l.r.public(t, "shop"), "ORDERS"}
}

// flipSealed flips a bit of a message in an encrypted block and returns its sequence.
func flipSealed(t *testing.T, l *lab, index, record int) (seq uint64) {
	t.Helper()
	r, err := openBlock(l.orders, l.key(t), index, l.ring())
	if err != nil {
		t.Fatal(err)
	}
	at := 0
	for range record {
		rec, ok := r.at(at)
		if !ok {
			t.Fatal("the block is damaged already")
		}
		at += rec.size
	}
	quietly(t, blockPath(l.orders, index), func() error {
		raw := bytes.Clone(r.raw)
		raw[at+inBody] ^= 0x40
		return os.WriteFile(blockPath(l.orders, index), raw, 0o600)
	})
	return seqAt(r.buf, at)
}

func TestVerifyReadsAnEncryptedStore(t *testing.T) {
	l := newSealedLab(t)
	seq := flipSealed(t, l, 2, 50)
	want := []SeqRange{{seq, seq}}

	out, err := VerifyStore(t.Context(), l.s.StoreDir, l.r.names(), VerifyOptions{})
	if err != nil || out.Hidden != 6 || out.Blocks > 0 || len(out.Damaged) > 0 {
		t.Errorf("got %+v, %v without the key, want 6 blocks not looked into", out, err)
	}
	e, js := l.start(t)
	if early := e.Progress().Damaged; len(early) > 0 {
		t.Fatalf("got %+v from the start: a pass is not needed to find it", early)
	}
	out = verify(t, e, VerifyOptions{})
	if out.Hidden > 0 || out.Messages != 2*stored-1 || len(out.Damaged) != 1 || !cmp.Equal(out.Damaged[0].Lost, want) || !out.Damaged[0].Open {
		t.Fatalf("got %+v, want %v lost", out, want)
	}
	copied := out.Damaged[0].Original
	if r, err := readBlock(copied, keyPath(filepath.Dir(copied), 2), l.key(t), 2, l.ring()); err != nil || len(r.scan(0).holes) != 1 {
		t.Errorf("got %v, want the block as it was, with its key", err)
	}
	if mended, err := e.Mend([]string{"shop/ORDERS"}); err != nil || len(mended) != 1 {
		t.Fatalf("got %+v, %v, want it mended", mended, err)
	}
	checkMessages(t, streamSoon(t, js), want)
	if again := verify(t, e, VerifyOptions{}); len(again.Damaged) > 0 {
		t.Errorf("got %+v after mending, want nothing", again.Damaged)
	}
	if err := e.Stop(); err != nil {
		t.Fatal(err)
	}
	checkNothingPlain(t, l.s.StoreDir)
	if diff := cmp.Diff(l.other, treeOf(t, filepath.Join(l.streams, "OTHER", messagesDir))); diff != "" {
		t.Error("the stream beside it changed")
	}
}

// checkNothingPlain looks for settings in plain text in all files of a store.
func checkNothingPlain(t *testing.T, storeDir string) {
	t.Helper()
	err := filepath.WalkDir(storeDir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		for _, plain := range []string{"max_bytes", "ack_policy", "subjects", "retention"} {
			if strings.Contains(string(text), plain) {
				t.Errorf("%s: got %s in plain text", path, plain)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// The notes of a store that was not encrypted have the settings of its streams.
func TestNotesOfAnEncryptedStreamHaveNoSettings(t *testing.T) {
	l := newSealedLab(t)
	checkNothingPlain(t, l.s.StoreDir)
	note, ok := readKnown(l.s.StoreDir, l.key(t))
	if !ok || note.Last != stored || note.Messages == 0 || len(note.Blocks) != 3 || note.Stop == "" {
		t.Errorf("got %+v, want what the index says", note)
	}
	// A start that was killed before it came to the notes.
	note.Meta = `{"retention":"limits"}`
	if err := note.write(knownPath(l.s.StoreDir, l.key(t))); err != nil {
		t.Fatal(err)
	}
	if e, _ := l.start(t); e.failure() != nil {
		t.Fatal(e.failure())
	}
	checkNothingPlain(t, l.s.StoreDir)
}

// TestLostSettingsOfAnEncryptedStream: the key of the stream is there, so that the server
// would take a stream that is made again for a new one.
func TestLostSettingsOfAnEncryptedStream(t *testing.T) {
	for name, harm := range map[string]func(t *testing.T, path string){
		"gone":  func(t *testing.T, path string) { remove(t, path) },
		"a bit": func(t *testing.T, path string) { edit(t, path, flipped) },
	} {
		t.Run(name, func(t *testing.T) {
			l := newSealedLab(t)
			harm(t, filepath.Join(l.orders, server.JetStreamMetaFile))
			e, js := l.start(t)
			if p := e.Progress(); len(p.Unrecovered) > 0 || len(p.Damaged) != 1 || !strings.Contains(p.Damaged[0].String(), "plain stream with all of its messages") {
				t.Errorf("got %+v, want the stream with all of its messages", p)
			}
			checkMessages(t, streamSoon(t, js), nil)
			if err := e.Stop(); err != nil {
				t.Fatal(err)
			}
			checkNothingPlain(t, l.s.StoreDir)
		})
	}
}

// A stream that the server would delete is found before the keys are changed.
func TestHiddenStreamGetsTheNewKey(t *testing.T) {
	l := newSealedLab(t)
	if err := os.Rename(l.orders, filepath.Join(l.streams, ".ORDERS")); err != nil {
		t.Fatal(err)
	}
	l.s.Encryption = Encryption{Key: NewKey(keyB), PreviousKey: NewKey(keyA)}
	e, js := l.start(t)
	if p := e.Progress(); len(p.Damaged) != 1 || p.Damaged[0].Stream != "ORDERS" {
		t.Errorf("got %+v, want it told", p)
	}
	checkMessages(t, streamSoon(t, js), nil)
	if err := e.Stop(); err != nil {
		t.Fatal(err)
	}
	l.s.Encryption = Encryption{Key: NewKey(keyB)}
	_, js = l.start(t)
	checkMessages(t, streamSoon(t, js), nil)
}
