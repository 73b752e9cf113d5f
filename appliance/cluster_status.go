// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-mq/holdfast/appliance/admin"
	"github.com/holdfast-mq/holdfast/appliance/diag"
	"github.com/holdfast-mq/holdfast/appliance/engine"
)

// clockApart is how far two clocks may be apart before it is said: what expires, and
// what is scheduled, goes by them.
const clockApart = 5 * time.Second

// clusterStatus is what this node knows of the others; nil on a single node.
func (a *Appliance) clusterStatus() *admin.Cluster {
	c := a.cluster
	if c == nil {
		return nil
	}
	out := &admin.Cluster{Name: c.config.Name, Size: len(c.config.Peers), Quorum: len(c.config.Peers)/2 + 1}
	state, err := a.engine.Cluster()
	if err == nil {
		out.Leader = state.Leader
	}
	self, _ := selfAmong(context.Background(), c.config)
	wants := newChange(a.config(), "").digest
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, p := range c.config.Peers {
		out.Nodes = append(out.Nodes, a.member(p, i == self, c.peers[p], state, wants))
	}
	return out
}

func (a *Appliance) member(address string, self bool, said peer, state engine.ClusterState, wants string) admin.Member {
	m := admin.Member{Address: address, Self: self, Name: said.answer.Node, Version: said.answer.Version, ClockAhead: said.ahead.Seconds()}
	if self {
		m.Name, m.Version = a.dir.NodeName(), a.opts.Version
	}
	if i := slices.IndexFunc(state.Members, func(e engine.Member) bool { return e.Name == m.Name }); i >= 0 {
		e := state.Members[i]
		m.Connected, m.RTT = e.Connected, e.RTT.Seconds()
	}
	// Each node knows best what it lacks: the leader knows only that it was told.
	lacks := said.answer.Lacks
	if self {
		lacks = ""
		if err := a.engine.Whole(); err != nil {
			lacks = err.Error()
		}
	}
	m.Current = lacks == "" && (self || m.Connected && said.err == nil && !said.asked.IsZero())
	switch {
	case self && lacks != "":
		m.Problem, m.Fix = "it does not have everything yet: "+lacks, "keep the other nodes up until it has"
	case self:
	case said.err != nil:
		m.Problem, m.Fix = said.err.Error(), diag.Hint(said.err)
	case said.asked.IsZero():
		m.Problem = "not heard of yet"
	case !m.Connected:
		m.Problem = fmt.Sprintf("it answers on %s, and there is no route to %s", joinAddress(address), address)
		m.Fix = "open the port of cluster.listen in both directions; the log of both nodes says more"
	case lacks != "":
		m.Problem = "it does not have everything yet: " + lacks
		m.Fix = "keep the other nodes up until it has"
	case said.ahead.Abs() > clockApart:
		m.Problem = fmt.Sprintf("its clock is %s before this node's", said.ahead.Round(time.Second))
		m.Fix = "let both nodes have their time from the same source, such as chrony"
	}
	if !self && said.err == nil && said.answer.Wants != "" && said.answer.Wants != wants {
		m.OtherFile = true
	}
	return m
}

// Quorum says why the cluster can't agree on anything now, one sentence each; nothing
// when it can, and on a single node.
func (a *Appliance) Quorum() []string {
	s := a.clusterStatus()
	if s == nil || s.Leader != "" {
		return nil
	}
	var out []string
	for _, m := range s.Nodes {
		if !m.Self && m.Problem != "" {
			out = append(out, fmt.Sprintf("cluster: waiting for %s: %s", m.Address, m.Problem))
		}
	}
	if len(out) == 0 {
		out = append(out, "cluster: no leader yet")
	}
	return out
}
