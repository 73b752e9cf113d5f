// SPDX-License-Identifier: Apache-2.0

//go:build process && linux

package main

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-mq/holdfast/appliance/admin"
)

// single is a stream with one copy, besides those of shop.
const single = shop + `      SINGLE:
        subjects: ["single.>"]
        max_bytes: 1MiB
        num_replicas: 1
`

// answers waits until a path of listen.http has the status, and all of want in its text.
func (n *node) answers(path string, status int, want ...string) {
	n.t.Helper()
	eventually(n.t, patience, func() error {
		s, err := n.status()
		if err != nil {
			return err
		}
		i := slices.IndexFunc(s.Listeners, func(l admin.Listener) bool { return l.Name == "http" })
		if i < 0 {
			return fmt.Errorf("got listeners %v, want http among them", s.Listeners)
		}
		code, body := n.get(path)
		if code != status {
			return fmt.Errorf("%s: got %d and %q, want %d", path, code, body, status)
		}
		for _, w := range want {
			if !strings.Contains(body, w) {
				return fmt.Errorf("%s: got %q, want %q in it", path, body, w)
			}
		}
		return nil
	})
}

// TestProcessNodesOfAClusterAnswerProbesInEveryPhase asks before a node has an identity,
// when all are there, and when most are gone.
func TestProcessNodesOfAClusterAnswerProbesInEveryPhase(t *testing.T) {
	t.Parallel()
	nodes := newCluster(t, shop)
	nodes[2].launch()
	nodes[2].answers("/livez", http.StatusOK, "ok")
	nodes[2].answers("/readyz", http.StatusServiceUnavailable, "waiting for")
	nodes[2].answers("/quorumz", http.StatusServiceUnavailable, "waiting for")
	nodes[2].answers("/metrics", http.StatusOK, "holdfast_ready 0", "holdfast_build_info")
	nodes[2].answers("/varz", http.StatusServiceUnavailable)
	nodes[0].launch()
	nodes[1].launch()
	waitAllReady(t, nodes...)
	for _, n := range nodes {
		for _, path := range []string{"/livez", "/readyz", "/quorumz"} {
			n.answers(path, http.StatusOK, "ok")
		}
		n.answers("/metrics", http.StatusOK, "holdfast_cluster_members 3", "holdfast_cluster_members_connected 3", "holdfast_cluster_leader_known 1",
			"holdfast_cluster_streams_without_leader 0", `holdfast_certificate_expiry_timestamp_seconds{certificate="route"}`, `holdfast_cluster_clock_offset_seconds{node=`)
	}
	for _, n := range nodes {
		n.kill9()
	}
	nodes[1].launch() // it has an identity, and nobody to agree with
	nodes[1].answers("/livez", http.StatusOK, "ok")
	nodes[1].answers("/readyz", http.StatusServiceUnavailable, "cluster: no leader since")
	nodes[1].answers("/quorumz", http.StatusServiceUnavailable, "cluster: waiting for", "cluster: no leader since")
	nodes[1].answers("/metrics", http.StatusOK, "holdfast_cluster_leader_known 0", "holdfast_cluster_members_connected 1")
	nodes[2].launch()
	nodes[1].answers("/quorumz", http.StatusOK, "ok")
}

