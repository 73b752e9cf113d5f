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

// view is what a member is seen with.
type view struct {
	state engine.ClusterState
	self  join.Answer
	// counts is what the node says whose file counts.
	counts join.Answer
	// lost and met are those of sightings.
	lost, met map[string]time.Time
	peers     map[string]peer // by address
	now       time.Time
}

// member is a node as it is known: each knows best itself what it lacks.
func (v view) member(address string, self bool, said peer) admin.Member {
	m := admin.Member{
		Address: address, Self: self, Name: said.answer.Node, Version: said.answer.Version, NATS: said.answer.NATS,
		ClockAhead: said.ahead.Seconds(), OtherFile: said.answer.Wants != "" && said.answer.Wants != v.counts.Wants,
		Differs: differing(said.answer, v.counts), FileRefused: said.answer.FileRefused,
	}
	for _, c := range said.answer.Certificates {
		m.Certificates = append(m.Certificates, admin.MemberCertificate{Name: c.Name, NotAfter: c.NotAfter})
	}
	if i := slices.IndexFunc(v.state.Members, func(e engine.Member) bool { return e.Name == m.Name }); i >= 0 {
		m.Connected, m.RTT = v.state.Members[i].Connected, v.state.Members[i].RTT.Seconds()
	}
	if since, ok := v.lost[m.Name]; ok && !m.Connected && !self {
		m.NotConnectedSince = &since
	}
	if said.err == nil && said.answer.Stopped != "" {
		since := said.asked.Add(-said.answer.StoppedFor)
		m.PublishingStopped, m.PublishingStoppedSince = said.answer.Stopped, &since
	}
	m.Code, m.Problem, m.Fix = v.problem(m, said)
	m.Warnings = v.warnings(m.Code, said)
	m.Current = said.err == nil && !said.asked.IsZero() && m.Connected && said.answer.Lacks == ""
	return m
}

// counting is what the node says whose file counts: the one that leads, or else this one.
func (v view) counting() join.Answer {
	for _, p := range v.peers {
		if p.answer.Node == v.state.Leader && p.answer.Node != "" && p.answer.Wants != "" {
			return p.answer
		}
	}
	return v.self
}

// problem is the first thing that is wrong with a member; what comes first may be the
// reason for the rest.
func (v view) problem(m admin.Member, said peer) (code diag.Code, what, fix string) {
	code = diag.CodeClusterPeer
	other := ""
	for at, p := range v.peers {
		if at != m.Address && p.err == nil && p.answer.Node == m.Name && m.Name != "" && p.answer.Process != said.answer.Process {
			other = at
		}
	}
	switch {
	case said.err != nil && m.Connected && diag.CodeOf(said.err) == diag.CodeClusterPeer:
		return code, fmt.Sprintf("there is a route to it, and it does not answer on the port behind: %v", said.err),
			fmt.Sprintf("open %s in both directions", joinAddress(m.Address))
	case said.err != nil && m.NotConnectedSince != nil && diag.CodeOf(said.err) == diag.CodeClusterPeer:
		return code, fmt.Sprintf("not connected since %s, and it does not answer: %v", clockTime(*m.NotConnectedSince, v.now), said.err), startFix
	case said.err != nil:
		return diag.CodeOf(said.err), said.err.Error(), diag.Hint(said.err)
	case said.asked.IsZero():
		return code, "not heard of yet", "it is asked every few seconds"
	case other != "" && !m.Self:
		return diag.CodeClusterName, fmt.Sprintf("it is node %s, and so is %s", m.Name, other), sameNameFix
	case !m.Connected:
		what, fix = v.noRoute(m, said)
		return code, what, fix
	}
	if unseen := v.unseen(m, said); unseen != "" {
		return code, fmt.Sprintf("it has no connection to node %s, to which this one has", unseen),
			"open the ports of cluster.listen and the one behind it between these two, in both directions"
	}
	switch {
	case m.PublishingStopped != "":
		return diag.CodeClusterStopped, stoppedText(m, v.now), stoppedFix
	case said.answer.Lacks != "":
		if v.state.Leader == "" {
			return diag.CodeClusterCopies, "it does not have everything yet: " + said.answer.Lacks, "bring the nodes that are down up; it goes on once there is a leader"
		}
		return diag.CodeClusterCopies, "it does not have everything yet: " + said.answer.Lacks, "keep the other nodes up until it has"
	case said.ahead.Abs()-said.unsure > clockBreaks:
		return diag.CodeClusterClock, clockText(said.ahead) + ": messages expire, delayed ones come and duplicates are known by another time there", clockFix
	}
	return "", "", ""
}

