// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Cluster is how the nodes are that replicate to each other, as one of them sees it.
type Cluster struct {
	// Members are configured, Connected of them have a route or are this node; Quorum
	// are needed.
	Members, Connected, Quorum int
	// LeaderKnown: there is a node that decides, and Leads: it is this one.
	LeaderKnown, Leads bool
	// Peers are the other nodes that were heard of.
	Peers []Peer
	// Copies are those of streams that this node leads: nobody else knows how far they are.
	Copies []Copy
	// Leaderless counts the streams that this node keeps a copy of and nobody leads.
	Leaderless int
}

// Peer is another node.
type Peer struct {
	Node string
	// Ahead is its clock.
	Ahead     time.Duration
	Connected bool
	// Alone counts the streams that no other node keeps, as it said when it answered last.
	Alone int
	// Stopped is true while it takes nothing from publishers.
	Stopped bool
}

// Copy is how far a copy of a stream is.
type Copy struct {
	Account, Stream, Node string
	Behind                uint64
	Current               bool
}

var (
	clusterMembers = prometheus.NewDesc("holdfast_cluster_members",
		"Nodes of the cluster (cluster.peers); absent on a single node, as all of these are.", nil, nil)
	clusterConnected = prometheus.NewDesc("holdfast_cluster_members_connected",
		"Nodes of the cluster that this one has a route to, and this one.", nil, nil)
	clusterQuorum = prometheus.NewDesc("holdfast_cluster_quorum_members",
		"How many nodes have to be up for the cluster to store and deliver.", nil, nil)
	clusterLeader = prometheus.NewDesc("holdfast_cluster_leader_known",
		"1 while the cluster has a leader, as far as this node knows; /quorumz answers 200 then.", nil, nil)
	clusterLeads = prometheus.NewDesc("holdfast_cluster_leads",
		"1 on the node that leads the cluster and applies its file.", nil, nil)
	peerConnected = prometheus.NewDesc("holdfast_cluster_member_connected",
		"1 while there is a route to the node.", []string{"node"}, nil)
	peerClock = prometheus.NewDesc("holdfast_cluster_clock_offset_seconds",
		"How far the clock of the node is ahead of this node's; less than 0 when it is behind.", []string{"node"}, nil)
	peerStopped = prometheus.NewDesc("holdfast_cluster_member_publishing_stopped",
		"1 while the node takes nothing from publishers of the streams that it leads, as it said when it answered last.", []string{"node"}, nil)
	copyBehind = prometheus.NewDesc("holdfast_cluster_replica_lag",
		"How many changes the copy of the stream on the node lacks; told by the node that leads the stream.", []string{"account", "stream", "node"}, nil)
	copyCurrent = prometheus.NewDesc("holdfast_cluster_replica_current",
		"1 when the copy of the stream on the node has everything and the node is there; told by the node that leads the stream.", []string{"account", "stream", "node"}, nil)
	outOfReach = prometheus.NewDesc("holdfast_cluster_streams_out_of_reach",
		"Streams whose only copy is on the node, while there is no route to it: they take and deliver nothing.", []string{"node"}, nil)
	leaderless = prometheus.NewDesc("holdfast_cluster_streams_without_leader",
		"Streams that this node keeps a copy of and nobody leads: they take and deliver nothing.", nil, nil)
)

// cluster collects how the nodes are.
type cluster struct{ node Node }

func (cluster) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		clusterMembers, clusterConnected, clusterQuorum, clusterLeader, clusterLeads, peerConnected, peerClock, copyBehind, copyCurrent, leaderless, outOfReach, peerStopped,
	} {
		ch <- d
	}
}

func (c cluster) Collect(ch chan<- prometheus.Metric) {
	v := c.node.Cluster()
	if v == nil {
		return
	}
	gauge := func(d *prometheus.Desc, n float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, n, labels...)
	}
	gauge(clusterMembers, float64(v.Members))
	gauge(clusterConnected, float64(v.Connected))
	gauge(clusterQuorum, float64(v.Quorum))
	gauge(clusterLeader, oneIf(v.LeaderKnown))
	gauge(clusterLeads, oneIf(v.Leads))
	gauge(leaderless, float64(v.Leaderless))
	for _, p := range v.Peers {
		gauge(peerConnected, oneIf(p.Connected), p.Node)
		gauge(peerClock, p.Ahead.Seconds(), p.Node)
		gauge(peerStopped, oneIf(p.Stopped), p.Node)
		away := p.Alone
		if p.Connected {
			away = 0
		}
		gauge(outOfReach, float64(away), p.Node)
	}
	for _, r := range v.Copies {
		gauge(copyBehind, float64(r.Behind), r.Account, r.Stream, r.Node)
		gauge(copyCurrent, oneIf(r.Current), r.Account, r.Stream, r.Node)
	}
}