// TestProcessClusterStatusSaysWhatLosingANodeWouldDo loses one node, and then another.
func TestProcessClusterStatusSaysWhatLosingANodeWouldDo(t *testing.T) {
	t.Parallel()
	nodes := newCluster(t, single)
	for _, n := range nodes {
		n.launch()
	}
	waitAllReady(t, nodes...)
	for _, n := range nodes {
		n.waitCluster()
	}
	c := nodes[0].cluster(exitOK)
	var keeper string
	for _, l := range c.Losses {
		if l.Everything || len(l.Stops) > 0 && !slices.Equal(l.Stops, []string{"shop/SINGLE"}) || !slices.Equal(l.Stops, l.Loses) {
			t.Errorf("got %+v, want at most the stream with one copy", l)
		}
		if len(l.Stops) > 0 {
			keeper += l.Node
		}
	}
	i := slices.IndexFunc(c.Nodes, func(m admin.Member) bool { return m.Name == keeper })
	if len(c.Losses) != 3 || i < 0 {
		t.Fatalf("got losses %+v, want those of three nodes, and one that keeps the stream with one copy", c.Losses)
	}
	for _, m := range c.Nodes {
		if m.NATS == "" || len(m.Certificates) != 2 || len(m.Warnings) > 0 {
			t.Errorf("got %+v, want versions, the certificates of its routes, and no warning", m)
		}
	}
	if _, out := nodes[0].holdfast("cluster", "status", "--config", "holdfast.yaml"); !strings.Contains(out, "Losing "+keeper+" stops shop/SINGLE; losing its disk loses shop/SINGLE.") ||
		!strings.Contains(out, "1 with one copy only; every copy has everything") || strings.Contains(out, "shop/ORDERS") {
		t.Errorf("got %s", out)
	}
	if _, out := nodes[0].holdfast("cluster", "status", "--config", "holdfast.yaml", "--all"); !strings.Contains(out, "shop/ORDERS: on n1, n2, n3, ") || !strings.Contains(out, "certificate route until") {
		t.Errorf("got %s", out)
	}

	// Another than the keeper is killed: it is not said of it that it answers.
	gone, left := (i+1)%3, (i+2)%3
	nodes[gone].kill9()
	eventually(t, patience, func() error {
		c := nodes[left].cluster(exitNotReady)
		m := c.Nodes[gone]
		switch {
		case strings.Contains(m.Problem, "it answers"):
			t.Fatalf("got %q of a node that was killed", m.Problem)
		case m.NotConnectedSince == nil || m.Current:
			return fmt.Errorf("got %+v, want it gone", m)
		case len(c.Losses) != 2 || !c.Losses[0].Everything || !c.Losses[1].Everything:
			return fmt.Errorf("got %+v, want that losing one more stops everything", c.Losses)
		}
		for _, p := range c.Streams {
			if p.Name == "shop/ORDERS" && slices.ContainsFunc(p.Copies, func(c admin.Copy) bool { return c.Node == m.Name && c.Offline }) {
				return nil
			}
		}
		return fmt.Errorf("got %+v, want ORDERS with a copy that is gone", c.Streams)
	})
	s, err := nodes[left].status()
	if err != nil || !slices.ContainsFunc(s.Problems, func(p admin.Problem) bool { return strings.Contains(p.What, "cluster: "+s.Cluster.Nodes[gone].Address) }) {
		t.Errorf("got %+v and %v, want the node that is gone among the problems", s.Problems, err)
	}

	// Without most nodes nothing leads, and each says since when and what to do.
	nodes[i].kill9()
	eventually(t, 2*patience, func() error {
		c := nodes[left].cluster(exitNotReady)
		if c.Leader != "" || c.NoLeaderSince == nil {
			return fmt.Errorf("got leader %q, want none and since when", c.Leader)
		}
		at := slices.IndexFunc(c.Streams, func(p admin.Placement) bool { return p.Name == "shop/ORDERS" })
		if at < 0 || c.Streams[at].NoLeaderSince == nil || c.Streams[at].Problem == "" || !strings.Contains(c.Streams[at].Fix, "bring n") {
			return fmt.Errorf("got %+v, want that ORDERS has no leader, since when and what to do", c.Streams)
		}
		return nil
	})
	nodes[left].logged("a stream has no leader")
	nodes[i].launch()
	nodes[gone].launch()
	waitAllReady(t, nodes...)
	for _, n := range nodes {
		n.waitCluster()
	}
	nodes[left].logged("streams have a leader again")
}

// waitsFor waits until a node says all of want for what it waits.
func (n *node) waitsFor(want ...string) {
	n.t.Helper()
	eventually(n.t, patience, func() error {
		s, err := n.status()
		missing := strings.Join(s.Missing, "\n")
		for _, w := range want {
			if err == nil && !strings.Contains(missing, w) {
				err = fmt.Errorf("got %q, want %q in it", missing, w)
			}
		}
		return err
	})
}

// says waits until a node says something of another in the status of the cluster.
func (n *node) says(of int, want string) {
	n.t.Helper()
	eventually(n.t, patience, func() error {
		s, err := n.status()
		if err != nil || s.Cluster == nil {
			return errors.Join(err, errors.New("got no cluster"))
		}
		if got := s.Cluster.Nodes[of].Problem; !strings.Contains(got, want) {
			return fmt.Errorf("got %q of node %d, want %q in it", got, of, want)
		}
		return nil
	})
}
