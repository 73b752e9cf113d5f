// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-mq/holdfast/appliance/admin"
	"github.com/holdfast-mq/holdfast/appliance/engine"
	"github.com/holdfast-mq/holdfast/bootstrap"
	"github.com/holdfast-mq/holdfast/bootstrap/identity"
)

// addCopies says where streams are kept, and what losing a node would do. observed are
// the accounts of the users: what could be read of it comes from the streams' leaders,
// who alone know how far the copies are.
func (a *Appliance) addCopies(ctx context.Context, c *admin.Cluster, observed bootstrap.Observed) {
	local, err := a.engine.Copies()
	if err != nil {
		return // it does not run
	}
	all := bootstrap.Observed{Accounts: maps.Clone(observed.Accounts)}
	if c.Leader != "" {
		own, _ := a.js.Observe(ctx, []string{identity.InternalName}) // what can't be read is marked so
		if all.Accounts == nil {
			all.Accounts = map[string]bootstrap.ObservedAccount{}
		}
		maps.Copy(all.Accounts, own.Accounts)
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
	c.Streams = placements(all, local, c.Nodes, alone, since)
	c.Losses = losses(*c)
}

// placements joins what leaders said of streams with what this node knows of those that
// it keeps itself, and of those that a node said it keeps alone.
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
	out := make([]admin.Placement, 0, len(known))
	for name, copies := range known {
		if node := alone[name]; node != "" && len(copies) == 0 {
			known[name] = []admin.Copy{{Node: node}}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(known)) {
		p := admin.Placement{Name: name, Leader: leaders[name], Copies: gone(known[name], leaders[name], nodes)}
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

// unheard is how long a leader may not hear of a copy before it is taken for gone where
// there is no route to it: the server itself takes minutes to call a node offline.
const unheard = 2 * time.Second

// gone marks the copies that are not there.
func gone(copies []admin.Copy, leader string, nodes []admin.Member) []admin.Copy {
	for i, c := range copies {
		away := slices.ContainsFunc(nodes, func(m admin.Member) bool { return m.Name == c.Node && !m.Self && !m.Connected })
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
		out = append(out, admin.Copy{Node: r.Node, Current: r.Current && !r.Offline, Offline: r.Offline, Behind: r.Behind, Seen: r.Seen.Seconds()})
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
			fmt.Sprintf("bring %s up, or mend the way there; nothing is lost meanwhile", strings.Join(gone, " and "))
	}
	return fmt.Sprintf("no leader, although all nodes that keep it are up: %s", strings.Join(all, ", ")),
		"an election takes some seconds; if there is none after a minute, restart these nodes one after the other (systemctl restart holdfast)"
}

// losses says what losing each node that is up would do, now.
func losses(c admin.Cluster) []admin.Loss {
	up := 0
	for _, m := range c.Nodes {
		if m.Self || m.Connected {
			up++
		}
	}
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
	return left < len(p.Copies)/2+1, left == 0
}
