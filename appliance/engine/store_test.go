// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestStoreOfASingleServerIsKnown(t *testing.T) {
	r := newRealm(t, "shop")
	s := r.settings(t)
	for _, want := range []Store{EmptyStore, SingleStore} {
		if got, err := StoreOf(s.StoreDir); err != nil || got != want {
			t.Errorf("got %v and %v, want %v", got, err, want)
		}
		if want == EmptyStore {
			e := started(t, r, s, nil)
			fill(t, r, e, "shop", 1, 1)
			if err := e.Stop(); err != nil {
				t.Fatal(err)
			}
		}
	}
	// That of a cluster is in the process tests, with three nodes.
	if err := os.MkdirAll(filepath.Join(s.StoreDir, "jetstream", "ASYS", metaGroup), 0o700); err != nil {
		t.Fatal(err)
	}
	if got, err := StoreOf(s.StoreDir); err != nil || got != ClusterStore {
		t.Errorf("got %v and %v, want %v", got, err, ClusterStore)
	}
	if _, err := MendStore(s.StoreDir, Names{}, nil); !errors.Is(err, errReplica) {
		t.Errorf("got %v, want %v", err, errReplica)
	}
}
