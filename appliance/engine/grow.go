// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

// A server of a cluster deletes every stream of its store that the cluster did not assign
// to it. So a store with streams is taken into a cluster the other way round: a second
// engine, with a store of its own that is empty, is one of the cluster's nodes and has the
// cluster assign to it the same streams and consumers, with one copy each. Then both stop,
// and what the cluster agreed on is moved into the store with the messages, which stay
// where they are. The server finds streams that are assigned to it, and goes on with them.

// groupsDir is where a server of a cluster keeps what its nodes agreed on, below the
// system account (jetstream_cluster.go of nats-server 2.15.3); metaGroup is in it.
const groupsDir = "_js_"

// Inventory is what a store has to tell a cluster about a stream.
type Inventory struct {
	Account string `json:"account"` // public key
	Stream  string `json:"stream"`
	// Config and Consumers are what a request that creates them takes.
	Config    map[string]any            `json:"config"`
	Consumers map[string]map[string]any `json:"consumers"`
	// Bytes is the size of its blocks on disk.
	Bytes int64 `json:"bytes"`
}

// TakeInventory reads what streams and consumers a store has. Streams in memory are not
// among them: no restart keeps these.
func TakeInventory(storeDir string) ([]Inventory, error) {
	var out []Inventory
	root := filepath.Join(storeDir, server.JetStreamStoreDir)
	for _, key := range storedStreams(root) {
		dir := filepath.Join(root, key.account, streamsDir, key.stream)
		if sealed, err := isEncrypted(dir); err != nil || sealed {
			return nil, diag.Fail(diag.CodeClusterGrow, fmt.Errorf("stream %s is encrypted, or can't be read: %w", key.stream, errors.Join(err, errEncrypted)),
				"remove storage.encryption.key, keep the key as previous_key for one start without the block `cluster:`, and encrypt the volume")
		}
		s := Inventory{Account: key.account, Stream: key.stream, Consumers: map[string]map[string]any{}, Bytes: blocksSize(dir)}
		var err error
		if s.Config, err = creationOf(dir, key.stream); err != nil {
			return nil, err
		}
		consumers, err := os.ReadDir(filepath.Join(dir, consumersDir))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("list the consumers of stream %s: %w", key.stream, err)
		}
		for _, c := range consumers {
			if !c.IsDir() || strings.HasPrefix(c.Name(), ".") {
				continue
			}
			if s.Consumers[c.Name()], err = creationOf(filepath.Join(dir, consumersDir, c.Name()), c.Name()); err != nil {
				return nil, err
			}
		}
		out = append(out, s)
	}
	return out, nil
}

var errEncrypted = errors.New("a cluster takes no encrypted store")

// creationOf reads the configuration of a stream or a consumer, without what only the
// file has.
func creationOf(dir, name string) (map[string]any, error) {
	meta, err := os.ReadFile(filepath.Join(dir, server.JetStreamMetaFile))
	if err == nil && !wholeMeta(meta, name) {
		err = errors.New("it is damaged")
	}
	if err != nil {
		return nil, diag.Fail(diag.CodeClusterGrow, fmt.Errorf("read the configuration of %s: %w", name, err), "`holdfast verify` says what is damaged; a start without the block `cluster:` mends it")
	}
	d := json.NewDecoder(strings.NewReader(string(meta)))
	d.UseNumber()
	var config map[string]any
	if err := d.Decode(&config); err != nil {
		return nil, fmt.Errorf("read the configuration of %s: %w", name, err)
	}
	for _, own := range []string{"created", "Created", "Name"} {
		delete(config, own)
	}
	return config, nil
}

// Enter makes a store that of a node of the cluster which the engine of another store has
// been one of, in one step. Both engines have stopped. system is the public key of the
// system account.
func Enter(storeDir, from, system string) error {
	src := filepath.Join(from, server.JetStreamStoreDir, system, groupsDir)
	dst := filepath.Join(storeDir, server.JetStreamStoreDir, system)
	if _, err := os.Stat(filepath.Join(src, filepath.Base(metaGroup))); err != nil {
		return fmt.Errorf("find what the cluster agreed on: %w", err)
	}
	if err := os.MkdirAll(dst, dirMode); err != nil {
		return err
	}
	for _, dir := range []string{filepath.Dir(dst), src} {
		if err := syncTree(dir); err != nil {
			return err
		}
	}
	if err := os.Rename(src, filepath.Join(dst, groupsDir)); err != nil {
		return err
	}
	return errors.Join(syncDir(dst), syncDir(filepath.Dir(src)))
}

// KeepLinks makes a second directory entry for every block of a store in another
// directory on the same volume, and copies the smaller files: so that whatever becomes of
// the store, its messages are still there. It takes next to no space.
func KeepLinks(storeDir, to string) error {
	tmp := to + ".new"
	// That of an earlier try lacks what the node has stored since.
	if err := errors.Join(os.RemoveAll(tmp), os.RemoveAll(to)); err != nil {
		return err
	}
	root := filepath.Join(storeDir, server.JetStreamStoreDir)
	if err := os.MkdirAll(tmp, dirMode); err != nil {
		return err
	}
	for _, key := range storedStreams(root) {
		below := filepath.Join(key.account, streamsDir, key.stream)
		if err := linkTree(filepath.Join(root, below), filepath.Join(tmp, server.JetStreamStoreDir, below)); err != nil {
			return err
		}
	}
	if err := syncTree(tmp); err != nil {
		return err
	}
	if err := os.Rename(tmp, to); err != nil {
		return err
	}
	return syncDir(filepath.Dir(to))
}

func linkTree(src, dst string) error {
	return filepath.WalkDir(src, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		below, err := filepath.Rel(src, path)
		if err != nil {
			return err
		}
		switch to := filepath.Join(dst, below); {
		case e.IsDir():
			return os.MkdirAll(to, dirMode)
		case filepath.Ext(path) == blockSuffix:
			return os.Link(path, to)
		case e.Type().IsRegular():
			return copyWhole(path, to)
		}
		return nil
	})
}
