// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/holdfast-mq/holdfast/appliance/admin"
	"github.com/holdfast-mq/holdfast/appliance/config"
	"github.com/holdfast-mq/holdfast/appliance/diag"
	"github.com/holdfast-mq/holdfast/appliance/engine"
	"github.com/holdfast-mq/holdfast/bootstrap/identity"
	"github.com/holdfast-mq/holdfast/bootstrap/jetstream"
)

// A single node that has messages and gets the block `cluster:` goes on as a single one
// until the other two nodes, which are empty, are there. Meanwhile a second engine makes
// the cluster know all streams and consumers (engine.Enter says why), and nobody may use
// the others yet. Then the node is opened anew as one of the cluster, in the same process:
// that is the only moment in which clients are away (grow_enter.go). What comes then is in
// grow_spread.go, and docs/adr/0015 says why it is done this way.

const (
	// growTag is what the cluster is to find this node by, while it assigns streams to it.
	growTag = "holdfast:grows"
	// growEvery is between two looks at the others.
	growEvery = time.Second
	// growPause is before another try when one failed after clients were sent away.
	growPause = time.Minute
	// inventoryName is the file that says what was taken into the cluster; it is there
	// until each stream has its copies.
	inventoryName = "inventory.json"
)

// Again is what Run returns when the node is to be opened anew in the same process.
type Again struct {
	since  time.Time // when clients were cut off
	failed error     // why it could not be done, and is tried once more later
}

func (*Again) Error() string { return "the node is opened anew" }

// growth is how a single node becomes one of a cluster.
type growth struct {
	config  *config.Config // with the block cluster
	cluster *cluster
	retry   time.Time // not before

	engine   *engine.Engine
	js       *jetstream.Client
	assigned map[string]jetstream.Assigned // by account/stream: what the cluster knows

	mu     sync.Mutex
	status admin.Growth
}

// beginGrowth makes the node a single one for now.
func (a *Appliance) beginGrowth(c *cluster) {
	g := &growth{config: a.opts.Config, cluster: c, assigned: map[string]jetstream.Assigned{}}
	g.status.Step = admin.GrowWaits
	if again := a.opts.Again; again != nil && again.failed != nil {
		g.retry = time.Now().Add(growPause)
		g.status.Problem, g.status.Fix = again.failed.Error(), diag.Hint(again.failed)
	}
	single := *a.opts.Config
	single.Cluster = nil
	a.opts.Config = &single
	a.current.Store(a.opts.Config)
	a.growth = g
}

// wholeConfig is the configuration with the block cluster, of a node that grows, too.
func (a *Appliance) wholeConfig() *config.Config {
	if a.growth != nil {
		return a.asRead.Load()
	}
	return a.config()
}

func (g *growth) say(f func(*admin.Growth)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	f(&g.status)
}

// tendGrowth prepares the cluster until it knows everything, and says so on again.
func (a *Appliance) tendGrowth(ctx context.Context, again chan<- struct{}) {
	g := a.growth
	a.log.Info("this node brings its messages into the cluster, and goes on as a single one until the others are there", keyWhat, g.cluster.config.Name)
	var asking sync.WaitGroup
	defer asking.Wait()
	asking.Go(func() { a.tendPeers(ctx, g.cluster) })
	asking.Go(func() { a.tendRoutes(ctx, g.cluster) })
	if wait := time.Until(g.retry); wait > 0 {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
	for {
		err := a.prepareGrowth(ctx)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			break
		}
		g.say(func(s *admin.Growth) { s.Problem, s.Fix = err.Error(), diag.Hint(err) })
		if a.news("growth", err) {
			a.log.Warn("the messages of this node are not in the cluster yet", keyErr, err, keyFix, diag.Hint(err))
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(growEvery):
		}
	}
	g.say(func(s *admin.Growth) { s.Step, s.Problem, s.Fix = admin.GrowEnters, "", "" })
	a.log.Warn("the cluster knows all streams: clients are cut off for a moment, and find this node as one of the cluster", keyCount, len(g.assigned))
	signalOnce(again)
}

// prepareGrowth does what is possible now, and says what it waits for.
func (a *Appliance) prepareGrowth(ctx context.Context) error {
	g := a.growth
	streams, err := a.inventory()
	if err != nil {
		return err
	}
	if err := a.othersWait(streams); err != nil {
		return err
	}
	g.say(func(s *admin.Growth) { s.Step, s.Problem, s.Fix = admin.GrowAssigns, "", "" })
	if err := a.startGrowth(ctx); err != nil {
		return err
	}
	if err := g.engine.JetStreamReady(); err != nil {
		return err
	}
	if err := a.assign(ctx, streams); err != nil {
		return err
	}
	return a.handOver(ctx)
}

// handOver has another node lead: an election while this one opens anew would keep
// clients waiting.
func (a *Appliance) handOver(ctx context.Context) error {
	g := a.growth
	if !g.engine.Leads() {
		return nil
	}
	if err := g.js.StepDownMeta(ctx, identity.SystemName); err != nil {
		return err
	}
	if s, err := g.engine.Cluster(); err != nil || s.Leader == "" || s.Leader == a.dir.NodeName() {
		return errors.New("waiting for another node to lead")
	}
	return nil
}

// othersWait reports whether the other nodes are there, empty, and have room.
func (a *Appliance) othersWait(streams []engine.Inventory) error {
	g := a.growth
	var bytes uint64
	for _, s := range streams {
		bytes += uint64(s.Bytes)
	}
	brought := newGrowthSums(streams)
	g.say(func(s *admin.Growth) {
		brought.tell(s)
		s.Current = "" // the problem says which node is waited for
	})
	c := g.cluster
	c.mu.Lock()
	defer c.mu.Unlock()
	var missing []string
	for i, p := range c.config.Peers {
		if i == c.self {
			continue
		}
		said := c.peers[p]
		switch {
		case said.err != nil:
			missing = append(missing, fmt.Sprintf("%s: %v", p, said.err))
		case said.asked.IsZero():
			missing = append(missing, p+": not heard of yet")
		case said.answer.Grows != a.dir.NodeName():
			return diag.Fail(diag.CodeClusterGrow, fmt.Errorf("node %s is one of a cluster that is in use, and the store of this node is that of a single one", said.answer.Node),
				"when the cluster has the messages already, start this node with an empty data directory, and keep this one; else empty the data directories of the other two")
		case said.answer.Free < bytes:
			return diag.Fail(diag.CodeClusterGrow, fmt.Errorf("node %s has %s free, and this node has %s of messages", said.answer.Node, humanize.IBytes(said.answer.Free), humanize.IBytes(bytes)),
				"give it a larger volume, or remove messages that nobody needs")
		}
	}
	if len(missing) > 0 {
		return diag.Fail(diag.CodeClusterPeer, fmt.Errorf("waiting for the other nodes: %s", strings.Join(missing, "; ")), "start them with the same block `cluster:`, and nothing of their own")
	}
	return nil
}
