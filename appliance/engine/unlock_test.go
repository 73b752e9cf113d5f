// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

// Two keys; the tests look for them where they must not be.
const (
	keyA = "first-key-0123456789-abcdefghijklmnopqrstuvwxyz"
	keyB = "other-key-9876543210-zyxwvutsrqponmlkjihgfedcba"
)

var errKilled = errors.New("killed here")

// makeConsumer makes the consumer c of a stream and acknowledges the first messages.
func makeConsumer(t *testing.T, r *realm, e *Engine, stream string, acked int) {
	t.Helper()
	js, err := jetstream.New(connect(t, r, e, "shop"))
	if err != nil {
		t.Fatal(err)
	}
	c, err := js.CreateConsumer(t.Context(), stream, jetstream.ConsumerConfig{Durable: "c", AckPolicy: jetstream.AckExplicitPolicy})
	if err != nil {
		t.Fatal(err)
	}
	batch, err := c.Fetch(acked)
	if err != nil {
		t.Fatal(err)
	}
	for m := range batch.Messages() {
		if err := m.DoubleAck(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// pending is what the consumer c of a stream has not delivered.
func pending(t *testing.T, r *realm, e *Engine, stream string) uint64 {
	t.Helper()
	js, err := jetstream.New(connect(t, r, e, "shop"))
	if err != nil {
		t.Fatal(err)
	}
	c, err := js.CreateOrUpdateConsumer(t.Context(), stream, jetstream.ConsumerConfig{Durable: "c", AckPolicy: jetstream.AckExplicitPolicy})
	if err != nil {
		t.Fatal(err)
	}
	info, err := c.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return info.NumPending
}

const (
	worldMessages = 90 // in each stream, in three blocks
	worldAcked    = 7
)

// makeWorld makes a store with two streams, one compressed, and a consumer with a position
// in each.
func makeWorld(t *testing.T, r *realm, s Settings) {
	t.Helper()
	e := started(t, r, s, nil)
	js, err := jetstream.New(connect(t, r, e, "shop"))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]jetstream.StoreCompression{"PLAIN": jetstream.NoCompression, "SMALL": jetstream.S2Compression} {
		if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: name, Subjects: []string{name}, MaxBytes: 120_000, Compression: c}); err != nil {
			t.Fatal(err)
		}
		for i := range worldMessages {
			if _, err := js.Publish(t.Context(), name, worldBody(name, i+1)); err != nil {
				t.Fatal(err)
			}
		}
		makeConsumer(t, r, e, name, worldAcked)
	}
	if err := e.Stop(); err != nil {
		t.Fatal(err)
	}
}

func worldBody(stream string, n int) []byte {
	return []byte(strings.Repeat(fmt.Sprintf("%s %04d ", stream, n), 80))
}

// checkWorld looks at every message and at the consumers.
func checkWorld(t *testing.T, r *realm, e *Engine) {
	t.Helper()
	js, err := jetstream.New(connect(t, r, e, "shop"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"PLAIN", "SMALL"} {
		stream, err := js.Stream(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		for i := range worldMessages {
			m, err := stream.GetMsg(t.Context(), uint64(i+1))
			if err != nil || string(m.Data) != string(worldBody(name, i+1)) {
				t.Fatalf("got %v, %v, want message %d of %s", m, err, i+1, name)
			}
		}
		if got, err := stream.Consumer(t.Context(), "c"); err != nil {
			t.Errorf("got %v, want consumer c of %s", err, name)
		} else if i := got.CachedInfo(); i.AckFloor.Stream != worldAcked || i.NumPending != worldMessages-worldAcked {
			t.Errorf("got %+v, want %d acknowledged in %s", i, worldAcked, name)
		}
	}
	if d := e.Progress(); len(d.Damaged)+len(d.StartedOver)+len(d.Unrecovered)+len(d.Restored) > 0 {
		t.Errorf("got %+v, want nothing to mend", d)
	}
}

// checkForm reads every file of the store: either all of it can be read in plain text, or
// nothing.
func checkForm(t *testing.T, s Settings, encrypted bool) {
	t.Helper()
	found := 0
	root := filepath.Join(s.StoreDir, server.JetStreamStoreDir)
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if err == nil && (strings.Contains(string(text), "PLAIN 00") || strings.Contains(string(text), `"subjects"`)) {
			found++
		}
		return err
	})
	if err != nil || (found == 0) != encrypted {
		t.Errorf("got %d files in plain text, %v, want encrypted: %v", found, err, encrypted)
	}
}

