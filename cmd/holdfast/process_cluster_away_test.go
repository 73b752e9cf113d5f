// SPDX-License-Identifier: Apache-2.0

//go:build process && linux

package main

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/holdfast-mq/holdfast/appliance/admin"
)

// keeperOf is which node keeps the only copy of shop/SINGLE.
func keeperOf(t *testing.T, nodes []*node) int {
	t.Helper()
	for _, p := range nodes[0].cluster(exitOK).Streams {
		if p.Name == "shop/SINGLE" && len(p.Copies) == 1 {
			for i := range nodes {
				if p.Copies[0].Node == fmt.Sprintf("n%d", i+1) {
					return i
				}
			}
		}
	}
	t.Fatal("got nobody who keeps shop/SINGLE")
	return 0
}

// placement is what a node says of a stream.
func placement(c admin.Cluster, name string) admin.Placement {
	for _, p := range c.Streams {
		if p.Name == name {
			return p
		}
	}
	return admin.Placement{}
}

// reloads counts how often a node has tried to.
func (n *node) reloads() int {
	return strings.Count(n.log.String(), `msg="configuration reloaded"`) + strings.Count(n.log.String(), `msg="configuration not reloaded`)
}

// TestProcessAStreamOfANodeThatIsGoneLeavesTheOthersReady kills the node with the only copy
// of a stream, and then another one; each comes back while the other is still gone.
func TestProcessAStreamOfANodeThatIsGoneLeavesTheOthersReady(t *testing.T) {
	t.Parallel()
	nodes := newCluster(t, single)
	for _, n := range nodes {
		n.launch()
	}
	waitAllReady(t, nodes...)
	for _, n := range nodes {
		n.waitCluster()
	}
	keeper := keeperOf(t, nodes)
	name, left, other := fmt.Sprintf("n%d", keeper+1), nodes[(keeper+1)%3], nodes[(keeper+2)%3]
	nodes[keeper].kill9()
	for _, n := range []*node{left, other} {
		// They have compared their files, and could not read the stream.
		begun, asked := n.reloads(), 0
		eventually(t, 2*patience, func() error {
			s, err := n.status()
			if err != nil || slices.ContainsFunc(s.Problems, func(p admin.Problem) bool {
				return strings.Contains(p.What, "SINGLE: the stream was not compared: its leader did not answer")
			}) {
				return err
			}
			if n.reloads() == begun+asked { // without a leader one is in vain
				n.signal(syscall.SIGHUP)
				asked++
			}
			return fmt.Errorf("got %+v, want that the stream could not be read", s.Problems)
		})
		n.answers("/readyz", http.StatusOK, "ok")
		n.answers("/quorumz", http.StatusOK, "ok")
		n.answers("/metrics", http.StatusOK, fmt.Sprintf("holdfast_cluster_streams_out_of_reach{node=%q} 1", name))
		if p := placement(n.cluster(exitNotReady), "shop/SINGLE"); !strings.Contains(p.Problem, "its only copy is on "+name) || !strings.Contains(p.Fix, "bring "+name+" up") {
			t.Errorf("got %+v, want where its only copy is", p)
		}
	}
	client := left.connect(func(o *nats.Options) error { o.AllowReconnect = true; return nil }, nats.MaxReconnects(-1))
	publish(t, left.jetStream(), "orders.a", "one")

	// With another one gone everything has stopped, and nothing vanishes. Clients are told
	// to look for another node, and come back when there is none.
	other.kill9()
	left.logged("clients sent to the other nodes")
	eventually(t, patience, func() error {
		if client.Stats().Reconnects == 0 || !client.IsConnected() {
			return fmt.Errorf("got %d reconnects and status %v, want a client that was sent away and came back", client.Stats().Reconnects, client.Status())
		}
		return nil
	})
	eventually(t, 2*patience, func() error {
		c := left.cluster(exitNotReady)
		if !c.Stopped || len(c.Losses) > 0 || len(c.Returns) != 2 || c.Leader != "" {
			return fmt.Errorf("got stopped %t, leader %q, losses %+v and returns %+v, want that all has stopped", c.Stopped, c.Leader, c.Losses, c.Returns)
		}
		for _, r := range c.Returns {
			if waits := slices.Contains(r.Waits, "shop/SINGLE"); !r.Enough || waits == (r.Node == name) {
				return fmt.Errorf("got %+v, want shop/SINGLE back with %s alone, and all others with each", r, name)
			}
		}
		if p := placement(c, "shop/SINGLE"); !strings.Contains(p.Problem, "its only copy is on "+name) {
			return fmt.Errorf("got %+v, want where its only copy is", p)
		}
		if p := placement(c, "shop/ORDERS"); !strings.Contains(p.Fix, " or ") {
			return fmt.Errorf("got %+v, want that one of two is enough", p)
		}
		return nil
	})
	_, out := left.holdfast("cluster", "status", "--config", "holdfast.yaml")
	if !strings.Contains(out, "has stopped, for too few nodes are up: 1 of 3") || !strings.Contains(out, "With "+name+" back everything goes on.") || strings.Contains(out, "Losing") {
		t.Errorf("got %s", out)
	}
	left.answers("/readyz", http.StatusServiceUnavailable, "cluster: no leader since")

	// The one that comes back has never heard of the one that is gone.
	other.launch()
	waitAllReady(t, left, other)
	publish(t, other.jetStream(), "orders.a", "two")
	nodes[keeper].launch()
	waitAllReady(t, nodes...)
	for _, n := range nodes {
		n.waitCluster()
	}
	publish(t, nodes[keeper].jetStream(), "single.a", "three")
}

