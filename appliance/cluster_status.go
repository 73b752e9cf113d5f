// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-mq/holdfast/appliance/admin"
	"github.com/holdfast-mq/holdfast/appliance/certs"
	"github.com/holdfast-mq/holdfast/appliance/diag"
	"github.com/holdfast-mq/holdfast/appliance/engine"
	"github.com/holdfast-mq/holdfast/appliance/join"
)

// describe is what this node says of itself to the others.
func (a *Appliance) describe() join.Answer {
	out := join.Answer{
		Node: a.dir.NodeName(), Process: a.process, Time: time.Now(), Version: a.opts.Version, NATS: engine.ServerVersion(),
		Wants: newChange(a.wholeConfig(), "").digest, Decides: decides(a.wholeConfig()), FileRefused: a.fileRefused(), Certificates: a.describeCerts(time.Now()),
		Grows: a.grows(),
	}
	if g := a.growthStatus(); g != nil && g.Node == out.Node {
		out.Copies = &join.Copies{
			Step: string(g.Step), Streams: g.Streams, StreamsDone: g.StreamsDone, Consumers: g.Consumers, ConsumersDone: g.ConsumersDone,
			Bytes: g.Bytes, BytesDone: g.BytesDone, Current: g.Current,
		}
	}
	if vol, err := a.dir.Volume(); err == nil {
		out.Free = vol.Free
	}
	if st, err := a.engine.Stats(); err == nil {
		out.Stored = st.StoreUsed
	}
	a.mu.Lock()
	if out.Stopped = a.roomStatus.stopped; out.Stopped != "" {
		out.StoppedFor = time.Since(a.roomStatus.since)
	}
	a.mu.Unlock()
	if err := a.engine.Whole(); err != nil {
		out.Lacks = err.Error()
	}
	if s, err := a.clusterState(); err == nil {
		for _, m := range s.Members {
			if m.Connected && !m.Self {
				out.Sees = append(out.Sees, m.Name)
			}
		}
	}
	if copies, err := a.engine.Copies(); err == nil {
		for _, c := range copies {
			if len(c.Nodes) == 1 && len(out.Alone) < mostAlone {
				out.Alone = append(out.Alone, c.Account+"/"+c.Stream)
			}
		}
	}
	return out
}

// mostAlone bounds what a node says of itself every few seconds.
const mostAlone = 1000

// describeCerts are the certificates of this node: those of the routes have names of
// their own.
func (a *Appliance) describeCerts(now time.Time) []join.Certificate {
	var out []join.Certificate
	add := func(s *certs.Store, names map[string]string) {
		if s == nil {
			return
		}
		for _, i := range s.Info() {
			c := join.Certificate{Name: names[i.Name], NotAfter: i.NotAfter}
			if certs.ClockIsSet(now) {
				c.Problem = i.Expiry(now)
			}
			out = append(out, c)
		}
	}
	if c := a.others(); c != nil {
		add(c.routes, map[string]string{certs.Server: "route", certs.CA: "route_ca"})
	}
	add(a.clientCerts, map[string]string{certs.Server: certs.Server, certs.CA: certs.CA})
	return out
}

// clusterStatus is what this node knows of the others; nil on a single node.
func (a *Appliance) clusterStatus() *admin.Cluster {
	c := a.others()
	if c == nil {
		return nil
	}
	v := view{self: a.describe(), now: time.Now()}
	out := &admin.Cluster{Name: c.config.Name, Size: len(c.config.Peers), Quorum: len(c.config.Peers)/2 + 1}
	out.Growth = a.growthStatus()
	var err error
	if v.state, err = a.clusterState(); err == nil {
		out.Leader = v.state.Leader
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	v.lost, v.met, v.peers = c.lost, c.met, c.peers
	v.counts = v.counting()
	if since := c.leaderless; out.Leader == "" && !since.IsZero() {
		out.NoLeaderSince = &since
	}
	for i, p := range c.config.Peers {
		said, self := c.peers[p], i == c.self
		if self {
			said = peer{answer: v.self, asked: v.now}
		}
		m := v.member(p, self, said)
		if a.growth != nil && v.state.Members == nil && said.err == nil {
			m.Code, m.Problem, m.Fix = "", "", "" // there are no routes yet, and growth says what it waits for
		}
		if !self && said.err == nil && said.answer.Grows == said.answer.Node && said.answer.Node != "" && !m.Connected {
			m.Code, m.Problem, m.Fix = diag.CodeClusterGrow, "it serves its messages alone, and enters the cluster when all nodes are there", "`holdfast cluster status` there shows how far it is"
		}
		out.Nodes = append(out.Nodes, m)
	}
	return out
}

// stoppedText says that a node takes nothing from publishers. Streams that others lead do:
// each node stops those of its own.
func stoppedText(m admin.Member, now time.Time) string {
	return fmt.Sprintf("publishing stopped there at %s: %s; what is published to a stream that it leads is refused (error 10002)",
		clockTime(*m.PublishingStoppedSince, now), m.PublishingStopped)
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
	none := "cluster: no leader yet"
	if s.NoLeaderSince != nil {
		none = "cluster: no leader since " + clockTime(*s.NoLeaderSince, time.Now())
	}
	return append(out, none)
}

// clusterProblems are those of a cluster as status shows them: it is where one looks
// first.
func clusterProblems(c admin.Cluster) []admin.Problem {
	var out []admin.Problem
	add := func(code diag.Code, what, fix string) {
		out = append(out, admin.Problem{Severity: diag.Warning.String(), Code: code, What: what, Fix: fix})
	}
	for _, m := range c.Nodes {
		if m.Problem != "" && !m.Self {
			add(cmp.Or(m.Code, diag.CodeClusterPeer), "cluster: "+m.Address+": "+m.Problem, m.Fix)
		}
		if m.OtherFile && m.Self && c.Leader != "" && c.Growth == nil {
			add(diag.CodeDiffers, "cluster: node "+c.Leader+" leads and applies its file, which is another one than this node's",
				"put the same file on all nodes; `holdfast plan` here shows what this one would change")
		}
		if len(m.Differs) > 0 && m.Self && c.Leader != "" && c.Growth == nil {
			add(diag.CodeDiffers, "cluster: node "+c.Leader+" leads, and its file counts for group commit: "+firstFew(m.Differs), "put the same file on all nodes")
		}
		if m.FileRefused != "" && !m.Self {
			add(diag.CodeDiffers, "cluster: node "+m.Name+": "+m.FileRefused, "mend the file of node "+m.Name+"; `holdfast status` there says how")
		}
	}
	stuck := 0
	for _, p := range c.Streams {
		if p.Problem == "" {
			continue
		}
		if stuck++; stuck <= mostNamed {
			add(diag.CodeClusterCopies, p.Name+": "+p.Problem+sinceText(p.NoLeaderSince), p.Fix)
		}
	}
	if more := stuck - mostNamed; more > 0 {
		add(diag.CodeClusterCopies, fmt.Sprintf("%d more streams have no leader", more), "`holdfast cluster status --all` lists them")
	}
	return out
}

// firstFew names the first of a list, and how many there are more.
func firstFew(list []string) string {
	if more := len(list) - mostNamed; more > 0 {
		return fmt.Sprintf("%s, and %d more", strings.Join(list[:mostNamed], ", "), more)
	}
	return strings.Join(list, ", ")
}

func sinceText(t *time.Time) string {
	if t == nil {
		return ""
	}
	return ", since " + clockTime(*t, time.Now())
}
