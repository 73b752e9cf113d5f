// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"hash/maphash"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/holdfast-mq/holdfast/cmd/internal/child"
	"github.com/holdfast-mq/holdfast/cmd/internal/loopdisk"
)

const (
	// enough is how much LIMITS may hold before the next cut begins with an empty disk.
	enough = 24 << 20
	// quickStart is a start on a fast machine, until one was measured.
	quickStart = 200 * time.Millisecond
	// drainLimit is when a message counts as one that is not delivered again.
	drainLimit = 30 * time.Second
	// memoryDir is where a node stages batches: what is there is gone with the power. The
	// one of this mount namespace is nobody else's.
	memoryDir = "/dev/shm"
	// noticeLimit is how long a client may take to see that its node is gone.
	noticeLimit = 5 * time.Second
)

// phase is what a cut interrupts.
type phase string

const (
	firstStart phase = "first start" // identity and topology are being made
	load       phase = "load"
	secondCut  phase = "restart" // load, a cut, and another one during recovery
)

// campaign is all cuts of one mode on one file system.
type campaign struct {
	*tally
	o   options
	dir string
	out io.Writer

	// The present life: from an empty file system to the next one.
	lives   int
	typical time.Duration // of a start until ready
	disk    *loopdisk.Disk
	power   *loopdisk.PowerSwitch
	node    node
	log     string
	process *child.Process
	session *session
	crew    *crew
	books   []*ledger
	pubs    []*publisher
	workers []*worker
	seed    maphash.Seed
	who     string
	made    map[string]time.Time
	held    int64
}

// random is the same for the same seed and cut, and no other.
func (c *campaign) random(cut int) *rand.Rand {
	h := fnv.New64a()
	fmt.Fprint(h, c.mode.name, c.fs, cut)
	return rand.New(rand.NewPCG(c.o.seed, h.Sum64()))
}

// run makes all cuts. What it returns is the harness's own trouble; what a
// node did wrong is in the tally.
func (c *campaign) run(ctx context.Context, cuts int) (err error) {
	defer func() { err = errors.Join(err, c.discard(ctx)) }()
	for cut := 1; cut <= cuts; cut++ {
		begun := time.Now()
		before := c.acked()
		ph, found, err := c.one(ctx, cut)
		if err != nil {
			return fmt.Errorf("%s on %s, cut %d: %w", c.mode.name, c.fs, cut, err)
		}
		c.add(found)
		c.done++
		c.progress(c.out, line{cut: cut, of: cuts, seed: c.o.seed, phase: ph, acked: c.acked() - before, held: c.held, found: found, took: time.Since(begun)})
		if err := c.reset(ctx, cut, found); err != nil {
			return err
		}
	}
	return nil
}

// reset begins a new life when this one has nothing more to say.
func (c *campaign) reset(ctx context.Context, cut int, found []finding) error {
	if c.o.keep {
		if err := c.keepOrRemove(cut, found); err != nil {
			return err
		}
	}
	if len(found) == 0 && c.held < enough {
		return nil
	}
	return c.discard(ctx)
}

// keepOrRemove deals with the image of a cut, which had to be copied before
// anybody knew what is wrong with it.
func (c *campaign) keepOrRemove(cut int, found []finding) error {
	image := c.keptImage(cut)
	if !slices.ContainsFunc(found, func(f finding) bool { return !c.mode.forgives(f.kind) }) {
		if err := os.Remove(image); err != nil {
			return fmt.Errorf("remove image: %w", err)
		}
		return nil
	}
	if err := os.Rename(c.log, image+".log"); err != nil {
		return fmt.Errorf("keep log: %w", err)
	}
	fmt.Fprintf(c.out, "  kept: %s and the node's log beside it\n", image)
	return nil
}

func (c *campaign) keptImage(cut int) string {
	return filepath.Join(c.o.dir, fmt.Sprintf("kept-%s-%s-seed%d-cut%d.img", c.mode.name, c.fs, c.o.seed, cut))
}

