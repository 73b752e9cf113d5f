// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/holdfast-mq/holdfast/appliance/admin"
	"github.com/holdfast-mq/holdfast/appliance/diag"
	"github.com/holdfast-mq/holdfast/appliance/engine"
)

// A node that joined while another one brings its messages is one of the cluster for the
// servers, and nobody else's: its client port is closed and it changes nothing, until a
// node says that the messages are there.

// openHeld finds out whether this node waits for another's messages.
func (a *Appliance) openHeld() error {
	text, err := os.ReadFile(a.dir.GrowsFile())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("find out whether another node brings its messages: %w", err)
	}
	a.held = string(text)
	return nil
}

// tendHeld waits until the messages are there.
func (a *Appliance) tendHeld(ctx context.Context, again chan<- struct{}) {
	a.log.Info("another node brings its messages into the cluster: clients are not let in before", keyNode, a.held)
	var since time.Time
	every(ctx, growEvery, func() {
		if !a.othersGrown() {
			return
		}
		if since.IsZero() {
			since = time.Now()
		}
		if a.another() && time.Since(since) < openLimit/2 {
			return
		}
		if err := os.Remove(a.dir.GrowsFile()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			a.log.Warn("not opened for clients", keyErr, err)
			return
		}
		signalOnce(again)
	})
}

// othersGrown reports whether some node of the cluster says that nothing is missing.
func (a *Appliance) othersGrown() bool {
	c := a.cluster
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, said := range c.peers {
		if said.err == nil && !said.asked.IsZero() && said.answer.Refused == "" && said.answer.Grows == "" {
			return true
		}
	}
	return false
}

// another reports whether a node that comes before this one in the file is to open first:
// two at once would leave the cluster without a quorum.
func (a *Appliance) another() bool {
	c := a.cluster
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.config.Peers[:max(c.self, 0)] {
		if said := c.peers[p]; said.err != nil || said.answer.Grows != "" {
			return true
		}
	}
	return false
}

// heldBack says why nothing may be changed on this node now; nil when it may.
func (a *Appliance) heldBack() error {
	switch {
	case a.held != "":
		return diag.Fail(diag.CodeNotReady, fmt.Errorf("node %s brings its messages into the cluster, and this one waits", a.held), "`holdfast cluster status` there shows how far it is")
	case a.spread != nil && !a.spread.placed.Load():
		return diag.Fail(diag.CodeNotReady, errors.New("the cluster takes over the messages of this node"), "`holdfast cluster status` shows how far it is")
	}
	return nil
}

// clusterState is what the server that is one of the cluster knows.
func (a *Appliance) clusterState() (engine.ClusterState, error) {
	if g := a.growth; g != nil {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.engine == nil {
			return engine.ClusterState{}, nil
		}
		return g.engine.Cluster()
	}
	return a.engine.Cluster()
}

// growthStatus is how far the messages of a single node are on their way into the
// cluster; nil when there is no such node.
func (a *Appliance) growthStatus() *admin.Growth {
	var out admin.Growth
	switch {
	case a.growth != nil:
		a.growth.say(func(s *admin.Growth) { out = *s })
	case a.spread != nil:
		a.spread.say(func(s *admin.Growth) { out = *s })
	case a.held != "":
		return &admin.Growth{Step: admin.GrowHeld, Node: a.held}
	}
	if out.Step == "" {
		return a.othersCopy()
	}
	out.Node = a.dir.NodeName()
	return &out
}

// othersCopy is how far another node is that brought its messages; nil when there is none.
func (a *Appliance) othersCopy() *admin.Growth {
	c := a.cluster
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, said := range c.peers {
		if g := said.answer.Copies; g != nil && said.err == nil {
			return &admin.Growth{
				Step: admin.GrowStep(g.Step), Node: said.answer.Node, Streams: g.Streams, StreamsDone: g.StreamsDone,
				Consumers: g.Consumers, ConsumersDone: g.ConsumersDone, Bytes: g.Bytes, BytesDone: g.BytesDone, Current: g.Current,
			}
		}
	}
	return nil
}

// grows is the node whose messages are not in the cluster yet; "" when there is none.
func (a *Appliance) grows() string {
	switch {
	case a.growth != nil, a.spread != nil && !a.spread.open.Load():
		return a.dir.NodeName()
	}
	return a.held
}
