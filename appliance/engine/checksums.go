// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/nats-io/nats-server/v2/server"
)

// restoreChecksum writes the checksum of the metadata of the stream or consumer in a
// directory where it is missing or wrong. hashed is what the server makes the key of
// the checksum from, unbox what decrypts the metadata; nil where nothing does.
//
// nats-server 2.15.3 writes meta.inf and then meta.sum, two writes that a power cut
// can come between, when an object is made and when it is updated. From then on it
// passes over the object at every start, and over all that is stored in it; even
// creating it again leaves the checksum as it is. A meta.inf that is whole, which its
// JSON and the name in it tell, is what the server was about to vouch for.
func restoreChecksum(dir, name, hashed string, unbox func([]byte) ([]byte, error)) (bool, error) {
	meta, err := os.ReadFile(filepath.Join(dir, server.JetStreamMetaFile))
	if err != nil || unbox == nil {
		return false, nil //nolint:nilerr // the server says what is missing
	}
	if plain, err := unbox(meta); err != nil || !wholeMeta(plain, name) {
		return false, nil //nolint:nilerr // it is not whole
	}
	want := metaSum(meta, hashed)
	path := filepath.Join(dir, server.JetStreamMetaFileSum)
	if have, err := os.ReadFile(path); err == nil && string(have) == want {
		return false, nil
	}
	err = writeSynced(path, []byte(want))
	return err == nil, err
}

// metaSum is the checksum of a configuration, as it is in its file.
func metaSum(meta []byte, hashed string) string { return hex.EncodeToString(sumOf(hashed, meta)) }

// wholeMeta reports whether a text is the configuration of a stream or consumer of a
// name, and all of it.
func wholeMeta(meta []byte, name string) bool {
	var config struct {
		Name    string `json:"name"`
		Durable string `json:"durable_name"`
	}
	return json.Unmarshal(meta, &config) == nil && (config.Name == name || config.Durable == name)
}

// writeSynced replaces a file in one step that survives a power cut.
func writeSynced(path string, data []byte) error {
	if err := replace(path, data); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// replace replaces a file in one step. A power cut leaves the one or the other, whole.
func replace(path string, data []byte) error {
	tmp := path + ".new"
	err := writeWhole(tmp, data)
	if err == nil {
		err = os.Rename(tmp, path)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", filepath.Base(path), err)
	}
	return nil
}

// writeWhole writes a file that is on the disk when it returns; its name may not be yet.
func writeWhole(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o640)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Sync(), f.Close())
}

// syncDir makes what was made, renamed or removed in a directory survive a power cut.
func syncDir(path string) (err error) {
	dir, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("sync directory: %w", err)
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	// Windows can't, and needs not.
	if err := dir.Sync(); err != nil && !errors.Is(err, errors.ErrUnsupported) && runtime.GOOS != "windows" {
		return fmt.Errorf("sync directory: %w", err)
	}
	return nil
}
