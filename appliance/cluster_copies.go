// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-mq/holdfast/appliance/admin"
	"github.com/holdfast-mq/holdfast/appliance/engine"
	"github.com/holdfast-mq/holdfast/appliance/howto"
	"github.com/holdfast-mq/holdfast/bootstrap"
)

// addCopies says where streams are kept, and what losing a node would do. What could be
// read of observed comes from the streams' leaders, who alone know how far the copies are.
func (a *Appliance) addCopies(c *admin.Cluster, observed bootstrap.Observed) {
	local, err := a.engine.Copies()
	if err != nil {
		return // it does not run
	}
	a.cluster.mu.Lock()
	since := maps.Clone(a.cluster.streams)
	alone := map[string]string{}
	for _, p := range a.cluster.peers {
		for _, name := range p.answer.Alone {
			alone[name] = p.answer.Node
		}
	}
	a.cluster.mu.Unlock()
	if c.Leader == "" && len(local) > 0 {
		// Nobody lists them: what the file declares and no store here has is elsewhere.
		for account, acc := range a.config().Accounts {
			for stream := range acc.Streams {
				if name := account + "/" + stream; alone[name] == "" {
					alone[name] = "" // nobody said where
				}
			}
		}
	}
	c.Streams = placements(observed, local, c.Nodes, alone, since)
	if up := upNodes(c.Nodes); len(up) < c.Quorum && len(c.Streams) > 0 { // without any it has not begun
		c.Stopped, c.Returns = true, returns(*c, up)
		return
	}
	c.Losses = losses(*c)
}

// upNodes are the names of those that this node can reach, and its own.
func upNodes(nodes []admin.Member) map[string]bool {
	up := map[string]bool{}
	for _, m := range nodes {
		if m.Self || m.Connected {
			up[m.Name] = true
		}
	}
	return up
}

// placements joins what leaders said of streams with what this node knows of those that
// it keeps itself, and of those that a node said it keeps alone; "" where nobody said it.
func placements(observed bootstrap.Observed, local []engine.Copies, nodes []admin.Member, alone map[string]string, since map[string]time.Time) []admin.Placement {
	known := map[string][]admin.Copy{}
	leaders := map[string]string{}
	for _, c := range local {
		name := c.Account + "/" + c.Stream
		known[name], leaders[name] = asSaid(nodesOf(c), nodes), c.Leader
	}
	for account, a := range observed.Accounts {
		for stream, s := range a.Streams {
			name := account + "/" + stream
			if copies := copiesOf(s.Placement); len(copies) > 0 && s.Unavailable == "" || known[name] == nil {
				known[name], leaders[name] = copies, s.Placement.Leader
			}
			for consumer, o := range s.Consumers {
				if copies := copiesOf(o.Placement); len(copies) > 0 && len(copies) < len(known[name]) && text(o.Config["durable_name"]) != "" {
					known[name+"/"+consumer], leaders[name+"/"+consumer] = copies, o.Placement.Leader
				}
			}
		}
	}
	for name, node := range alone {
		copies, listed := known[name]
		if !listed && readable(observed, name) || len(copies) > 0 {
			continue // it is gone, or known better
		}
		known[name] = nil
		if node != "" {
			known[name] = []admin.Copy{{Node: node}}
		}
		// A single copy needs nobody to agree with.
		if i := slices.IndexFunc(nodes, func(m admin.Member) bool { return m.Name == node && m.Connected && !m.Self }); i >= 0 && !listed {
			known[name], leaders[name] = []admin.Copy{{Node: node, Current: true}}, node
		}
	}
	out := make([]admin.Placement, 0, len(known))
	for _, name := range slices.Sorted(maps.Keys(known)) {
		p := admin.Placement{Name: name, Leader: leaders[name], Copies: gone(withAddresses(known[name], nodes), leaders[name], nodes)}
		if p.Leader == "" {
			if t, ok := since[name]; ok {
				p.NoLeaderSince = &t
			}
			p.Problem, p.Fix = leaderlessText(p.Copies)
		}
		out = append(out, p)
	}
	return out
}

// readable reports whether the streams of the account of one could be listed.
func readable(observed bootstrap.Observed, stream string) bool {
	account, _, _ := strings.Cut(stream, "/")
	a, ok := observed.Accounts[account]
	return ok && a.Unavailable == ""
}

// nodesOf are the copies of a stream that this node keeps one of.
func nodesOf(c engine.Copies) []admin.Copy {
	out := make([]admin.Copy, 0, len(c.Nodes))
	for _, n := range c.Nodes {
		out = append(out, admin.Copy{Node: n.Node, Current: n.Current || n.Node == c.Leader, Offline: n.Offline, Behind: n.Behind, Seen: n.Seen.Seconds()})
	}
	return out
}

// asSaid takes a copy for whole where its node says so: one that does not lead knows
// nothing of the others.
func asSaid(copies []admin.Copy, nodes []admin.Member) []admin.Copy {
	for i, c := range copies {
		copies[i].Current = c.Current || !c.Offline && slices.ContainsFunc(nodes, func(m admin.Member) bool { return m.Name == c.Node && m.Current })
	}
	return copies
}

// withAddresses calls copies on nodes that were not seen since this one started by the
// addresses of the nodes that nobody has heard of, where these are as many.
func withAddresses(copies []admin.Copy, nodes []admin.Member) []admin.Copy {
	var unseen []int
	for i, c := range copies {
		if engine.Unseen(c.Node) {
			unseen = append(unseen, i)
		}
	}
	var addresses []string
	for _, m := range nodes {
		if m.Name == "" && !m.Self && !m.Connected {
			addresses = append(addresses, m.Address)
		}
	}
	if len(unseen) == len(addresses) {
		for i, at := range unseen {
			copies[at].Node = addresses[i]
		}
	}
	return copies
}

