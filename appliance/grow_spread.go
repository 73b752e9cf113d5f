// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-mq/holdfast/appliance/admin"
	"github.com/holdfast-mq/holdfast/appliance/datadir"
	"github.com/holdfast-mq/holdfast/appliance/diag"
	"github.com/holdfast-mq/holdfast/appliance/engine"
	"github.com/holdfast-mq/holdfast/bootstrap/jetstream"
)

const (
	// spreadEvery is how often the copies are looked at.
	spreadEvery = time.Second
	// unknownLimit is how long a cluster with a leader may not know a stream that was
	// taken into it; less than the 30 s after which the server removes what it was not
	// assigned (jetstream_cluster.go of nats-server 2.15.3).
	unknownLimit = 10 * time.Second
	// openLimit is how long a node waits for one that is to open for clients before it.
	openLimit = time.Minute
	// admitLimit is how long clients are kept out when a stream does not come back.
	admitLimit = time.Minute
)

// spreading is what is left to do when the messages of a single node are in the cluster,
// with one copy each.
type spreading struct {
	streams []engine.Inventory
	sums    *growthSums
	told    time.Time   // when the log last heard how far it is
	placed  atomic.Bool // streams may be changed by the file
	open    atomic.Bool // the other nodes may open for clients

	mu     sync.Mutex
	status admin.Growth
}

func writeInventory(path string, streams []engine.Inventory) error {
	text, err := json.Marshal(streams)
	if err != nil {
		return fmt.Errorf("note what is taken into the cluster: %w", err)
	}
	return datadir.WriteFile(path, text, 0o600)
}

// resumeSpreading finds out whether this node has brought its messages into the cluster,
// and is not done with it.
func (a *Appliance) resumeSpreading() error {
	streams, err := readInventory(a.inventoryFile())
	if err != nil || streams == nil {
		return errors.Join(err, a.forgetGrowth())
	}
	a.spread = &spreading{streams: streams, sums: newGrowthSums(streams)}
	a.spread.status.Step = admin.GrowSettles
	a.spread.sums.tell(&a.spread.status)
	a.spread.status.Current = "" // nothing is copied yet
	return nil
}

// forgetGrowth removes what was needed only on the way.
func (a *Appliance) forgetGrowth() error {
	dir := a.dir.GrowingDir()
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	// The inventory goes last: without it nobody comes back to the rest.
	if err := os.RemoveAll(a.dir.KeptDir()); err != nil {
		return err
	}
	return os.RemoveAll(dir)
}

func (s *spreading) say(f func(*admin.Growth)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.status)
}

// tendSpread makes the copies. led has the file of this node applied.
func (a *Appliance) tendSpread(ctx context.Context, led chan<- struct{}) {
	s := a.spread
	steps := []func(context.Context) error{
		a.spreadKnown,
		a.spreadPlaced,
		func(context.Context) error {
			s.placed.Store(true)
			signalOnce(led)
			return a.spreadApplied()
		},
		a.spreadCopied,
		func(context.Context) error { s.open.Store(true); return nil },
		a.spreadOpen,
	}
	for i, step := range steps {
		for {
			err := step(ctx)
			if ctx.Err() != nil {
				return
			}
			if err == nil {
				break
			}
			s.say(func(g *admin.Growth) {
				if g.Problem, g.Fix = "", ""; !errors.Is(err, errCopying) {
					g.Problem, g.Fix = err.Error(), diag.Hint(err)
				}
			})
			if errors.Is(err, errCopying) {
				a.tellSpread()
			} else if a.news("spread", err) {
				a.log.Info("the cluster does not have its copies yet", keyWhat, err.Error())
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(spreadEvery):
			}
		}
		s.say(func(g *admin.Growth) { g.Problem, g.Fix = "", "" })
		a.step(fmt.Sprint("spread: ", i))
	}
	if err := a.forgetGrowth(); err != nil {
		a.log.Warn("what was kept while the cluster took the messages in is not removed", keyErr, err, keyWhere, a.dir.KeptDir())
	}
	a.step("spread: forgotten")
	s.say(func(g *admin.Growth) { g.Step = "" })
	a.log.Info("every stream has its copies: the cluster has grown", keyCount, len(s.sums.streams))
}

// admit lets clients in when the server has all streams and consumers that it was
// assigned, and after admitLimit in any case.
func (a *Appliance) admit(ctx context.Context) error {
	limit := time.NewTimer(admitLimit)
	defer limit.Stop()
	tick := time.NewTicker(spreadEvery / 20)
	defer tick.Stop()
	for {
		err := a.engine.Whole()
		if err == nil || ctx.Err() != nil {
			return a.engine.Admit()
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		case <-limit.C:
			a.log.Warn("clients are let in before all streams are there", keyErr, err)
			return a.engine.Admit()
		}
	}
}

