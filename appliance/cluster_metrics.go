// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"slices"

	"github.com/holdfast-mq/holdfast/appliance/engine"
	"github.com/holdfast-mq/holdfast/appliance/metrics"
)

// Cluster is how the nodes are, for metrics. It asks nobody: each node tells what it
// knows itself.
func (a *Appliance) Cluster() *metrics.Cluster {
	c := a.cluster
	if c == nil {
		return nil
	}
	out := &metrics.Cluster{Members: len(c.config.Peers), Connected: 1, Quorum: len(c.config.Peers)/2 + 1}
	state, err := a.engine.Cluster()
	if err == nil {
		out.LeaderKnown, out.Leads = state.Leader != "", state.Leader == a.dir.NodeName()
	}
	connected := func(name string) bool {
		return slices.ContainsFunc(state.Members, func(m engine.Member) bool { return m.Name == name && m.Connected && !m.Self })
	}
	for _, m := range state.Members {
		if m.Connected && !m.Self {
			out.Connected++
		}
	}
	seen := map[string]bool{a.dir.NodeName(): true} // a second node of one name would be a second series
	c.mu.Lock()
	for _, p := range c.peers {
		if name := p.answer.Node; name != "" && !seen[name] {
			seen[name] = true
			out.Peers = append(out.Peers, metrics.Peer{Node: name, Ahead: p.ahead, Connected: connected(name), Alone: len(p.answer.Alone), Stopped: p.answer.Stopped != ""})
		}
	}
	c.mu.Unlock()
	copies, err := a.engine.Copies()
	if err != nil {
		return out
	}
	for _, s := range copies {
		switch {
		case s.Leader == "":
			out.Leaderless++
		case a.engine.LedHere(s):
			for _, n := range s.Nodes {
				out.Copies = append(out.Copies, metrics.Copy{
					Account: s.Account, Stream: s.Stream, Node: n.Node, Behind: n.Behind, Current: n.Current && !n.Offline,
				})
			}
		}
	}
	return out
}