// one makes one cut and judges what is left.
func (c *campaign) one(ctx context.Context, cut int) (ph phase, found []finding, err error) {
	rng := c.random(cut)
	ph = load
	if c.disk == nil {
		if err := c.begin(ctx, rng); err != nil {
			return ph, nil, err
		}
		// Weak modes begin anew after every loss: not each time with a first start.
		if c.node.declares() && (!c.mode.weak || c.lives%3 == 1) {
			ph = firstStart
		}
	} else if rng.IntN(5) == 0 {
		ph = secondCut
	}
	if ph == firstStart {
		found, err = c.cutStart(ctx, rng, cut)
	} else {
		found, err = c.cutLoad(ctx, rng, cut)
	}
	if err == nil && ph == secondCut {
		var more []finding
		more, err = c.cutStart(ctx, rng, cut)
		found = append(found, more...)
	}
	if err != nil {
		return ph, nil, err
	}
	after, err := c.judge(ctx)
	return ph, append(found, after...), err
}

// begin is an empty disk and empty books.
func (c *campaign) begin(ctx context.Context, rng *rand.Rand) error {
	c.lives++
	c.who, c.made, c.held, c.seed = "", nil, 0, maphash.MakeSeed()
	limits, queue := newLedger(limitsStream, false), newLedger(queueStream, true)
	c.books = []*ledger{limits, queue}
	c.pubs, c.workers = publishers(limits, queue, c.seed, rng), workers(limits, queue, c.seed, rng)
	d, err := loopdisk.New(ctx, c.dir, c.fs, c.o.size<<20)
	if err != nil {
		return err
	}
	if err := d.Mount(ctx); err != nil {
		return err
	}
	c.disk, c.log = d, filepath.Join(c.dir, fmt.Sprintf("%s-%s-%d.log", c.mode.name, c.fs, c.lives))
	c.node, err = c.mode.make(c.o.holdfast, c.dir, filepath.Join(d.At, "data"), c.o.size<<20/2)
	return err
}

// start starts the node and returns at once.
func (c *campaign) start() (err error) {
	if c.power, err = c.disk.PowerSwitch(); err != nil {
		return err
	}
	c.process, err = start(c.node, c.log)
	return err
}

// cutPower ends the node and its disk together, brings the disk back, and
// returns what the clients had to say up to then.
func (c *campaign) cutPower(ctx context.Context, cut int) ([]finding, error) {
	c.process.Kill()
	err := c.power.Cut()
	c.power = nil
	found := c.dismiss()
	<-c.process.Ended
	c.process = nil
	if err := errors.Join(err, c.disk.Unmount(ctx), loopdisk.ForgetMemory(ctx, memoryDir)); err != nil {
		return found, err
	}
	c.cuts++
	if c.o.keep {
		if err := c.disk.Keep(ctx, c.keptImage(cut)); err != nil {
			return found, err
		}
	}
	return found, c.disk.Mount(ctx)
}

// dismiss ends the clients of a node that is gone and judges what they saw.
func (c *campaign) dismiss() []finding {
	if c.session == nil {
		return nil
	}
	// First what the node had sent: an acknowledgement on its way counts.
	select {
	case <-c.session.closed:
	case <-time.After(noticeLimit):
	}
	c.crew.dismiss(c.session)
	c.session = nil
	var found []finding
	for _, b := range c.books {
		found = append(found, b.judgeOrder()...)
		_, _, again := b.counts()
		c.again += again
	}
	return found
}

// discard ends this life.
func (c *campaign) discard(ctx context.Context) error {
	var err error
	if c.process != nil {
		c.process.Kill()
		c.add(c.dismiss())
		<-c.process.Ended
		c.process = nil
	}
	if c.power != nil {
		err = c.power.Close()
		c.power = nil
	}
	if c.disk != nil {
		for _, b := range c.books {
			_, confirmed, _ := b.counts()
			c.confirmed += confirmed
			c.grouped += b.grouped()
		}
		c.tally.acked += c.acked()
		c.books = nil
		err = errors.Join(err, c.disk.Unmount(ctx), os.Remove(c.disk.Image))
		c.disk = nil
	}
	return err
}

// acked is how many PubAcks there were in this life.
func (c *campaign) acked() int {
	n := 0
	for _, b := range c.books {
		acked, _, _ := b.counts()
		n += acked
	}
	return n
}