// TestProcessAllNodesSayThatOneTakesNothing has a volume without room at one of three nodes.
func TestProcessAllNodesSayThatOneTakesNothing(t *testing.T) {
	t.Parallel()
	nodes := newCluster(t, shop)
	for _, n := range nodes {
		n.launch()
	}
	waitAllReady(t, nodes...)
	for _, n := range nodes {
		n.waitCluster()
	}
	leader := placement(nodes[0].cluster(exitOK), "shop/ORDERS").Leader
	full := slices.IndexFunc(nodes, func(n *node) bool { s, err := n.status(); return err == nil && s.Node.Name == leader })
	if full < 0 {
		t.Fatalf("got leader %q of shop/ORDERS, want one of the three", leader)
	}
	publish(t, nodes[(full+1)%3].jetStream(), "orders.a", "the first is stored whatever is stopped")
	text := string(read(t, nodes[full].file()))
	nodes[full].reload(strings.Replace(text, "limit: 256MiB", "limit: 256MiB, min_free: 99%", 1))
	s := nodes[full].waitStatus("stopped", func(s admin.Status) bool { return s.Storage.PublishingStopped != "" })
	if s.Storage.PublishingStoppedSince == nil {
		t.Error("got publishing stopped, and not since when")
	}
	for i, n := range nodes {
		n.says(full, "publishing stopped there at ")
		c := n.cluster(exitNotReady)
		if m := c.Nodes[full]; !strings.Contains(m.PublishingStopped, "storage.min_free keeps") || m.PublishingStoppedSince == nil || m.Fix == "" || m.Code != "HF2424" {
			t.Errorf("got %+v, want why, since when and what to do", m)
		}
		_, out := n.holdfast("cluster", "status", "--config", "holdfast.yaml")
		if !strings.Contains(out, "publishing stopped there at ") || !strings.Contains(out, "streams that it leads: ") || !strings.Contains(out, "shop/ORDERS") {
			t.Errorf("got %s", out)
		}
		n.answers("/readyz", http.StatusOK, "ok") // consumers are served
		if i == full {
			continue
		}
		if _, out := n.holdfast("status", "--config", "holdfast.yaml"); !strings.Contains(out, "publishing stopped there at ") || !strings.Contains(out, "HF2424") {
			t.Errorf("got %s", out)
		}
		if _, out := n.holdfast("doctor", "node", "--config", "holdfast.yaml"); !strings.Contains(out, "publishing stopped there at ") {
			t.Errorf("got %s", out)
		}
		n.logged("another node takes nothing from publishers")
		n.answers("/metrics", http.StatusOK, fmt.Sprintf("holdfast_cluster_member_publishing_stopped{node=%q} 1", leader))
	}
	if _, err := nodes[(full+1)%3].jetStream().Publish(t.Context(), "orders.a", []byte("x")); !isFull(err) {
		t.Errorf("got %v of a stream that it leads, want error %d", err, refusedWhenFull)
	}
	nodes[full].reload(text)
	for _, n := range nodes {
		n.waitCluster()
	}
	nodes[(full+1)%3].logged("another node takes messages from publishers again")
	eventually(t, patience, func() error {
		_, err := nodes[(full+1)%3].jetStream().Publish(t.Context(), "orders.a", []byte("x"))
		return err
	})
	if got := nodes[full].cluster(exitOK); got.Nodes[full].PublishingStopped != "" {
		t.Errorf("got %+v, want that all goes on", got)
	}
}