// nameOf is what copies call a member: its address while nobody knows its name.
func nameOf(m admin.Member) string { return cmp.Or(m.Name, m.Address) }

// unheard is how long a leader may not hear of a copy before it is taken for gone where
// there is no route to it: the server itself takes minutes to call a node offline.
const unheard = 2 * time.Second

// gone marks the copies that are not there.
func gone(copies []admin.Copy, leader string, nodes []admin.Member) []admin.Copy {
	for i, c := range copies {
		away := slices.ContainsFunc(nodes, func(m admin.Member) bool { return nameOf(m) == c.Node && !m.Self && !m.Connected })
		silent := c.Seen >= unheard.Seconds() || c.Seen == 0 && !c.Current // 0 is never
		if away && c.Node != leader && (leader == "" || silent) {
			copies[i].Offline, copies[i].Current = true, false
		}
	}
	return copies
}

// copiesOf are the copies that a leader told of.
func copiesOf(p bootstrap.Placement) []admin.Copy {
	var out []admin.Copy
	if p.Leader != "" {
		out = append(out, admin.Copy{Node: p.Leader, Current: true})
	}
	for _, r := range p.Replicas {
		out = append(out, admin.Copy{Node: engine.NodeName(r.Node), Current: r.Current && !r.Offline, Offline: r.Offline, Behind: r.Behind, Seen: r.Seen.Seconds()})
	}
	slices.SortFunc(out, func(a, b admin.Copy) int { return cmp.Compare(a.Node, b.Node) })
	return out
}

// leaderlessText says why nothing leads a stream, and what to do.
func leaderlessText(copies []admin.Copy) (what, fix string) {
	var all, gone []string
	for _, c := range copies {
		all = append(all, c.Node)
		if c.Offline {
			gone = append(gone, c.Node)
		}
	}
	switch {
	case len(gone) == 1 && len(all) == 1:
		return fmt.Sprintf("its only copy is on %s, of which this node does not hear", gone[0]), fmt.Sprintf("bring %s up, or mend the way there; nothing is lost as long as its disk is not", gone[0])
	case len(copies) == 0:
		return "no leader answers, and this node does not keep it", "see which nodes are missing, and bring them up; `holdfast cluster status` on another node may know more"
	case len(gone) > 0:
		return fmt.Sprintf("no leader: of the nodes that keep it, %s, this one does not hear of %s", strings.Join(all, ", "), strings.Join(gone, ", ")),
			bringText(gone, majority(len(all))-(len(all)-len(gone)))
	}
	return fmt.Sprintf("no leader, although all nodes that keep it are up: %s", strings.Join(all, ", ")),
		electionFix()
}

func electionFix() string {
	return "an election takes some seconds; if there is none after a minute, restart these nodes one after the other (" + howto.Here().Restart() + ")"
}

// majority is how many of a number have to be there to agree.
func majority(of int) int { return of/2 + 1 }

// bringText says how many of the nodes that are gone have to come back.
func bringText(gone []string, needed int) string {
	which := strings.Join(gone, " and ")
	switch {
	case needed <= 0:
		return "those that are there are enough, unless one of them started empty and has to get everything first: then bring " + which + " up. Else " + electionFix()
	case needed == 1 && len(gone) > 1:
		which = strings.Join(gone, " or ")
	case needed < len(gone):
		which = fmt.Sprintf("%d of %s", needed, strings.Join(gone, ", "))
	}
	return fmt.Sprintf("bring %s up, or mend the way there; nothing is lost meanwhile", which)
}

// returns says what each node that is down would bring back, while too few are up.
func returns(c admin.Cluster, up map[string]bool) []admin.Return {
	var out []admin.Return
	for _, m := range c.Nodes {
		if m.Self || m.Connected {
			continue
		}
		r := admin.Return{Node: m.Name, Address: m.Address, Enough: len(up)+1 >= c.Quorum}
		for _, p := range c.Streams {
			there := 0
			for _, k := range p.Copies {
				if up[k.Node] || k.Node == nameOf(m) {
					there++
				}
			}
			if r.Enough && there < majority(len(p.Copies)) && len(p.Copies) > 0 {
				r.Waits = append(r.Waits, p.Name)
			}
		}
		out = append(out, r)
	}
	return out
}

// losses says what losing each node that is up would do, now.
func losses(c admin.Cluster) []admin.Loss {
	up := len(upNodes(c.Nodes))
	var out []admin.Loss
	for _, m := range c.Nodes {
		if m.Name == "" || !m.Self && !m.Connected {
			continue
		}
		l := admin.Loss{Node: m.Name, Everything: up-1 < c.Quorum}
		for _, p := range c.Streams {
			stops, loses := without(p, m.Name)
			if stops && !l.Everything {
				l.Stops = append(l.Stops, p.Name)
			}
			if loses {
				l.Loses = append(l.Loses, p.Name)
			}
		}
		out = append(out, l)
	}
	return out
}

// without says whether a stream that has a leader would stand still without a node, and
// whether it would be gone with the disk of that node. A copy that is not whole counts
// for nothing.
func without(p admin.Placement, node string) (stops, loses bool) {
	if p.Leader == "" || !slices.ContainsFunc(p.Copies, func(c admin.Copy) bool { return c.Node == node }) {
		return false, false
	}
	left := 0
	for _, c := range p.Copies {
		if c.Node != node && c.Current && !c.Offline {
			left++
		}
	}
	return left < majority(len(p.Copies)), left == 0
}
