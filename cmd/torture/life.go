// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// cutStart cuts somewhere in a start: of a new node, or in its recovery.
func (c *campaign) cutStart(ctx context.Context, rng *rand.Rand, cut int) ([]finding, error) {
	if err := c.start(); err != nil {
		return nil, err
	}
	end, cancel := context.WithTimeout(ctx, time.Duration(rng.Float64()*1.2*float64(max(c.typical, quickStart))))
	defer cancel()
	err := c.process.Await(end, readyLimit, askEvery, func(ctx context.Context) error {
		if err := c.node.ready(ctx); err != nil {
			return err
		}
		// A node that was ready once has shown who it is.
		who, err := c.node.who(ctx)
		if err == nil && c.who == "" {
			c.who = who
		}
		return err
	})
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	var found []finding
	select {
	case <-c.process.Ended:
		found = []finding{{kind: unstarted, what: err.Error()}}
	default: // ready or not: nobody asked it to be within this time
	}
	_, err = c.cutPower(ctx, cut)
	return found, err
}

// cutLoad cuts while clients publish, consume and acknowledge.
func (c *campaign) cutLoad(ctx context.Context, rng *rand.Rand, cut int) ([]finding, error) {
	if c.process == nil {
		if found, err := c.judge(ctx); err != nil || len(found) > 0 {
			return nil, errors.Join(err, fmt.Errorf("start on an empty disk: %v", found))
		}
	}
	before := c.acked()
	work, stop := context.WithCancel(ctx)
	defer stop()
	for _, p := range c.pubs {
		c.crew.add(work, c.session, p.run)
	}
	timer := time.NewTimer(time.Second + time.Duration(rng.Int64N(int64(time.Second))))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-c.process.Ended:
		return nil, fmt.Errorf("load the node: it ended: %w\n%s", c.process.Status, c.process.LastWords())
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	found, err := c.cutPower(ctx, cut)
	if err == nil && c.acked() == before {
		err = errors.New("load the node: nothing was acknowledged")
	}
	return found, err
}

// judge starts the node, reads everything back before anything else happens,
// and lets the workers take what they are owed. The node runs on afterwards,
// unless it can't.
func (c *campaign) judge(ctx context.Context) ([]finding, error) {
	if err := c.start(); err != nil {
		return nil, err
	}
	begun := time.Now()
	if err := c.process.Await(ctx, readyLimit, askEvery, c.node.ready); err != nil {
		return []finding{{kind: unstarted, what: err.Error()}}, ctx.Err()
	}
	c.typical = time.Since(begun)
	var found []finding
	who, err := c.node.who(ctx)
	if err != nil {
		return nil, err
	}
	if c.who != "" && who != c.who {
		found = append(found, finding{kind: identity, what: "name or credentials are not those of before the cut"})
	}
	c.who = who
	s, err := connect(c.node)
	if err != nil {
		return append(found, finding{kind: identity, what: err.Error()}), ctx.Err()
	}
	c.session, c.crew = s, &crew{}
	work, stop := context.WithCancel(ctx)
	c.crew.stop = stop
	seen, err := c.judgeTopology(ctx)
	if found = append(found, seen...); err != nil || len(seen) > 0 && !c.node.declares() {
		// Nothing to read: what was acknowledged is gone with its stream.
		return append(found, c.judgeNothing(seen)...), err
	}
	return c.judgeBooks(ctx, work, found)
}

// judgeBooks compares streams, then deliveries, with the books.
func (c *campaign) judgeBooks(ctx, work context.Context, found []finding) ([]finding, error) {
	held := make([]holding, len(c.books))
	for i, b := range c.books {
		h, err := readBack(ctx, c.session, b.name, c.seed)
		if err != nil {
			return found, err
		}
		found = append(found, b.judgeStored(h)...)
		b.batched(h.batched...)
		c.undone += b.undone(h)
		b.restarted(h.last)
		held[i] = h
	}
	c.held = held[0].bytes
	for _, w := range c.workers {
		c.crew.add(work, c.session, w.run)
	}
	stuck, err := c.drain(ctx, held)
	return append(found, stuck...), err
}

// judgeTopology: streams and consumers are there and are the same ones.
func (c *campaign) judgeTopology(ctx context.Context) ([]finding, error) {
	fresh := c.made == nil
	if fresh {
		if err := c.node.fill(ctx, c.session.js); err != nil {
			return nil, err
		}
	}
	made, err := topology(ctx, c.session)
	if err != nil {
		return nil, err
	}
	var found []finding
	for _, name := range []string{limitsStream, limitsStream + "/" + limitsDurable, queueStream, queueStream + "/" + queueDurable} {
		now, ok := made[name]
		switch {
		case !ok:
			found = append(found, finding{kind: recreated, stream: name, what: "is gone"})
		case !fresh && !now.Equal(c.made[name]):
			found = append(found, finding{kind: recreated, stream: name, what: "was made anew after the cut"})
		}
	}
	c.made = made
	return found, nil
}

// judgeNothing is the judgement over streams that are gone.
func (c *campaign) judgeNothing(gone []finding) []finding {
	var found []finding
	for _, g := range gone {
		for _, b := range c.books {
			if b.name == g.stream {
				found = append(found, b.judgeStored(holding{})...)
			}
		}
	}
	return found
}

// drain waits until the workers were given all that they have to be given.
func (c *campaign) drain(ctx context.Context, held []holding) ([]finding, error) {
	deadline := time.NewTimer(drainLimit)
	defer deadline.Stop()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		var stuck []finding
		for i, b := range c.books {
			stuck = append(stuck, b.undelivered(held[i])...)
		}
		if len(stuck) == 0 {
			return nil, nil
		}
		select {
		case <-deadline.C:
			return stuck, nil
		case <-c.process.Ended:
			return append(stuck, finding{kind: unstarted, what: "ended after it was ready: " + c.process.LastWords()}), nil
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-tick.C:
		}
	}
}
