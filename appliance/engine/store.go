// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/nats-io/nats-server/v2/server"
)

// Store is what kind of server a store is from.
type Store int

const (
	// EmptyStore has no streams.
	EmptyStore Store = iota
	// SingleStore is that of a single server.
	SingleStore
	// ClusterStore is that of one of several.
	ClusterStore
)

// metaGroup is where a server of a cluster keeps what the cluster agreed on
// (jetstream_cluster.go of nats-server 2.15.3); pinned by a test.
var metaGroup = filepath.Join("_js_", "_meta_")

// StoreOf looks at the store in a directory. A server of a cluster that starts on the
// streams of a single one takes them for orphans and deletes them, so whoever starts
// one asks first.
func StoreOf(dir string) (Store, error) {
	root := filepath.Join(dir, server.JetStreamStoreDir)
	accounts, err := os.ReadDir(root)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return EmptyStore, fmt.Errorf("look at the store: %w", err)
	}
	kind := EmptyStore
	for _, a := range accounts {
		if _, err := os.Stat(filepath.Join(root, a.Name(), metaGroup)); err == nil {
			return ClusterStore, nil
		}
		streams, err := os.ReadDir(filepath.Join(root, a.Name(), streamsDir))
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
			return EmptyStore, fmt.Errorf("look at the store: %w", err)
		}
		if len(streams) > 0 {
			kind = SingleStore
		}
	}
	return kind, nil
}
