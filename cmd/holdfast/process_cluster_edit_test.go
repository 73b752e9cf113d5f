// SPDX-License-Identifier: Apache-2.0

//go:build process && linux

package main

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/holdfast-mq/holdfast/appliance/admin"
)

// leaderOf returns the node of those that run which leads the cluster, and the others.
func leaderOf(t *testing.T, nodes ...*node) (leader *node, others []*node) {
	t.Helper()
	eventually(t, patience, func() error {
		leader, others = nil, nil
		for _, n := range nodes {
			s, err := n.status()
			if err != nil {
				return err
			}
			if s.Cluster != nil && s.Cluster.Leader == s.Node.Name {
				leader = n
			} else {
				others = append(others, n)
			}
		}
		if leader == nil {
			return fmt.Errorf("got none of %d nodes that leads", len(nodes))
		}
		return nil
	})
	return leader, others
}

// clusterSays waits until `cluster status` on the node has all of these texts.
func (n *node) clusterSays(want ...string) {
	n.t.Helper()
	eventually(n.t, patience, func() error {
		_, out := n.holdfast("cluster", "status", "--config", "holdfast.yaml")
		for _, w := range want {
			if !strings.Contains(out, w) {
				return fmt.Errorf("got %q, want %q in it", out, w)
			}
		}
		return nil
	})
}

// TestProcessAnEditThatFailsInAClusterIsOneRevision adds a stream that the server refuses:
// in the file of the leading node, in all files, and under another leader. It is taken
// back each time.
func TestProcessAnEditThatFailsInAClusterIsOneRevision(t *testing.T) {
	t.Parallel()
	nodes := newCluster(t, shop)
	for _, n := range nodes {
		n.launch()
	}
	waitAllReady(t, nodes...)
	leads, others := leaderOf(t, nodes...)
	leads.nats(nil, "stream", "add", "GRAB", "--subjects", "taken", "--storage", "file", "--replicas", "3")
	base := len(leads.history())

	const from, to = "      ORDERS:", "      TAKEN: {subjects: [taken], max_bytes: 1MiB}\n      ORDERS:"
	edit := func(from, to string, nodes ...*node) {
		for _, n := range nodes {
			n.edit(from, to)
			n.signal(syscall.SIGHUP)
		}
	}
	tried := func(on *node) {
		t.Helper()
		on.waitStatus("that has tried it", func(s admin.Status) bool { return strings.Contains(fmt.Sprint(s.Missing), "overlap") })
		if h := on.history(); len(h) != base+1 || !h[base].Unchanged || !h[base].Partial {
			t.Fatalf("got %+v, want one more revision than %d, of which nothing was done", h, base)
		}
	}
	inForce := func(nodes ...*node) {
		t.Helper()
		for _, n := range nodes {
			n.waitReady()
			if a := n.plan(exitOK, "holdfast.yaml"); a.Stale != nil || len(a.Revisions) != base+1 {
				t.Errorf("got stale %v and %d revisions, want the file of before in force, and none added to %d", a.Stale, len(a.Revisions), base+1)
			}
		}
	}
	edit("duplicate_window: 10m", "duplicate_window: 10m\n        group_commit: \"off\"", others[0])
	others[1].clusterSays("group_commit of shop/ORDERS is off on node ")
	others[0].clusterSays("group_commit of shop/ORDERS is off on node ") // of itself
	others[1].edit("streams:", "steams:")
	others[1].signal(syscall.SIGHUP)
	leads.clusterSays("NOT IN FORCE", "accounts.shop.steams: unknown key")
	others[1].edit("steams:", "streams:")
	others[1].signal(syscall.SIGHUP)
	edit(from, to, leads)
	tried(leads)
	inForce(others...) // these were not edited
	edit(to, from, leads)
	inForce(leads)
	edit(from, to, nodes...)
	tried(leads)
	leads.kill9()
	next, _ := leaderOf(t, others...)
	tried(next)
	edit(to, from, others...)
	inForce(others...)
	for _, n := range others {
		n.stop()
	}
}
