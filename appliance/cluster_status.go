// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-mq/holdfast/appliance/admin"
	"github.com/holdfast-mq/holdfast/appliance/diag"
	"github.com/holdfast-mq/holdfast/appliance/engine"
	"github.com/holdfast-mq/holdfast/appliance/join"
)

// clockApart is how far two clocks may be apart before it is said: what expires, and
// what is scheduled, goes by them.
const clockApart = 5 * time.Second

// clusterStatus is what this node knows of the others; nil on a single node.
func (a *Appliance) clusterStatus() *admin.Cluster {
	c := a.others()
	if c == nil {
		return nil
	}
	out := &admin.Cluster{Name: c.config.Name, Size: len(c.config.Peers), Quorum: len(c.config.Peers)/2 + 1}
	out.Growth = a.growthStatus()
	state, err := a.clusterState()
	if err == nil {
		out.Leader = state.Leader
	}
	wants := newChange(a.config(), "").digest
	lacks := ""
	if err := a.engine.Whole(); err != nil {
		lacks = err.Error()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, p := range c.config.Peers {
		said, self := c.peers[p], i == c.self
		if self {
			said = peer{answer: join.Answer{Node: a.dir.NodeName(), Version: a.opts.Version, Lacks: lacks, Wants: wants}, asked: time.Now()}
		}
		m := member(p, self, said, state, wants)
		if a.growth != nil && state.Members == nil && said.err == nil {
			m.Problem, m.Fix = "", "" // there are no routes yet, and growth says what it waits for
		}
		out.Nodes = append(out.Nodes, m)
	}
	return out
}

// member is a node as it is known: each knows best itself what it lacks.
func member(address string, self bool, said peer, state engine.ClusterState, wants string) admin.Member {
	m := admin.Member{
		Address: address, Self: self, Name: said.answer.Node, Version: said.answer.Version, ClockAhead: said.ahead.Seconds(),
		OtherFile: said.answer.Wants != "" && said.answer.Wants != wants,
	}
	if i := slices.IndexFunc(state.Members, func(e engine.Member) bool { return e.Name == m.Name }); i >= 0 {
		m.Connected, m.RTT = state.Members[i].Connected, state.Members[i].RTT.Seconds()
	}
	switch {
	case said.err != nil:
		m.Problem, m.Fix = said.err.Error(), diag.Hint(said.err)
	case said.asked.IsZero():
		m.Problem = "not heard of yet"
	case !m.Connected:
		m.Problem = fmt.Sprintf("it answers on %s, and there is no route to %s", joinAddress(address), address)
		m.Fix = "open the port of cluster.listen in both directions; the log of both nodes says more"
	case said.answer.Lacks != "":
		m.Problem, m.Fix = "it does not have everything yet: "+said.answer.Lacks, "keep the other nodes up until it has"
	case said.ahead.Abs() > clockApart:
		m.Problem = fmt.Sprintf("its clock is %s before this node's", said.ahead.Round(time.Second))
		m.Fix = "let both nodes have their time from the same source, such as chrony"
	}
	m.Current = said.err == nil && !said.asked.IsZero() && m.Connected && said.answer.Lacks == ""
	return m
}

// Quorum says why the cluster can't agree on anything now, one sentence each; nothing
// when it can, and on a single node.
func (a *Appliance) Quorum() []string {
	if a.cluster == nil || a.leader() != "" {
		return nil
	}
	s := a.clusterStatus()
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
