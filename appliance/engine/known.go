// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// The server has one copy of what it needs to know of a stream, and passes over a stream
// where that is damaged; of one whose directory is gone it knows nothing. So what there
// is is noted beside the store: the configuration of each stream and its consumers, and
// how far it went. At a clean stop the notes are exact.

const (
	knownDir = "known"
	// stopName is a file with a mark that all notes of the same clean stop have.
	stopName = "stopped"
)

// known is what is noted of a stream.
type known struct {
	At   time.Time `json:"at"`
	Stop string    `json:"stop,omitempty"` // the mark of the clean stop; empty while the node runs
	// Meta and Consumers are the files with their configurations. They are empty when the
	// stream is encrypted: what is encrypted in the store is not in plain text beside it.
	Meta      string            `json:"meta,omitempty"`
	Consumers map[string]string `json:"consumers,omitempty"`
	// First and Last are sequences, as the index had them.
	First    uint64 `json:"first_seq"`
	Last     uint64 `json:"last_seq"`
	Messages uint64 `json:"messages"`
	// Indexed is when the index was written, in nanoseconds since 1970, and Blocks the
	// blocks that were there.
	Indexed int64 `json:"indexed"`
	Blocks  []int `json:"blocks"`
}

func knownPath(storeDir string, key streamKey) string {
	return filepath.Join(storeDir, knownDir, key.account, key.stream+damageReport)
}

func readKnown(storeDir string, key streamKey) (known, bool) {
	text, err := os.ReadFile(knownPath(storeDir, key))
	var k known
	return k, err == nil && json.Unmarshal(text, &k) == nil
}

// stopMark is the mark of a clean stop; "" when the node runs, or ended otherwise.
func stopMark(storeDir string) string {
	text, err := os.ReadFile(filepath.Join(storeDir, knownDir, stopName))
	if err != nil {
		return ""
	}
	return string(text)
}

// of reports whether the note is that of the latest stop, and nobody has run the store
// since: an older version of Holdfast leaves the mark, but writes the index.
func (k known) of(stop string, indexed time.Time) bool {
	return stop != "" && k.Stop == stop && (indexed.IsZero() || indexed.UnixNano() == k.Indexed)
}

// remember notes what there is in the store. stop is the mark of a clean stop, or empty.
// Notes of streams that are gone are removed: somebody deleted them while the node ran.
// ring opens what is encrypted.
func remember(storeDir, stop string, ring *keyring, now time.Time) error {
	var errs []error
	there := map[streamKey]bool{}
	for _, key := range storedStreams(filepath.Join(storeDir, server.JetStreamStoreDir)) {
		there[key] = true
		k, ok := lookAt(storeDir, key, ring)
		if !ok {
			continue // a note of before is better than none
		}
		k.At, k.Stop = now.UTC(), stop
		if before, ok := readKnown(storeDir, key); ok {
			before.At = k.At
			if reflect.DeepEqual(before, k) {
				continue
			}
		}
		errs = append(errs, k.write(knownPath(storeDir, key)))
	}
	for _, key := range knownStreams(storeDir) {
		if !there[key] {
			errs = append(errs, forget(storeDir, key))
		}
	}
	return errors.Join(errs...)
}

// lookAt returns what there is to note of a stream; false when its configuration can't
// be read.
func lookAt(storeDir string, key streamKey, ring *keyring) (known, bool) {
	dir := filepath.Join(storeDir, server.JetStreamStoreDir, key.account, streamsDir, key.stream)
	var k known
	encrypted, err := isEncrypted(dir)
	if err != nil {
		return k, false
	}
	own, opens := (*objectKey)(nil), true
	if encrypted {
		own, opens = ring.metaKey(dir, key.account, key.stream)
	} else {
		meta, err := os.ReadFile(filepath.Join(dir, server.JetStreamMetaFile))
		if err != nil || !wholeMeta(meta, key.stream) {
			return k, false
		}
		k.Meta = string(meta)
		consumers, _ := os.ReadDir(filepath.Join(dir, consumersDir))
		for _, c := range consumers {
			if meta, err := os.ReadFile(filepath.Join(dir, consumersDir, c.Name(), server.JetStreamMetaFile)); err == nil && wholeMeta(meta, c.Name()) {
				if k.Consumers == nil {
					k.Consumers = map[string]string{}
				}
				k.Consumers[c.Name()] = string(meta)
			}
		}
	}
	index := filepath.Join(dir, messagesDir, indexName)
	if info, err := os.Stat(index); err == nil {
		k.Indexed = info.ModTime().UnixNano()
		if opens {
			k.Messages, k.First, k.Last = indexHead(index, key.stream, own)
		}
	}
	k.Blocks, _, _ = storedBlocks(filepath.Join(dir, messagesDir))
	return k, true
}

// write is not synced: a note that a power cut tears is none, and the next is whole.
func (k known) write(path string) error {
	text, err := json.Marshal(k)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o700)
	}
	if err == nil {
		err = os.WriteFile(path+".new", append(text, '\n'), 0o600)
	}
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		return fmt.Errorf("note what a stream has: %w", err)
	}
	return nil
}

// hideNotes takes the configurations of streams that are encrypted by now out of the
// notes of when they were not.
func hideNotes(storeDir string) error {
	var errs []error
	for _, key := range knownStreams(storeDir) {
		k, ok := readKnown(storeDir, key)
		if !ok || k.Meta == "" && len(k.Consumers) == 0 {
			continue
		}
		encrypted, err := isEncrypted(filepath.Join(storeDir, server.JetStreamStoreDir, key.account, streamsDir, key.stream))
		if encrypted && err == nil {
			k.Meta, k.Consumers = "", nil
			err = k.write(knownPath(storeDir, key))
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// knownStreams are the streams with a note.
func knownStreams(storeDir string) []streamKey {
	var out []streamKey
	root := filepath.Join(storeDir, knownDir)
	accounts, _ := os.ReadDir(root)
	for _, a := range accounts {
		notes, _ := os.ReadDir(filepath.Join(root, a.Name()))
		for _, n := range notes {
			if stream, ok := strings.CutSuffix(n.Name(), damageReport); ok {
				out = append(out, streamKey{a.Name(), stream})
			}
		}
	}
	return out
}

func forget(storeDir string, key streamKey) error {
	err := os.Remove(knownPath(storeDir, key))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Remember notes what the streams have, for a start after damage. It is called now and
// then, and must not be while streams are deleted or made anew on purpose.
func (e *Engine) Remember() error { return remember(e.settings.StoreDir, "", e.ring(), time.Now()) }

// Forget removes the note of a stream that is about to be deleted on purpose: after a
// crash it would be missed, and what is left of it taken for damage.
func (e *Engine) Forget(accountKey, stream string) error {
	return forget(e.settings.StoreDir, streamKey{accountKey, stream})
}

// rememberStop notes what the streams have after a clean stop.
func rememberStop(storeDir string, ring *keyring) error {
	mark := rand.Text()
	if err := remember(storeDir, mark, ring, time.Now()); err != nil {
		return err
	}
	dir := filepath.Join(storeDir, knownDir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("note the stop: %w", err)
	}
	return writeSynced(filepath.Join(dir, stopName), []byte(mark))
}

// forgetStop says that from here on the notes are not exact any more; before the server
// writes.
func forgetStop(storeDir string) error {
	dir := filepath.Join(storeDir, knownDir)
	err := os.Remove(filepath.Join(dir, stopName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("forget the stop before: %w", err)
	}
	return syncDir(dir)
}