func copied(t *testing.T, s Settings) Settings {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(s.StoreDir)); err != nil {
		t.Fatal(err)
	}
	s.StoreDir, s.ResolverDir = dir, filepath.Join(dir, "accounts")
	return s
}

func ciphers(t *testing.T, f func(t *testing.T, c Cipher)) {
	for _, c := range []Cipher{CipherAES, CipherChaCha} {
		t.Run(string(c), func(t *testing.T) { f(t, c) })
	}
}

// TestWhatTheServerEncryptsIsRead pins the layout of keys, metadata, positions, index and
// blocks.
func TestWhatTheServerEncryptsIsRead(t *testing.T) {
	ciphers(t, func(t *testing.T, c Cipher) {
		r := newRealm(t, "shop")
		s := r.settings(t)
		s.Encryption = Encryption{Cipher: c, Key: NewKey(keyA)}
		makeWorld(t, r, s)
		checkForm(t, s, true)
		ring := s.Encryption.ring(s.Encryption.Key, c)
		files, err := keyFiles(s.StoreDir)
		if err != nil || len(files) < 2+2+6 {
			t.Fatalf("got %d key files, %v, want those of two streams, two consumers and six blocks", len(files), err)
		}
		for _, f := range files {
			o, ok := ring.open(f.account, f.name, f.text)
			if !ok || o.cipher != c || f.spare {
				t.Errorf("%s: got %v, want a key that opens", f.path, o)
				continue
			}
			if again, err := ring.seal(f.account, f.name, o); err != nil || string(again) != string(f.text) {
				t.Errorf("%s: got something else when it is sealed again, %v", f.path, err)
			}
		}
		for _, key := range storedStreams(filepath.Join(s.StoreDir, server.JetStreamStoreDir)) {
			m := &inspection{dir: filepath.Join(s.StoreDir, server.JetStreamStoreDir, key.account, streamsDir, key.stream), key: key, keys: ring}
			if end, ok := m.indexedEnd(); !ok || end != worldMessages {
				t.Errorf("%s: got end %d, %v of the index, want %d", key.stream, end, ok, worldMessages)
			}
			checkSealed(t, m.dir, server.JetStreamMetaFile, ring.opening(m.dir, key.account, key.stream))
			own := filepath.Join(m.dir, consumersDir, "c")
			unbox := ring.opening(own, key.account, consumerName(key.stream, "c"))
			checkSealed(t, own, server.JetStreamMetaFile, unbox)
			if damagedPosition(filepath.Join(own, positionFile), unbox) {
				t.Errorf("%s: got a damaged position", own)
			}
			blocks, _, err := storedBlocks(filepath.Join(m.dir, messagesDir))
			if err != nil {
				t.Fatal(err)
			}
			messages := 0
			for _, index := range blocks {
				b, err := m.read(index)
				if err != nil {
					t.Fatal(err)
				}
				scanned := b.scan(0)
				messages += scanned.messages
				if len(scanned.holes) > 0 {
					t.Errorf("%s %d: got %+v, want no hole", key.stream, index, scanned)
				}
			}
			if messages != worldMessages {
				t.Errorf("%s: got %d messages, want %d", key.stream, messages, worldMessages)
			}
		}
	})
}

func checkSealed(t *testing.T, dir, name string, unbox func([]byte) ([]byte, error)) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil || unbox == nil {
		t.Fatalf("%s: got %v, want a key and a file", dir, err)
	}
	plain, err := unbox(text)
	if err != nil || !json.Valid(plain) {
		t.Errorf("%s: got %q, %v, want JSON", dir, plain, err)
	}
}

