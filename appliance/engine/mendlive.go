// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

// errReplica keeps a replica from remembering as removed what the others still have.
var errReplica error = diag.Fail(diag.CodeClusterStore, errors.New("a node of a cluster is not mended: it would keep the gap, and the other nodes have the messages"),
	"stop this node, move its data directory away, and start it with an empty one: it gets everything from the others. Keep them up until `holdfast cluster status` says that it has everything")

// Mend closes all streams, mends the blocks of some, named as account/stream, and reads
// all again: as a restart does it, while the process and the connections of clients go
// on.
func (e *Engine) Mend(streams []string) ([]Damage, error) {
	if e.Clustered() {
		return nil, errReplica
	}
	var found []Damage
	err := e.reopen(func() error {
		var err error
		found, err = mendSome(e.settings.StoreDir, e.log.names, e.ring(), streams)
		// The server passes over a stream whose configuration has gone meanwhile.
		metas, metasErr := mendMetas(e.settings.StoreDir, e.log.names, e.ring())
		found = append(found, metas...)
		return errors.Join(err, metasErr)
	})
	return found, err
}

// MendStore mends the blocks of some streams of a node that does not run. Those that are
// encrypted it leaves to the next start, which has the key.
func MendStore(storeDir string, names Names, streams []string) ([]Damage, error) {
	if kind, err := StoreOf(storeDir); err != nil || kind == ClusterStore {
		return nil, cmp.Or(err, errReplica)
	}
	return mendSome(storeDir, names, nil, streams)
}

// mendMetas mends what a start mends of the configurations of streams and consumers.
func mendMetas(storeDir string, names Names, ring *keyring) ([]Damage, error) {
	var found []Damage
	var errs []error
	now := time.Now()
	for _, key := range storedStreams(filepath.Join(storeDir, server.JetStreamStoreDir)) {
		damaged, err := mendMeta(storeDir, key, names, ring, now)
		found, errs = append(found, damaged...), append(errs, err)
	}
	return found, errors.Join(errs...)
}

func mendSome(storeDir string, names Names, ring *keyring, streams []string) ([]Damage, error) {
	var found []Damage
	var errs []error
	now := time.Now()
	for _, key := range storedStreams(filepath.Join(storeDir, server.JetStreamStoreDir)) {
		if !slices.Contains(streams, names.name(key.account)+"/"+key.stream) {
			continue
		}
		damaged, err := mendStream(storeDir, key, names, ring, now, &checking{}, true)
		found, errs = append(found, damaged...), append(errs, err)
	}
	return found, errors.Join(errs...)
}

// StoredNames are the names of accounts as their JWTs in a resolver's directory have
// them, for when no server runs.
func StoredNames(resolverDir string) Names {
	names := map[string]string{}
	files, _ := filepath.Glob(filepath.Join(resolverDir, "*.jwt"))
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			continue
		}
		if claims, err := jwt.DecodeAccountClaims(string(text)); err == nil {
			names[strings.TrimSuffix(filepath.Base(f), ".jwt")] = claims.Name
		}
	}
	return Names{Account: func(key string) string { return names[key] }}
}

// StoredStreams are the streams of a store, as account/stream.
func StoredStreams(storeDir string, names Names) []string {
	var out []string
	for _, key := range storedStreams(filepath.Join(storeDir, server.JetStreamStoreDir)) {
		out = append(out, names.name(key.account)+"/"+key.stream)
	}
	slices.Sort(out)
	return out
}

// Stored are the streams on the disk, as account/stream.
func (e *Engine) Stored() []string { return StoredStreams(e.settings.StoreDir, e.log.names) }
