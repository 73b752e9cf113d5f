// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"os"
	"testing"

	"github.com/holdfast-mq/holdfast/appliance/config"
	"github.com/holdfast-mq/holdfast/appliance/diag"
)

func TestANodeFindsItselfAmongThePeers(t *testing.T) {
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		cluster config.Cluster
		want    int // -1: it can't
	}{
		"by its port on one machine": {config.Cluster{Listen: "127.0.0.1:2", Peers: []string{"127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"}}, 1},
		"by its address":             {config.Cluster{Peers: []string{"203.0.113.1:6222", "127.0.0.1:6222", "203.0.113.3:6222"}}, 1},
		"by its name":                {config.Cluster{Peers: []string{"203.0.113.1:6222", "203.0.113.2:6222", host + ":6222"}}, 2},
		"by what it advertises":      {config.Cluster{Advertise: "203.0.113.1:6222", Peers: []string{"203.0.113.1:6222", "203.0.113.2:6222", "203.0.113.3:6222"}}, 0},
		"not at all":                 {config.Cluster{Peers: []string{"203.0.113.1:6222", "203.0.113.2:6222", "203.0.113.3:6222"}}, -1},
		"twice":                      {config.Cluster{Peers: []string{"127.0.0.1:6222", "localhost:6222", "203.0.113.3:6222"}}, -1},
		"with another port":          {config.Cluster{Listen: "0.0.0.0:7", Peers: []string{"127.0.0.1:6222", "203.0.113.2:6222", "203.0.113.3:6222"}}, -1},
	} {
		got, err := selfAmong(t.Context(), &c.cluster)
		if got != c.want || (err != nil) != (c.want < 0) || err != nil && (diag.CodeOf(err) != diag.CodeClusterPeer || diag.Hint(err) == "") {
			t.Errorf("%s: got %d and %v, want %d", name, got, err, c.want)
		}
	}
}
