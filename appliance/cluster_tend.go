// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-mq/holdfast/appliance/diag"
	"github.com/holdfast-mq/holdfast/appliance/join"
)

const (
	// leadEvery is how often a node looks whether it leads now.
	leadEvery = time.Second
	// peersEvery is how often the other nodes are asked who they are and what time it is.
	peersEvery = 3 * time.Second
	// sharedEvery is how often the shared identity is looked at, should word of a change
	// have been lost.
	sharedEvery = 30 * time.Second
)

// tendCluster looks who leads, what the others changed, and how they are, until ctx is
// done. led is told when this node begins to lead.
func (a *Appliance) tendCluster(ctx context.Context, led chan<- struct{}) {
	var tending sync.WaitGroup
	defer tending.Wait()
	tending.Go(func() { a.tendLead(ctx, led) })
	tending.Go(func() { a.tendPeers(ctx, a.cluster) })
	tending.Go(func() { a.tendRoutes(ctx, a.cluster) })
	tending.Go(func() { a.tendCopies(ctx) })
	if a.cluster.shared != nil {
		tending.Go(func() { a.tendShared(ctx) })
	}
	tending.Go(func() {
		a.cluster.routes.Run(ctx, a.certsEvery(),
			func() { a.log.Info("certificates of the routes changed") },
			func(err error) {
				a.log.Error("certificates of the routes not brought up to date, the old ones are used on", keyErr, err, keyFix, diag.Hint(err))
			})
	})
}

// tendLead wakes whoever applies when there is another leader, or one at last.
func (a *Appliance) tendLead(ctx context.Context, led chan<- struct{}) {
	before := ""
	every(ctx, leadEvery, func() {
		now := a.leader()
		if now != "" && now != before {
			a.log.Info("the cluster has a leader, which applies its file", keyNode, now)
			signalOnce(led)
		}
		before = now
	})
}

// every calls f now and then, until ctx is done.
func every(ctx context.Context, pause time.Duration, f func()) {
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for {
		f()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// signalOnce puts something into a channel of one that is empty.
func signalOnce(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// tendShared takes what other nodes change of the identity, as soon as it hears of it.
func (a *Appliance) tendShared(ctx context.Context) {
	stop := func() {}
	defer func() { stop() }()
	watched := false
	for {
		if !watched {
			if s, err := a.cluster.shared.Watch(func() { signalOnce(a.cluster.news) }); err == nil {
				stop, watched = s, true
			}
		}
		err := a.catchUp(ctx)
		if errors.Is(err, errNoLeader) {
			err = nil // which others say
		}
		if a.lasts("shared identity", err, time.Now()) && a.news("shared identity", err) && ctx.Err() == nil {
			a.log.Warn("who may connect is not known from the cluster, the last that was known counts", keyErr, err, keyFix, diag.Hint(err))
		}
		select {
		case <-ctx.Done():
			return
		case <-a.cluster.news:
		case <-time.After(sharedEvery):
		}
	}
}

// tendPeers asks the other nodes who they are.
func (a *Appliance) tendPeers(ctx context.Context, c *cluster) {
	self := -1
	every(ctx, peersEvery, func() {
		if self < 0 {
			self, _ = selfAmong(ctx, c.config) // the name may be known later; all are asked until then
			c.mu.Lock()
			c.self = self
			c.mu.Unlock()
		}
		operator, err := a.identity.Operator()
		if err != nil {
			return
		}
		// All at once: one that can't be reached takes its time.
		var asking sync.WaitGroup
		for i, p := range c.config.Peers {
			if i != self {
				asking.Go(func() { a.askPeer(ctx, c, p, operator) })
			}
		}
		asking.Wait()
	})
}

// askPeer asks a node who it is, and keeps what it says.
func (a *Appliance) askPeer(ctx context.Context, c *cluster, p, operator string) {
	begun := time.Now()
	answer, err := join.Ask(ctx, joinAddress(p), c.secret, a.question(c, operator))
	now := time.Now()
	if ctx.Err() != nil || err == nil && answer.Process == a.process {
		return // it is this node, by an address that it does not know as its own
	}
	c.mu.Lock()
	next := c.peers[p] // who it was stays known while it does not answer
	c.mu.Unlock()
	before := next.answer
	next.err = err
	if err == nil {
		took := now.Sub(begun)
		next = peer{answer: answer, asked: now, ahead: answer.Time.Sub(begun.Add(took / 2)), unsure: took / 2}
	}
	switch {
	case err != nil || answer.Refused == "":
	case answer.Node == a.dir.NodeName():
		next.err = diag.Fail(diag.CodeClusterName, fmt.Errorf("node %s there has the name of this one", answer.Node), sameNameFix)
	case answer.Wait:
		next.err = diag.Fail(diag.CodeNotReady, fmt.Errorf("node %s joins: %s", answer.Node, answer.Refused), "nothing to do: it is asked every few seconds, and joins when the others answer it")
	default:
		next.err = diag.Fail(diag.CodeClusterJoin, fmt.Errorf("node %s has nothing to do with this one: %s", answer.Node, answer.Refused),
			"the block `cluster:` and the secret have to be the same on every node, and each node has to have joined the same cluster")
	}
	switch news := a.news("peer "+p, next.err); {
	case news && diag.CodeOf(next.err) == diag.CodeNotReady:
		a.log.Info("another node is not there yet", keyAddress, p, keyWhat, next.err.Error())
	case news:
		a.log.Warn("another node does not answer as it should", keyAddress, p, keyErr, next.err, keyFix, diag.Hint(next.err))
	}
	if err == nil {
		a.tellClock(p, next)
		a.tellStopped(p, before, next.answer)
	}
	c.mu.Lock()
	c.peers[p] = next
	c.mu.Unlock()
}

// tellClock logs that a clock is too far from this node's.
func (a *Appliance) tellClock(p string, said peer) {
	var apart error
	if said.ahead.Abs()-said.unsure > clockBreaks {
		// Rounded, so that it is news once and not each time.
		apart = fmt.Errorf("node %s: %s", said.answer.Node, clockText(said.ahead.Round(time.Minute)))
	}
	if a.news("clock "+p, apart) {
		a.log.Warn("the clocks of two nodes are apart", keyAddress, p, keyCode, string(diag.CodeClusterClock), keyWhat, apart.Error(), keyFix, clockFix)
	}
}

// tellStopped logs that another node takes nothing from publishers any more, and that it
// does again.
func (a *Appliance) tellStopped(p string, before, now join.Answer) {
	switch {
	case before.Stopped == "" && now.Stopped != "":
		a.log.Warn("another node takes nothing from publishers", keyAddress, p, keyNode, now.Node, keyCode, string(diag.CodeClusterStopped), keyWhat, now.Stopped, keyFix, stoppedFix)
		a.tellStatusLine()
	case before.Stopped != "" && now.Stopped == "":
		a.log.Info("another node takes messages from publishers again", keyAddress, p, keyNode, now.Node)
		a.tellStatusLine()
	}
}
