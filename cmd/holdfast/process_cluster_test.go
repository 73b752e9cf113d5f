// SPDX-License-Identifier: Apache-2.0

//go:build process && linux

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-mq/holdfast/appliance/admin"
)

// sharedSecret is that of the clusters of these tests.
const sharedSecret = "a secret of more than thirty-two characters"

// clusterPort returns a port that is free, with the one behind it.
func clusterPort(t *testing.T) int {
	t.Helper()
	for range 100 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		port := l.Addr().(*net.TCPAddr).Port
		next, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port+1))
		if err == nil {
			_ = next.Close()
		}
		_ = l.Close()
		if err == nil {
			return port
		}
	}
	t.Fatal("got no two free ports in a row")
	return 0
}

// newCluster makes three nodes on the loopback that are not started. config comes behind
// the block cluster.
func newCluster(t *testing.T, config string) []*node {
	t.Helper()
	ports, peers := make([]int, 3), make([]string, 3)
	for i := range ports {
		ports[i] = clusterPort(t)
		peers[i] = fmt.Sprintf("127.0.0.1:%d", ports[i])
	}
	nodes := make([]*node, 3)
	for i := range nodes {
		nodes[i] = newNode(t, "")
		secret := filepath.Join(nodes[i].home, "cluster.secret")
		if err := os.WriteFile(secret, []byte(sharedSecret+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		block := fmt.Sprintf("cluster: {name: plant, listen: %q, peers: [%s], secret: \"file:%s\"}\n", peers[i], `"`+strings.Join(peers, `", "`)+`"`, secret)
		nodes[i].configure(strings.Replace(config, "node: {", fmt.Sprintf("node: {name: n%d, ", i+1), 1) + block)
	}
	return nodes
}

func (n *node) cluster(code int) admin.Cluster {
	n.t.Helper()
	got, out := n.holdfast("cluster", "status", "--config", "holdfast.yaml", "--output", "json")
	var c admin.Cluster
	if err := json.Unmarshal([]byte(out), &c); err != nil || got != code {
		n.t.Fatalf("cluster status: got exit code %d and %v, want %d\n%s", got, err, code, out)
	}
	return c
}

func waitAllReady(t *testing.T, nodes ...*node) {
	t.Helper()
	for _, n := range nodes {
		eventually(t, 4*patience, func() error {
			s, err := n.status()
			if err != nil {
				return err
			}
			if !s.Ready {
				return errors.New(strings.Join(s.Missing, "; "))
			}
			return nil
		})
	}
}

// TestProcessClusterFormsByFileInAnyOrder starts the first of the peers last.
func TestProcessClusterFormsByFileInAnyOrder(t *testing.T) {
	t.Parallel()
	nodes := newCluster(t, shop)
	nodes[2].launch()
	nodes[2].logged("waiting for the other nodes")
	if s, err := nodes[2].status(); err != nil || s.Phase != admin.PhaseJoining || !strings.Contains(strings.Join(s.Missing, " "), "waiting for") {
		t.Fatalf("got phase %s, %q and %v, want it to say for whom it waits", s.Phase, s.Missing, err)
	}
	nodes[1].launch()
	nodes[1].logged("it has no identity itself yet")
	nodes[0].launch()
	waitAllReady(t, nodes...)
	for _, n := range nodes {
		c := n.cluster(exitOK)
		if c.Leader == "" || len(c.Nodes) != 3 {
			t.Errorf("got %+v, want a leader and three nodes", c)
		}
	}
	s, err := nodes[1].status()
	if err != nil {
		t.Fatal(err)
	}
	for _, st := range s.Accounts[0].Streams {
		if st.Replicas != 3 {
			t.Errorf("stream %s: got %d replicas, want 3", st.Name, st.Replicas)
		}
	}
	// What one node stores is there when another has gone.
	js := nodes[0].jetStream()
	for i := range 100 {
		publish(t, js, "orders.a", fmt.Sprint(i))
	}
	nodes[0].kill9()
	eventually(t, patience, func() error {
		info, err := nodes[1].jetStream().Stream(t.Context(), "ORDERS")
		if err != nil {
			return err
		}
		if got := info.CachedInfo().State.Msgs; got != 100 {
			return fmt.Errorf("got %d messages, want 100", got)
		}
		return nil
	})
	nodes[0].launch()
	waitAllReady(t, nodes...)
	for _, n := range nodes {
		n.stop()
	}
}
