// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/minio/highwayhash"
	"github.com/nats-io/nats-server/v2/server"
)

// restoreChecksum writes the checksum of the metadata of the stream or consumer in a
// directory where it is missing or wrong. hashed is what the server makes the key of
// the checksum from.
//
// nats-server 2.15.3 writes meta.inf and then meta.sum, two writes that a power cut
// can come between, when an object is made and when it is updated. From then on it
// passes over the object at every start, and over all that is stored in it; even
// creating it again leaves the checksum as it is. A meta.inf that is whole, which its
// JSON and the name in it tell, is what the server was about to vouch for.
func restoreChecksum(dir, name, hashed string) (bool, error) {
	meta, err := os.ReadFile(filepath.Join(dir, server.JetStreamMetaFile))
	if err != nil {
		return false, nil //nolint:nilerr // the server says what is missing
	}
	if _, err := os.Stat(filepath.Join(dir, server.JetStreamMetaFileKey)); err == nil {
		return false, nil // encrypted: whether it is whole can't be told
	}
	if !wholeMeta(meta, name) {
		return false, nil
	}
	want, err := metaSum(meta, hashed)
	if err != nil {
		return false, err
	}
	path := filepath.Join(dir, server.JetStreamMetaFileSum)
	if have, err := os.ReadFile(path); err == nil && string(have) == want {
		return false, nil
	}
	err = writeSynced(path, []byte(want))
	return err == nil, err
}

// metaSum is the checksum of a configuration.
func metaSum(meta []byte, hashed string) (string, error) {
	key := sha256.Sum256([]byte(hashed))
	hash, err := highwayhash.NewDigest64(key[:])
	if err != nil {
		return "", fmt.Errorf("make a checksum: %w", err)
	}
	_, _ = hash.Write(meta) // a hash takes everything
	return hex.EncodeToString(hash.Sum(nil)), nil
}

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
	tmp := path + ".new"
	f, err := os.OpenFile(tmp, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o640)
	if err != nil {
		return fmt.Errorf("write file: %w", err)
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(tmp, path)
	}
	if err != nil {
		return fmt.Errorf("write file: %w", err)
	}
	return syncDir(filepath.Dir(path))
}

// syncDir makes what was made, renamed or removed in a directory survive a power cut.
func syncDir(path string) (err error) {
	dir, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("sync directory: %w", err)
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	if err := dir.Sync(); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return fmt.Errorf("sync directory: %w", err)
	}
	return nil
}