const (
	sameNameFix = "stop one of the two: a data directory is for one node, and each has a node.name of its own; the one that is to be another starts with an empty data directory"
	startFix    = "start the node, or mend the way to it; it is tried again every few seconds"
	stoppedFix  = "make room on its volume, or mend it: `holdfast status` on that node says more; publishing goes on by itself, and nothing has to be restarted"
	clockFix    = "let all nodes have their time from the same source, such as chrony"
)

const (
	// routeGrace is how long a route that is lost may take to come back, and an answer
	// to be newer than that, before anything else is looked for.
	routeGrace = 10 * time.Second
	// clockApart is how far two clocks may be apart before it is said, clockBreaks before
	// it is a problem: by then messages that others still have expire on a new leader,
	// and half of the usual duplicate_window is gone. Holdfast's own certificates and
	// tokens stand hours (certs.validFrom, identity/token.go).
	clockApart  = time.Second
	clockBreaks = time.Minute
)

// noRoute says why there is no route to a node that answers.
func (v view) noRoute(m admin.Member, said peer) (what, fix string) {
	since, known := v.lost[m.Name]
	if !known {
		since = v.now // that it is gone was not even noted yet
	}
	if v.now.Sub(since) < routeGrace || said.asked.Before(since.Add(routeGrace)) {
		return fmt.Sprintf("not connected since %s", clockTime(since, v.now)), startFix
	}
	for _, who := range []join.Answer{said.answer, v.self} {
		for _, c := range who.Certificates {
			if (c.Name == "route" || c.Name == "route_ca") && c.NotAfter.Before(v.now) {
				return fmt.Sprintf("there is no route to it, for the certificate that node %s has for routes ended on %s", who.Node, c.NotAfter.Format(time.DateOnly)),
					"look at the clocks of both nodes; a node that has its time right renews the certificate by itself, and says in its log why it can't"
			}
		}
	}
	return fmt.Sprintf("it answers on %s, and there is no route to %s, since %s", joinAddress(m.Address), m.Address, clockTime(since, v.now)), "open the port of cluster.listen in both directions; the log of both nodes says more"
}

// unseen is a node that this one has a route to, and the other does not.
func (v view) unseen(m admin.Member, said peer) string {
	if m.Self || said.asked.IsZero() || v.now.Sub(said.asked) > routeGrace || said.answer.Process == "" {
		return ""
	}
	for _, e := range v.state.Members {
		if e.Connected && !e.Self && e.Name != m.Name && !slices.Contains(said.answer.Sees, e.Name) && v.now.Sub(v.met[e.Name]) > routeGrace {
			return e.Name
		}
	}
	return ""
}

// warnings are what will hurt later, and clocks that are apart where the problem is another.
func (v view) warnings(problem diag.Code, said peer) []string {
	if said.asked.IsZero() {
		return nil
	}
	var out []string
	if apart := said.ahead.Abs() - said.unsure; apart > clockApart && problem != diag.CodeClusterClock {
		out = append(out, clockText(said.ahead))
	}
	if said.answer.Version != "" && said.answer.Version != v.self.Version {
		out = append(out, fmt.Sprintf("it has holdfast %s, and this node %s", said.answer.Version, v.self.Version))
	}
	if said.answer.NATS != "" && said.answer.NATS != v.self.NATS {
		out = append(out, fmt.Sprintf("it has nats-server %s, and this node %s", said.answer.NATS, v.self.NATS))
	}
	for _, c := range said.answer.Certificates {
		if c.Problem != "" {
			out = append(out, c.Problem)
		}
	}
	return out
}

func clockText(ahead time.Duration) string {
	if ahead < 0 {
		return fmt.Sprintf("its clock is %s behind this node's", (-ahead).Round(100*time.Millisecond))
	}
	return fmt.Sprintf("its clock is %s ahead of this node's", ahead.Round(100*time.Millisecond))
}

// clockTime is a time in the past and how long ago that is.
func clockTime(t, now time.Time) string {
	format := time.TimeOnly
	if now.Sub(t) > 12*time.Hour {
		format = time.DateTime
	}
	return fmt.Sprintf("%s (%s)", t.Local().Format(format), now.Sub(t).Round(time.Second))
}
