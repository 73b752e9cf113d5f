// SPDX-License-Identifier: Apache-2.0

package config

import "testing"

func TestOnlyPeersMakeANodeReplicated(t *testing.T) {
	for _, c := range []struct {
		cluster *Cluster
		want    bool
	}{
		{nil, false},
		{&Cluster{Name: "plant"}, false},
		{&Cluster{Peers: []string{"n1:6222"}}, false},
		{&Cluster{Peers: []string{"n1:6222", "n2:6222", "n3:6222"}}, true},
	} {
		if got := (&Config{Cluster: c.cluster}).Replicated(); got != c.want {
			t.Errorf("got %v for %+v, want %v", got, c.cluster, c.want)
		}
	}
}
