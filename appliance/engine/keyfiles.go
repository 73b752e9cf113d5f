// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/nats-io/nats-server/v2/server"
)

// keyFile is a file with a sealed seed.
type keyFile struct {
	path          string
	account, name string // what it is bound to
	stream        streamKey
	text          []byte
	// spare: nobody needs what it opens, or it may not open at all: an end of a block that
	// is gone, a batch that was not committed, a block in the quarantine.
	spare bool
}

// messageDirs are where the server keeps blocks: those in force, and on either side of a
// purge that is not over.
func messageDirs() []string { return []string{messagesDir, "__new_msgs__", "__msgs__"} }

// walker collects key files.
type walker struct {
	found []keyFile
	errs  []error
}

// keyFiles finds every key file of a store.
func keyFiles(storeDir string) ([]keyFile, error) {
	var w walker
	root := filepath.Join(storeDir, server.JetStreamStoreDir)
	for _, key := range storedStreams(root) {
		dir := filepath.Join(root, key.account, streamsDir, key.stream)
		w.store(dir, key, key.stream, false)
		for _, c := range w.names(filepath.Join(dir, consumersDir)) {
			w.add(filepath.Join(dir, consumersDir, c, server.JetStreamMetaFileKey), key, consumerName(key.stream, c), false)
		}
		for _, b := range w.names(filepath.Join(dir, batchesDir)) {
			w.store(filepath.Join(dir, batchesDir, b), key, b, true)
		}
	}
	w.setAside(root)
	w.quarantine(filepath.Join(storeDir, quarantine))
	return w.found, errors.Join(w.errs...)
}

// store collects what is of a stream, or of a batch, which is kept like one.
func (w *walker) store(dir string, key streamKey, name string, spare bool) {
	w.add(filepath.Join(dir, server.JetStreamMetaFileKey), key, name, spare)
	for _, msgs := range messageDirs() {
		w.blocks(filepath.Join(dir, msgs), key, name, spare || msgs != messagesDir)
	}
}

func (w *walker) blocks(dir string, key streamKey, name string, spare bool) {
	for _, file := range w.names(dir) {
		number, ok := strings.CutSuffix(file, keySuffix)
		index, err := strconv.Atoi(number)
		if !ok || err != nil {
			continue
		}
		info, err := os.Stat(filepath.Join(dir, number+blockSuffix))
		w.add(filepath.Join(dir, file), key, blockName(name, index), spare || err != nil || info.Size() == 0)
	}
}

// setAside collects the keys of streams that keepHidden set aside.
func (w *walker) setAside(root string) {
	accounts, _ := os.ReadDir(root) // what can't be read here is nothing to stop for
	for _, a := range accounts {
		account := a.Name()
		dirs, _ := os.ReadDir(filepath.Join(root, account))
		for _, d := range dirs {
			rest, ok := strings.CutPrefix(d.Name(), setAsidePrefix)
			_, stream, named := strings.Cut(rest, "-")
			if !ok || !named || !d.IsDir() {
				continue
			}
			dir, key := filepath.Join(root, account, d.Name()), streamKey{account, stream}
			w.store(dir, key, stream, true)
			for _, c := range w.names(filepath.Join(dir, consumersDir)) {
				w.add(filepath.Join(dir, consumersDir, c, server.JetStreamMetaFileKey), key, consumerName(stream, c), true)
			}
		}
	}
}

// quarantine collects the keys of blocks that were set aside, so that they can be read
// with the present key, too.
func (w *walker) quarantine(root string) {
	_ = filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return nil //nolint:nilerr // what can't be read here is nothing to stop for
		}
		number, ok := strings.CutSuffix(e.Name(), keySuffix)
		index, err := strconv.Atoi(number)
		if !ok || err != nil {
			return nil //nolint:nilerr // another file
		}
		key := streamKey{stream: filepath.Base(filepath.Dir(path)), account: filepath.Base(filepath.Dir(filepath.Dir(path)))}
		w.add(path, key, blockName(key.stream, index), true)
		return nil
	})
}

func (w *walker) add(path string, key streamKey, name string, spare bool) {
	text, err := os.ReadFile(path)
	switch {
	case err == nil:
		w.found = append(w.found, keyFile{path: path, account: key.account, name: name, stream: key, text: text, spare: spare})
	case !errors.Is(err, fs.ErrNotExist) && !spare:
		w.errs = append(w.errs, err)
	}
}

// names are what is in a directory; nothing when there is none.
func (w *walker) names(dir string) []string {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		w.errs = append(w.errs, err)
	}
	out := make([]string, len(entries))
	for i, e := range entries {
		out[i] = e.Name()
	}
	return out
}

// countKeys is how many of the key files open what is in force.
func countKeys(storeDir string) (n int, err error) {
	found, err := keyFiles(storeDir)
	for _, f := range found {
		if !f.spare {
			n++
		}
	}
	return n, err
}

// storeCipher is the cipher of a store, CipherAES of one that is not encrypted.
func storeCipher(storeDir string) Cipher {
	found, _ := keyFiles(storeDir) // an error is found again when the store is unlocked
	for _, f := range found {
		if c, ok := cipherOf(len(f.text)); ok && !f.spare {
			return c
		}
	}
	return CipherAES
}

// isEncrypted reports whether a stream is encrypted. One whose creation a crash cut short
// has keys of blocks, and no metadata; one whose key is gone has metadata that is not JSON.
func isEncrypted(dir string) (bool, error) {
	if there, err := exists(filepath.Join(dir, server.JetStreamMetaFileKey)); there || err != nil {
		return there, err
	}
	meta, err := os.ReadFile(filepath.Join(dir, server.JetStreamMetaFile))
	if err == nil && json.Valid(meta) { // what can't be read is as good as gone
		return false, nil
	}
	entries, err := os.ReadDir(filepath.Join(dir, messagesDir))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return filepath.Ext(e.Name()) == keySuffix }), err
}

func exists(path string) (bool, error) {
	_, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}
