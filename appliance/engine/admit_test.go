// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"crypto/tls"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/holdfast-mq/holdfast/appliance/porttest"
)

// TestAdmitLetsClientsIn keeps clients out of a server with routes, and lets them in.
func TestAdmitLetsClientsIn(t *testing.T) {
	r := newRealm(t, "shop")
	s := r.settings(t)
	s.Cluster = &ClusterSettings{
		Name: "c", Host: "127.0.0.1", Port: porttest.Free(t, 1), Routes: []string{"127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"},
		User: "u", Password: "p", TLS: &tls.Config{MinVersion: tls.VersionTLS13}, Closed: true,
	}
	e := started(t, r, s, nil)
	login, _ := r.login(t, "shop")
	if nc, err := nats.Connect("", nats.InProcessServer(e), login, nats.NoReconnect(), nats.Timeout(patience)); err == nil {
		nc.Close()
		t.Fatal("got in, want a refusal before Admit")
	}
	if err := e.Admit(); err != nil {
		t.Fatal(err)
	}
	connect(t, r, e, "shop")
}
