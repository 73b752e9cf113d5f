// SPDX-License-Identifier: Apache-2.0

//go:build process && linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// text is the configuration of a node.
func (n *node) text() string {
	n.t.Helper()
	data, err := os.ReadFile(n.file())
	if err != nil {
		n.t.Fatal(err)
	}
	return string(data)
}

// edit changes it.
func (n *node) edit(from, to string) {
	n.t.Helper()
	data := n.text()
	changed := strings.Replace(data, from, to, 1)
	if changed == data {
		n.t.Fatalf("got no %q in %s", from, data)
	}
	n.configure(changed)
}

// TestProcessCopyOfANodeDoesNotStartBesideIt starts a copied data directory on a third
// machine: two that vote with one name could undo what was acknowledged.
func TestProcessCopyOfANodeDoesNotStartBesideIt(t *testing.T) {
	t.Parallel()
	nodes := newCluster(t, shop)
	for _, n := range nodes {
		n.launch()
	}
	waitAllReady(t, nodes...)
	js := nodes[0].jetStream()
	publish(t, js, "orders.a", "1")
	nodes[2].stop()
	own := nodes[2].data + ".own"
	if err := os.Rename(nodes[2].data, own); err != nil {
		t.Fatal(err)
	}
	nodes[1].stop()
	if out, err := exec.Command("cp", "-a", nodes[1].data, nodes[2].data).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	// A file that names another node is refused at once.
	nodes[2].refuses(exitPermanent, `belongs to node "n2", and node.name is "n3"`, `set node.name back to "n2"`)
	nodes[1].launch()
	waitAllReady(t, nodes[:2]...)
	nodes[2].edit("node: {name: n3, ", "node: {")
	nodes[2].launch()
	nodes[2].logged("this node does not start while another has its name")
	nodes[2].waitsFor("another node is n2, too", "this one does not start")
	nodes[2].answers("/livez", 200, "ok")
	nodes[2].answers("/readyz", 503, "another node is n2, too")
	nodes[0].says(2, "it is node n2, and so is ")
	nodes[1].says(2, "has the name of this one")
	nodes[1].logged("a second node has the name of one of the cluster")
	publish(t, js, "orders.a", "2")

	// It gives way by itself once the other is gone; here it is made what it was.
	nodes[2].stop()
	if err := os.RemoveAll(nodes[2].data); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(own, nodes[2].data); err != nil {
		t.Fatal(err)
	}
	nodes[2].launch()
	waitAllReady(t, nodes...)
	for _, n := range nodes {
		n.waitCluster()
		if info, err := n.jetStream().Stream(t.Context(), "ORDERS"); err != nil || info.CachedInfo().State.Msgs != 2 {
			t.Errorf("got %v and %v, want 2 messages", info, err)
		}
	}
}

// TestProcessTwoFreshNodesOfOneNameAreToldApart has two files with the same node.name.
func TestProcessTwoFreshNodesOfOneNameAreToldApart(t *testing.T) {
	t.Parallel()
	nodes := newCluster(t, shop)
	nodes[2].edit("name: n3, ", "name: n2, ")
	for _, n := range nodes {
		n.launch()
	}
	// Before both have the identity of the cluster, or behind that: one waits.
	eventually(t, patience, func() error {
		said := ""
		for _, n := range nodes[1:] {
			s, err := n.status()
			if err != nil {
				return err
			}
			said += strings.Join(s.Missing, "\n")
		}
		if !strings.Contains(said, `it is node "n2", too`) && !strings.Contains(said, "another node is n2, too") {
			return fmt.Errorf("got %q, want that there are two of that name", said)
		}
		return nil
	})
	nodes[2].kill9()
	if err := os.RemoveAll(nodes[2].data); err != nil {
		t.Fatal(err)
	}
	nodes[2].edit("name: n2, ", "name: n3, ")
	nodes[2].launch()
	waitAllReady(t, nodes...)
}

// TestProcessPeersThatDifferAreNamed changes the order of cluster.peers on one node of a
// cluster that works.
func TestProcessPeersThatDifferAreNamed(t *testing.T) {
	t.Parallel()
	nodes := newCluster(t, shop)
	for _, n := range nodes {
		n.launch()
	}
	waitAllReady(t, nodes...)
	nodes[2].stop()
	data := nodes[2].text()
	_, list, _ := strings.Cut(data, "peers: [")
	list, _, _ = strings.Cut(list, "]")
	peers := strings.Split(list, ", ")
	nodes[2].edit(list, strings.Join([]string{peers[1], peers[0], peers[2]}, ", "))
	nodes[2].launch()
	nodes[0].says(2, "cluster.peers is [")
	nodes[2].says(0, "cluster.peers is [")
	nodes[2].stop()
	nodes[2].configure(data)
	nodes[2].launch()
	waitAllReady(t, nodes...)
	for _, n := range nodes {
		n.waitCluster()
	}
}
