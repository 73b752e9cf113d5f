// SPDX-License-Identifier: Apache-2.0

package trio

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
)

func TestFollowersMustBeThere(t *testing.T) {
	follower := func(current, offline bool, lag uint64) *jetstream.PeerInfo {
		return &jetstream.PeerInfo{Name: "n", Current: current, Offline: offline, Lag: lag}
	}
	for name, test := range map[string]struct {
		info *jetstream.ClusterInfo
		ok   bool
	}{
		"none":      {nil, false},
		"no leader": {&jetstream.ClusterInfo{Replicas: []*jetstream.PeerInfo{follower(true, false, 0), follower(true, false, 0)}}, false},
		"one":       {&jetstream.ClusterInfo{Leader: "n1", Replicas: []*jetstream.PeerInfo{follower(true, false, 0)}}, false},
		"both":      {&jetstream.ClusterInfo{Leader: "n1", Replicas: []*jetstream.PeerInfo{follower(true, false, 0), follower(false, false, 7)}}, true},
		"offline":   {&jetstream.ClusterInfo{Leader: "n1", Replicas: []*jetstream.PeerInfo{follower(true, false, 0), follower(true, true, 0)}}, false},
		"far":       {&jetstream.ClusterInfo{Leader: "n1", Replicas: []*jetstream.PeerInfo{follower(true, false, 0), follower(false, false, CloseBy+1)}}, false},
	} {
		if err := Whole("it", test.info); (err == nil) != test.ok || err != nil && !errors.Is(err, ErrNotYet) {
			t.Errorf("%s: got %v, want it whole: %t", name, err, test.ok)
		}
	}
}

func TestNodesKnowEachOtherAndThemselves(t *testing.T) {
	dir := t.TempDir()
	var places []Place
	for i := range 3 {
		places = append(places, Place{Host: "127.0.0.1", Client: 4001 + i, HTTP: 8001 + i, Routes: 6000 + 10*i, Dir: filepath.Join(dir, string(rune('a'+i))), Data: filepath.Join(dir, "data")})
	}
	for name, make := range map[string]func() ([]*Node, error){
		"holdfast":    func() ([]*Node, error) { return Holdfast("holdfast", "durability: strict", "", places) },
		"nats-server": func() ([]*Node, error) { return Stock([]string{"nats-server"}, "always", 1<<20, nil, places) },
		"encrypted": func() ([]*Node, error) {
			return Stock([]string{"nats-server"}, "always", 1<<20, &TLSFiles{"c", "k"}, places)
		},
	} {
		nodes, err := make()
		if err != nil {
			t.Fatal(err)
		}
		for i, n := range nodes {
			_, args := n.Command()
			text, err := os.ReadFile(n.file)
			if err != nil || !strings.Contains(strings.Join(args, " "), n.file) {
				t.Fatalf("%s: got %v and %q, want it to be given %s", name, err, args, n.file)
			}
			for _, want := range []string{n.Name, n.ClientAddress(), "127.0.0.1:6000", "127.0.0.1:6010", "127.0.0.1:6020", address(n.Host, places[i].Routes)} {
				if !strings.Contains(string(text), want) {
					t.Errorf("%s: got no %q in\n%s", name, want, text)
				}
			}
		}
	}
	if info, err := os.Stat(filepath.Join(dir, "a", "cluster.secret")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got %v and %v, want a secret of mode 0600", info, err)
	}
}