// refused starts an engine that must not start, and must not touch anything.
func refused(t *testing.T, r *realm, s Settings, want string) {
	t.Helper()
	before := wholeTree(t, s.StoreDir)
	e := newEngine(t, r, s, nil)
	err := e.Start(t.Context())
	if err == nil || !strings.Contains(err.Error(), want) || diag.CodeOf(err) != diag.CodeStoreKey || !diag.Permanent(err) || diag.Hint(err) == "" {
		t.Fatalf("got %v (%s), want a refusal for good that says %q", err, diag.CodeOf(err), want)
	}
	if strings.Contains(err.Error()+diag.Hint(err), keyA) || strings.Contains(err.Error()+diag.Hint(err), keyB) {
		t.Errorf("got %v, with a key in it", err)
	}
	if diff := cmp.Diff(before, wholeTree(t, s.StoreDir)); diff != "" {
		t.Errorf("the store changed (-before +after):\n%s", diff)
	}
}

func wholeTree(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(filepath.Join(dir, server.JetStreamStoreDir), func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
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

func TestKeyIsChangedInTwoPhases(t *testing.T) {
	ciphers(t, func(t *testing.T, c Cipher) {
		r := newRealm(t, "shop")
		s := r.settings(t)
		s.Encryption = Encryption{Cipher: c, Key: NewKey(keyA), Place: "holdfast.yaml:3:5"}
		makeWorld(t, r, s)
		with := func(key, previous string) Settings {
			out := s
			out.Encryption.Cipher, out.Encryption.Key, out.Encryption.PreviousKey = "", NewKey(key), NewKey(previous)
			return out
		}
		refused(t, r, with(keyB, ""), "storage.encryption.key does not open")
		refused(t, r, with("", ""), "there is no key")
		refused(t, r, with("", keyB), "storage.encryption.previous_key does not open")
		refused(t, r, with(keyB, strings.ToUpper(keyA)), "neither storage.encryption.key nor previous_key")
		other := with(keyA, "")
		other.Encryption.Cipher = map[Cipher]Cipher{CipherAES: CipherChaCha, CipherChaCha: CipherAES}[c]
		refused(t, r, other, "was stored with "+string(c))

		e := started(t, r, with(keyB, keyA), nil)
		checkWorld(t, r, e)
		if got := e.Encryption(); got.Cipher != c || got.Rewrapped != got.Keys || got.Keys == 0 || !got.Previous {
			t.Errorf("got %+v, want all keys changed", got)
		}
		if err := e.Stop(); err != nil {
			t.Fatal(err)
		}
		e = started(t, r, with(keyB, keyA), nil) // nobody has taken it out yet
		if got := e.Encryption(); got.Rewrapped != 0 || got.Keys == 0 || !got.Previous {
			t.Errorf("got %+v, want nothing more to change", got)
		}
		checkWorld(t, r, e)
		if err := e.Stop(); err != nil {
			t.Fatal(err)
		}
		refused(t, r, with(keyA, ""), "does not open")
		e = started(t, r, with(keyB, ""), nil)
		checkWorld(t, r, e)
		if got := e.Encryption(); got.Previous {
			t.Errorf("got %+v, want no key before", got)
		}
		checkForm(t, s, true)
	})
}

func TestStoreIsEncryptedAndDecrypted(t *testing.T) {
	ciphers(t, func(t *testing.T, c Cipher) {
		r := newRealm(t, "shop")
		s := r.settings(t)
		makeWorld(t, r, s)
		checkForm(t, s, false)
		plain := wholeTree(t, s.StoreDir)

		s.Encryption = Encryption{Cipher: c, Key: NewKey(keyA)}
		e := started(t, r, s, nil)
		if got := e.Encryption(); got.Encrypted != 2 || got.Cipher != c || got.Keys < 10 {
			t.Errorf("got %+v, want two streams encrypted", got)
		}
		checkWorld(t, r, e)
		if err := e.Stop(); err != nil {
			t.Fatal(err)
		}
		checkForm(t, s, true)

		s.Encryption = Encryption{PreviousKey: NewKey(keyA)}
		e = started(t, r, s, nil)
		if got := e.Encryption(); got.Decrypted != 2 || got.Cipher != "" {
			t.Errorf("got %+v, want two streams decrypted", got)
		}
		checkWorld(t, r, e)
		if err := e.Stop(); err != nil {
			t.Fatal(err)
		}
		checkForm(t, s, false)
		for path, text := range wholeTree(t, s.StoreDir) {
			if filepath.Ext(path) == blockSuffix && text != plain[path] {
				t.Errorf("%s: got something else than before", path)
			}
			delete(plain, path)
		}
		for path := range plain {
			t.Errorf("got no %s any more", path)
		}

		s.Encryption = Encryption{}
		checkWorld(t, r, started(t, r, s, nil))
	})
}

func TestConversionNeedsRoom(t *testing.T) {
	r := newRealm(t, "shop")
	s := r.settings(t)
	makeWorld(t, r, s)
	before := wholeTree(t, s.StoreDir)
	s.Encryption = Encryption{Key: NewKey(keyA), Free: func() (uint64, error) { return spaceLeft + 1000, nil }}
	e := newEngine(t, r, s, nil)
	if err := e.Start(t.Context()); diag.CodeOf(err) != diag.CodeDiskFull || !strings.Contains(err.Error(), "64 MiB are free") {
		t.Errorf("got %v, want how much is free", err)
	}
	if diff := cmp.Diff(before, wholeTree(t, s.StoreDir)); diff != "" {
		t.Errorf("the store changed (-before +after):\n%s", diff)
	}
}

// change is one way to change how a store is encrypted.
type change struct {
	before, after Encryption
	encrypted     bool
}

func changes() map[string]change {
	return map[string]change{
		"new key": {Encryption{Key: NewKey(keyA)}, Encryption{Key: NewKey(keyB), PreviousKey: NewKey(keyA)}, true},
		"encrypt": {Encryption{}, Encryption{Key: NewKey(keyA), Cipher: CipherChaCha}, true},
		"decrypt": {Encryption{Key: NewKey(keyA), Cipher: CipherChaCha}, Encryption{PreviousKey: NewKey(keyA)}, false},
	}
}

// killedAt starts an engine that ends at the nth step; false when there are fewer.
func killedAt(t *testing.T, r *realm, s Settings, n int) bool {
	t.Helper()
	e := newEngine(t, r, s, nil)
	left := n
	e.step = func(string) error {
		if left--; left < 0 {
			return errKilled
		}
		return nil
	}
	err := e.Start(t.Context())
	if err != nil && !errors.Is(err, errKilled) {
		t.Fatal(err)
	}
	return err != nil
}

// TestChangesOfEncryptionSurviveAKillAtEveryStep ends the start at each of its steps, and
// once more in the start after that.
func TestChangesOfEncryptionSurviveAKillAtEveryStep(t *testing.T) {
	for name, c := range changes() {
		t.Run(name, func(t *testing.T) {
			r := newRealm(t, "shop")
			base := r.settings(t)
			base.Encryption = c.before
			makeWorld(t, r, base)
			n := 0
			for ; ; n++ {
				s := copied(t, base)
				s.Encryption = c.after
				if !killedAt(t, r, s, n) {
					break
				}
				killedAt(t, r, s, n%3)
				e := started(t, r, s, nil)
				checkWorld(t, r, e)
				if err := e.Stop(); err != nil {
					t.Fatal(err)
				}
				checkForm(t, s, c.encrypted)
				checkNothingLeft(t, s)
				if t.Failed() {
					t.Fatalf("after a kill at step %d", n)
				}
			}
			if n < 8 {
				t.Errorf("got %d steps, want each file to be one", n)
			}
			t.Logf("killed at %d steps", n)
		})
	}
}

func checkNothingLeft(t *testing.T, s Settings) {
	t.Helper()
	left, err := filepath.Glob(filepath.Join(s.StoreDir, server.JetStreamStoreDir, "*", convertingDir))
	if err != nil || len(left) > 0 {
		t.Errorf("got %v, %v, want no copy left", left, err)
	}
}

// A key that is taken out of the file too early, while a change is not over, is asked for;
// the change can be gone back on, too.
func TestChangeOfKeysWaitsForTheKeyBefore(t *testing.T) {
	r := newRealm(t, "shop")
	s := r.settings(t)
	s.Encryption = Encryption{Key: NewKey(keyA)}
	makeWorld(t, r, s)
	s.Encryption = Encryption{Key: NewKey(keyB), PreviousKey: NewKey(keyA)}
	if !killedAt(t, r, s, 5) {
		t.Fatal("got fewer steps than 5")
	}
	early := s
	early.Encryption.PreviousKey = Key{}
	refused(t, r, early, "storage.encryption.key does not open")

	back := s
	back.Encryption = Encryption{Key: NewKey(keyA), PreviousKey: NewKey(keyB)}
	e := started(t, r, back, nil)
	checkWorld(t, r, e)
	if got := e.Encryption(); got.Rewrapped == 0 || got.Rewrapped == got.Keys {
		t.Errorf("got %+v, want some of the keys changed back", got)
	}
}

// What is taken back in the middle of an encryption is still all there.
func TestEncryptionCanBeTakenBackInTheMiddle(t *testing.T) {
	r := newRealm(t, "shop")
	base := r.settings(t)
	makeWorld(t, r, base)
	for n := 1; ; n++ {
		s := copied(t, base)
		s.Encryption = Encryption{Key: NewKey(keyA)}
		if !killedAt(t, r, s, n) {
			break
		}
		s.Encryption = Encryption{PreviousKey: NewKey(keyA)}
		e := started(t, r, s, nil)
		checkWorld(t, r, e)
		if err := e.Stop(); err != nil {
			t.Fatal(err)
		}
		checkForm(t, s, false)
		checkNothingLeft(t, s)
		if t.Failed() {
			t.Fatalf("after a kill at step %d", n)
		}
	}
}

func TestConversionEndsWithTheContext(t *testing.T) {
	r := newRealm(t, "shop")
	s := r.settings(t)
	makeWorld(t, r, s)
	s.Encryption = Encryption{Key: NewKey(keyA)}
	ctx, cancel := context.WithCancel(t.Context())
	e := newEngine(t, r, s, nil)
	e.step = func(what string) error {
		if what == "copied a block" {
			cancel()
		}
		return nil
	}
	if err := e.Start(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the end of the context", err)
	}
	checkWorld(t, r, started(t, r, s, nil))
	checkForm(t, s, true)
}

// TestTheServerForgetsConsumersWhenItChangesKeys is why it never gets a key before.
func TestTheServerForgetsConsumersWhenItChangesKeys(t *testing.T) {
	r := newRealm(t, "shop")
	s := r.settings(t)
	s.Encryption = Encryption{Cipher: CipherChaCha, Key: NewKey(keyA)}
	makeWorld(t, r, s)
	s.Encryption.Key = NewKey(keyB)
	opts, err := options(s)
	if err != nil {
		t.Fatal(err)
	}
	opts.JetStreamOldKey = keyA
	srv, err := server.NewServer(opts)
	if err != nil {
		t.Fatal(err)
	}
	defer srv.WaitForShutdown()
	defer srv.Shutdown()
	srv.Start()
	login, _ := r.login(t, "shop")
	nc, err := nats.Connect("", nats.InProcessServer(srv), login, nats.Timeout(patience))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(t.Context(), "PLAIN")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Consumer(t.Context(), "c"); !errors.Is(err, jetstream.ErrConsumerNotFound) {
		t.Errorf("got %v, want the consumer gone: the server has learned to change keys", err)
	}
}

func TestKeysDoNotPrint(t *testing.T) {
	s := Settings{Encryption: Encryption{Key: NewKey(keyA), PreviousKey: NewKey(keyB)}}
	out := fmt.Sprintf("%v %+v %#v %s %q", s, s, s, s.Encryption.Key, s.Encryption.Key) + Render(s)
	text, err := json.Marshal(struct{ K Key }{s.Encryption.Key})
	if err != nil {
		t.Fatal(err)
	}
	out += string(text)
	for _, key := range []string{keyA, keyB} {
		if strings.Contains(out, key) {
			t.Errorf("got a key in %s", out)
		}
	}
}
