// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/holdfast-mq/holdfast/appliance/diag"
	"github.com/holdfast-mq/holdfast/appliance/engine"
)

const (
	// copiesEvery is how often the streams' leaders are looked at.
	copiesEvery = 3 * time.Second
	// leaderGrace is how long a stream may be without a leader before it is said: an
	// election takes some seconds.
	leaderGrace = 10 * time.Second
)

// sightings are what a node of a cluster saw happen, and when. Guarded by cluster.mu.
type sightings struct {
	lost, met  map[string]time.Time // since when there is no route to a node, and since when there is one, by name
	leaderless time.Time            // since when the cluster has no leader; zero while it has
	// streams have no leader since then, by ACCOUNT/STREAM.
	streams map[string]time.Time
}

func newSightings() sightings {
	return sightings{lost: map[string]time.Time{}, met: map[string]time.Time{}, streams: map[string]time.Time{}, leaderless: time.Now()}
}

// sight notes which routes there are, and whether there is a leader. heard are nodes that
// are known from elsewhere. It returns the nodes that were lost and found since.
func (s *sightings) sight(state engine.ClusterState, heard []string, now time.Time) (lost, found []string) {
	members := slices.Clone(state.Members)
	for _, name := range append(heard, slices.Sorted(maps.Keys(s.met))...) {
		if !slices.ContainsFunc(members, func(m engine.Member) bool { return m.Name == name }) {
			members = append(members, engine.Member{Name: name})
		}
	}
	for _, m := range members {
		_, wasLost := s.lost[m.Name]
		_, wasMet := s.met[m.Name]
		switch {
		case m.Self:
		case m.Connected && !wasMet:
			s.met[m.Name] = now
			delete(s.lost, m.Name)
			found = append(found, m.Name)
		case !m.Connected && !wasLost:
			s.lost[m.Name] = now
			if wasMet {
				lost = append(lost, m.Name)
			}
			delete(s.met, m.Name)
		}
	}
	switch {
	case state.Leader != "":
		s.leaderless = time.Time{}
	case s.leaderless.IsZero():
		s.leaderless = now
	}
	return lost, found
}

// sightStreams notes which streams have no leader. It returns those of which it is to
// be said now, and those that have one again after it was said.
func (s *sightings) sightStreams(copies []engine.Copies, before, now time.Time) (lost, found []string) {
	present := map[string]bool{}
	for _, c := range copies {
		if c.Leader != "" {
			continue
		}
		name := c.Account + "/" + c.Stream
		present[name] = true
		since, known := s.streams[name]
		if !known {
			s.streams[name] = now
			continue
		}
		if due := since.Add(leaderGrace); !now.Before(due) && before.Before(due) {
			lost = append(lost, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.streams)) {
		if present[name] {
			continue
		}
		if before.Sub(s.streams[name]) >= leaderGrace {
			found = append(found, name)
		}
		delete(s.streams, name)
	}
	return lost, found
}

// tendRoutes looks which nodes there is a route to, until ctx is done.
func (a *Appliance) tendRoutes(ctx context.Context, c *cluster) {
	var clients away
	every(ctx, leadEvery, func() {
		state, err := a.clusterState()
		if err != nil {
			return
		}
		c.mu.Lock()
		var heard []string
		for _, p := range c.peers {
			if p.answer.Node != "" && p.answer.Node != a.dir.NodeName() {
				heard = append(heard, p.answer.Node)
			}
		}
		lost, found := c.sight(state, heard, time.Now())
		c.mu.Unlock()
		for _, n := range lost {
			a.log.Warn("not connected to another node any more", keyNode, n)
		}
		for _, n := range found {
			a.log.Info("connected to another node", keyNode, n)
		}
		if len(lost)+len(found) > 0 {
			a.tellStatusLine()
		}
		if clients.due(cutOff(state), time.Now()) {
			a.sendAway()
		}
	})
}

// tendCopies looks which streams have a leader, until ctx is done.
func (a *Appliance) tendCopies(ctx context.Context) {
	before := time.Now()
	every(ctx, copiesEvery, func() {
		copies, err := a.engine.Copies()
		if err != nil || ctx.Err() != nil {
			return
		}
		now := time.Now()
		a.cluster.mu.Lock()
		lost, found := a.cluster.sightStreams(copies, before, now)
		a.cluster.mu.Unlock()
		before = now
		for i, name := range lost {
			if i == mostNamed {
				a.log.Error("more streams have no leader", keyCount, len(lost)-i, keyFix, "`holdfast cluster status --all` lists them")
				break
			}
			c := copies[slices.IndexFunc(copies, func(c engine.Copies) bool { return c.Account+"/"+c.Stream == name })]
			nodes := a.clusterStatus().Nodes
			what, fix := leaderlessText(gone(withAddresses(nodesOf(c), nodes), "", nodes))
			a.log.Error("a stream has no leader, and takes and delivers nothing", keyStream, name, keyCode, string(diag.CodeClusterCopies), keyWhat, what, keyFix, fix)
		}
		if len(found) > 0 {
			a.log.Info("streams have a leader again", keyCount, len(found), keyStream, firstFew(found))
		}
		if len(lost)+len(found) > 0 {
			a.tellStatusLine()
		}
		a.helpStalled(ctx)
	})
}

// helpStalled has leaders step down whose copies here try in vain to catch up: they get on
// with another leader.
func (a *Appliance) helpStalled(ctx context.Context) {
	stalled, err := a.engine.Stalled()
	if err != nil {
		return // the server is stopping
	}
	for _, s := range stalled {
		name := s.Account + "/" + s.Stream
		a.log.Info("the copy here tries in vain to catch up, so its leader is asked to step down", keyStream, name, keyConsumer, s.Consumer)
		if err := a.js.StepDown(ctx, s.Account, s.Stream, s.Consumer); err != nil && ctx.Err() == nil {
			a.log.Warn("the copy here does not catch up, and its leader does not step down; it is tried again", keyStream, name, keyConsumer, s.Consumer,
				keyErr, err, keyFix, "keep the other nodes up; restart this one if `holdfast cluster status` shows for minutes that the copy is behind")
		}
	}
}

// mostNamed bounds how many things of a kind are named one by one.
const mostNamed = 3

// clusterLine says in a few words what is wrong with the cluster, for the line in
// systemctl status; "" while all is well.
func (a *Appliance) clusterLine() string {
	if a.cluster == nil {
		return ""
	}
	a.cluster.mu.Lock()
	streams := 0
	for _, since := range a.cluster.streams {
		if time.Since(since) >= leaderGrace {
			streams++
		}
	}
	a.cluster.mu.Unlock()
	if streams > 0 {
		return fmt.Sprintf("%d streams without a leader, see `holdfast cluster status`", streams)
	}
	if time.Since(a.started) < routeGrace {
		return "" // they are only just asked
	}
	s := a.clusterStatus()
	for _, m := range s.Nodes {
		if !m.Self && m.Problem != "" {
			return fmt.Sprintf("%s: %s", m.Address, m.Problem)
		}
	}
	return ""
}