// spreadKnown finds every stream and consumer in its place. One that the cluster does not
// know would be removed by the server, so the node ends before that.
func (a *Appliance) spreadKnown(ctx context.Context) error {
	if a.leader() == "" {
		return errNoLeader
	}
	begun := time.Now()
	for _, s := range a.spread.streams {
		for {
			err := a.js.Serves(ctx, assignedOf(s))
			if err == nil {
				break
			}
			if ctx.Err() != nil || time.Since(begun) > unknownLimit && !errors.Is(err, jetstream.ErrNotAssigned) {
				return err
			}
			if time.Since(begun) <= unknownLimit {
				select {
				case <-ctx.Done():
				case <-time.After(spreadEvery / 10):
				}
				continue
			}
			fault := diag.FailPermanently(diag.CodeClusterGrow, fmt.Errorf("the cluster does not know what this node brought: %w", err),
				"the messages are in "+a.dir.KeptDir()+": keep it, and report this")
			a.broken <- fault
			return fault
		}
	}
	return nil
}

// spreadPlaced lets the cluster have copies elsewhere.
func (a *Appliance) spreadPlaced(ctx context.Context) error {
	for _, s := range a.spread.streams {
		if err := a.js.Place(ctx, assignedOf(s), 0); err != nil {
			return err
		}
	}
	return a.identity.Push() // what was changed before this node was one of several
}

func (a *Appliance) spreadApplied() error {
	if a.converged() {
		return nil
	}
	return errors.New("waiting for the file to be applied")
}

// spreadOpen waits for the other nodes, which open anew for clients. Before that clients
// come over this node alone, as they did: it keeps them out while it starts (see admit).
func (a *Appliance) spreadOpen(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, openLimit)
	defer cancel()
	for ctx.Err() == nil {
		closed := a.othersClosed()
		if len(closed) == 0 {
			break
		}
		a.spread.say(func(g *admin.Growth) { g.Step, g.Current = admin.GrowOpens, strings.Join(closed, ", ") })
		select {
		case <-ctx.Done():
		case <-time.After(spreadEvery):
		}
	}
	return nil
}

// othersClosed are the other nodes that are not open for clients.
func (a *Appliance) othersClosed() []string {
	c := a.cluster
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []string
	for i, p := range c.config.Peers {
		if said := c.peers[p]; i != c.self && (said.err != nil || said.asked.IsZero() || said.answer.Grows != "") {
			out = append(out, cmp.Or(said.answer.Node, p))
		}
	}
	return out
}

// spreadCopied asks for the copies, and waits until each is there.
func (a *Appliance) spreadCopied(ctx context.Context) error {
	s := a.spread
	s.sums.stored(a.leastStored())
	var errs []error
	done := 0
	for _, st := range s.streams {
		if err := a.js.Place(ctx, assignedOf(st), a.copiesOf(st)); err != nil {
			errs = append(errs, err)
			continue
		}
		lacks, err := a.js.Lacks(ctx, assignedOf(st), a.copiesOf(st))
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if s.sums.copied(st, lacks); len(lacks) == 0 {
			done++
		}
	}
	s.say(func(g *admin.Growth) {
		s.sums.tell(g)
		g.Step = s.sums.step()
	})
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if done < len(s.streams) {
		return errCopying
	}
	return nil
}

// tellSpread tells the log how far the copies are, when that is news.
func (a *Appliance) tellSpread() {
	s := a.spread
	if time.Since(s.told) < progressEvery {
		return
	}
	line := s.sums.line()
	if !a.news("spread", errors.New(line)) {
		return
	}
	s.told = time.Now()
	a.log.Info("the other nodes get their copies", keyWhat, line)
}

// leastStored is how many bytes of messages the other node has that has the fewest.
func (a *Appliance) leastStored() int64 {
	c := a.cluster
	c.mu.Lock()
	defer c.mu.Unlock()
	least := int64(math.MaxInt64)
	for i, p := range c.config.Peers {
		if i != c.self {
			least = min(least, c.peers[p].answer.Stored)
		}
	}
	return least
}

// errCopying is no fault.
var errCopying = errors.New("copying messages to the other nodes")

// copiesOf is how many copies a stream is to have: one on each node, unless the file says
// something else. On a single node it had no choice.
func (a *Appliance) copiesOf(s engine.Inventory) int {
	if n := a.config().Accounts[s.Account].Streams[s.Stream].NumReplicas; n != nil && *n > 0 {
		return int(*n)
	}
	return a.nodes()
}
