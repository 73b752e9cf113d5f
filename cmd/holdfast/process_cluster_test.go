// SPDX-License-Identifier: Apache-2.0

//go:build process && linux

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-mq/holdfast/appliance/admin"
	"github.com/holdfast-mq/holdfast/appliance/porttest"
)

// sharedSecret is that of the clusters of these tests.
const sharedSecret = "a secret of more than thirty-two characters"

// newCluster makes three nodes on the loopback that are not started. config comes behind
// the block cluster.
func newCluster(t *testing.T, config string) []*node {
	t.Helper()
	ports, peers := make([]int, 3), make([]string, 3)
	for i := range ports {
		ports[i] = porttest.Free(t, 2)
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

// waitCluster waits until a node says that all is well: what it says of the others is
// some seconds old.
func (n *node) waitCluster() {
	n.t.Helper()
	eventually(n.t, patience, func() error {
		if code, out := n.holdfast("cluster", "status", "--config", "holdfast.yaml"); code != exitOK {
			return fmt.Errorf("got exit code %d and %q, want 0", code, out)
		}
		return nil
	})
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
	if _, out := nodes[2].holdfast("status", "--config", "holdfast.yaml"); !strings.Contains(out, "nothing is opened before the node has joined") ||
		strings.Contains(out, "()") || strings.Contains(out, "0 B") || strings.Contains(out, "0 connected") {
		t.Errorf("got %s\nwant that it waits, and no made-up figures", out)
	}
	nodes[1].launch()
	nodes[1].logged("it has no identity itself yet")
	nodes[0].launch()
	waitAllReady(t, nodes...)
	for _, n := range nodes {
		n.waitCluster()
		c := n.cluster(exitOK)
		if c.Leader == "" || len(c.Nodes) != 3 {
			t.Errorf("got %+v, want a leader and three nodes", c)
		}
		for _, m := range c.Nodes {
			if !m.Current || !m.Connected || m.Problem != "" {
				t.Errorf("got %+v, want it to have everything", m)
			}
		}
	}
	for _, n := range nodes {
		// What the leading node decides of group commit comes to the others.
		eventually(t, patience, func() error {
			s, err := n.status()
			if err != nil {
				return err
			}
			for _, st := range s.Accounts[0].Streams {
				if fast := strings.HasPrefix(st.GroupCommit.Reason, "flushes take"); st.Replicas != 3 || !st.GroupCommit.On && !fast {
					return fmt.Errorf("stream %s: got %d replicas and group commit off because of %q, want 3 and on", st.Name, st.Replicas, st.GroupCommit.Reason)
				}
			}
			return nil
		})
		if strings.Contains(n.log.String(), "configuration not applied") {
			t.Errorf("got %s\nwant nothing of what passes by itself", n.log)
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

// TestProcessWipedNodeOfAClusterIsTakenBack loses the disk of the first of the peers,
// which made the identity: it must not make another one.
func TestProcessWipedNodeOfAClusterIsTakenBack(t *testing.T) {
	t.Parallel()
	nodes := newCluster(t, shop)
	for _, n := range nodes {
		n.launch()
	}
	waitAllReady(t, nodes...)
	js := nodes[1].jetStream()
	for i := range 50 {
		publish(t, js, "orders.a", fmt.Sprint(i))
	}
	before := identityOf(t, nodes[1])
	for _, n := range nodes {
		n.kill9()
	}
	if err := os.RemoveAll(nodes[0].data); err != nil {
		t.Fatal(err)
	}
	nodes[0].launch()
	nodes[0].logged("waiting for the other nodes")
	if _, err := os.Stat(filepath.Join(nodes[0].data, "identity.json")); err == nil {
		t.Fatal("got a new identity, want the node to wait for the others")
	}
	nodes[1].launch()
	nodes[2].launch()
	waitAllReady(t, nodes...)
	if got := identityOf(t, nodes[0]); got != before {
		t.Error("got another operator, want that of before")
	}
	info, err := nodes[0].jetStream().Stream(t.Context(), "ORDERS")
	if err != nil || info.CachedInfo().State.Msgs != 50 {
		t.Errorf("got %v and %v, want 50 messages", info, err)
	}
}

// identityOf is the operator of a node.
func identityOf(t *testing.T, n *node) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(n.data, "identity.json"))
	if err != nil {
		t.Fatal(err)
	}
	var id struct {
		Identity struct {
			Operator json.RawMessage `json:"operator"`
		} `json:"identity"`
	}
	if err := json.Unmarshal(data, &id); err != nil || len(id.Identity.Operator) == 0 {
		t.Fatalf("got %v, want an operator", err)
	}
	return string(id.Identity.Operator)
}

// TestProcessUsersAreThoseOfTheWholeCluster changes a user on one node and the file on
// all.
func TestProcessUsersAreThoseOfTheWholeCluster(t *testing.T) {
	t.Parallel()
	nodes := newCluster(t, shop)
	for _, n := range nodes {
		n.launch()
	}
	waitAllReady(t, nodes...)
	creds := func(n *node) string {
		data, err := os.ReadFile(n.credsFile("admin"))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	old := creds(nodes[0])
	if creds(nodes[1]) != old || creds(nodes[2]) != old {
		t.Fatal("got other credentials on other nodes, want the same")
	}
	if code, out := nodes[2].holdfast("creds", "rotate", "--yes", "--config", "holdfast.yaml", "shop/admin"); code != exitOK {
		t.Fatalf("got exit code %d and %q", code, out)
	}
	for _, n := range nodes {
		eventually(t, patience, func() error {
			if creds(n) == old {
				return errors.New("got the old credentials, want the new ones")
			}
			return nil
		})
	}
	if creds(nodes[0]) != creds(nodes[2]) {
		t.Error("got other credentials on other nodes, want the same")
	}
	// They are good for every node.
	for _, n := range nodes {
		if _, err := n.jetStream().Stream(t.Context(), "JOBS"); err != nil {
			t.Error(err)
		}
	}
}

// TestProcessNodeThatDoesNotBelongIsTurnedAway tries what must not become one cluster.
func TestProcessNodeThatDoesNotBelongIsTurnedAway(t *testing.T) {
	t.Parallel()
	nodes := newCluster(t, shop)
	secret := filepath.Join(nodes[2].home, "cluster.secret")
	if err := os.WriteFile(secret, []byte(strings.Repeat("z", 40)), 0o600); err != nil {
		t.Fatal(err)
	}
	good, err := os.ReadFile(nodes[1].file())
	if err != nil {
		t.Fatal(err)
	}
	nodes[1].configure(strings.Replace(string(good), "name: plant", "name: other", 1))
	for _, n := range nodes {
		n.launch()
	}
	eventually(t, patience, func() error {
		s, err := nodes[0].status()
		if err != nil {
			return err
		}
		missing := strings.Join(s.Missing, "\n")
		for _, want := range []string{`cluster.name is "plant" on node n1 and "other" on node n2`, "does not know the cluster's secret"} {
			if !strings.Contains(missing, want) {
				return fmt.Errorf("got %q, want %q in it", missing, want)
			}
		}
		return nil
	})
	nodes[0].logged("turned away")
	// Made right, they come together without anything else.
	nodes[1].kill9()
	nodes[1].configure(string(good))
	nodes[2].kill9()
	if err := os.WriteFile(secret, []byte(sharedSecret), 0o600); err != nil {
		t.Fatal(err)
	}
	nodes[1].launch()
	nodes[2].launch()
	waitAllReady(t, nodes...)
}

// TestProcessStoreOfTheOtherKindIsRefused gives a single node the block of a cluster, and
// takes it from a node of one: none of them loses anything.
func TestProcessStoreOfTheOtherKindIsRefused(t *testing.T) {
	t.Parallel()
	single := newNode(t, shop).start()
	publish(t, single.jetStream(), "orders.a", "1")
	single.stop()
	nodes := newCluster(t, shop)
	block, err := os.ReadFile(nodes[0].file())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(single.home, "cluster.secret"), []byte(sharedSecret), 0o600); err != nil {
		t.Fatal(err)
	}
	single.configure(strings.Replace(string(block), "name: n1, ", "", 1))
	single.start() // as a single one, until the others are there
	if _, out := single.holdfast("cluster", "status", "--config", "holdfast.yaml"); !strings.Contains(out, "serves them alone until the others are there") {
		t.Errorf("got %q, want what it waits for", out)
	}
	publish(t, single.jetStream(), "orders.a", "2")
	single.stop()
	single.configure(shop)
	single.start()
	if info, err := single.jetStream().Stream(t.Context(), "ORDERS"); err != nil || info.CachedInfo().State.Msgs != 2 {
		t.Errorf("got %v and %v, want both messages", info, err)
	}
	single.stop()

	for _, n := range nodes {
		n.launch()
	}
	waitAllReady(t, nodes...)
	// Not into a cluster that others use: it would be another history.
	single.configure(strings.Replace(string(block), "name: n1, ", "", 1))
	nodes[0].stop()
	single.start()
	single.waitStatus("refused", func(s admin.Status) bool {
		return s.Cluster != nil && s.Cluster.Growth != nil && strings.Contains(s.Cluster.Growth.Problem, "another cluster")
	})
	single.stop()
	nodes[1].stop()
	nodes[1].configure(shop)
	if code, out := nodes[1].runFails(); code != exitPermanent || !strings.Contains(out, "node of a cluster") {
		t.Errorf("got exit code %d and %q, want 78 and why", code, out)
	}
}

// runFails runs the node until it ends by itself.
func (n *node) runFails() (int, string) {
	n.t.Helper()
	return n.holdfast(append([]string{"run", "--config", "holdfast.yaml"}, n.args...)...)
}
