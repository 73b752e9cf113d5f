// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// atLarge is a publisher that may use any node.
const atLarge = -1

// pause is between two tries of a client.
const pause = 50 * time.Millisecond

// pulse is when publishers that may use any node were acknowledged.
type pulse struct {
	mu   sync.Mutex
	last time.Time
	gap  time.Duration
	n    int
}

// begin forgets what was before.
func (p *pulse) begin(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last, p.gap, p.n = now, 0, 0
}

func (p *pulse) beat(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gap = max(p.gap, now.Sub(p.last))
	p.last = now
	p.n++
}

// longest is the longest time without an acknowledgement, the present one included, and
// how many there were.
func (p *pulse) longest(now time.Time) (time.Duration, int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(p.gap, now.Sub(p.last)), p.n
}

// isolation is which node can't reach the others now.
type isolation struct {
	mu    sync.Mutex
	node  int
	epoch int // changes with every begin and end
	on    bool
	asked int // requests to a node that was cut off all the time
}

func (i *isolation) set(node int, on bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.node, i.on = node, on
	i.epoch++
}

// lasted says that a node was cut off all the time since of said before, and counts it.
func (i *isolation) lasted(node, before int) bool {
	if before == 0 || i.of(node) != before {
		return false
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.asked++
	return true
}

// of is the same for two moments only if the node was cut off all the time between; 0:
// it is not.
func (i *isolation) of(node int) int {
	i.mu.Lock()
	defer i.mu.Unlock()
	if !i.on || i.node != node {
		return 0
	}
	return i.epoch
}

// persistent publishes until each message is acknowledged, however often it has to ask.
type persistent struct {
	*publisher
	node      int // or atLarge
	session   *session
	pulse     *pulse
	isolation *isolation
}

func (p *persistent) run(ctx context.Context) {
	for ctx.Err() == nil {
		m := p.next()
		if !p.pace.wait(ctx, len(m.data)) {
			p.pending = append(p.pending, m)
			return
		}
		for {
			before := p.isolation.of(p.node)
			ack, err := p.publish(ctx, m)
			alone := p.isolation.lasted(p.node, before)
			if err == nil {
				p.book.published(m.id, ack.Sequence, ack.Duplicate)
				if p.node == atLarge {
					p.pulse.beat(time.Now())
				} else if alone {
					p.book.alone(m.id, ack.Sequence, fmt.Sprintf("n%d", p.node+1))
				}
				break
			}
			if !waitFor(ctx, pause) {
				p.pending = append(p.pending, m)
				return
			}
		}
	}
}

func (p *persistent) publish(ctx context.Context, m message) (*jetstream.PubAck, error) {
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	return p.session.js.PublishMsg(ctx, p.wire(m), jetstream.WithRetryAttempts(0))
}

// waitFor is false when ctx ended first.
func waitFor(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// observer reads a node's own copy, again and again, whatever happens to the node.
type observer struct {
	session *session
	book    *ledger
	seed    maphash.Seed
	rng     *rand.Rand
}

func (o *observer) run(ctx context.Context) {
	for waitFor(ctx, 5*pause) {
		top := o.book.highest()
		// Mostly what is new; sometimes what was there long before.
		from := top - min(top, readBatch/2)
		if o.rng.IntN(4) == 0 && top > 0 {
			from = o.rng.Uint64N(top)
		}
		h := holding{messages: map[uint64]stored{}}
		// No answer, or half of one, is what a node without the others may give.
		_, _ = h.readFrom(ctx, o.session, o.book.name, max(from, 1), o.seed, requestLimit)
		for seq, m := range h.messages {
			o.book.observed(seq, m.id, m.sum)
		}
	}
}

// crowd are all clients of the three nodes.
type crowd struct {
	sessions   []*session
	publishers []*persistent
	running    sync.WaitGroup // workers and observers
	stop       context.CancelFunc
	publishing sync.WaitGroup
	hushed     context.CancelFunc // nil while nobody publishes
}

// speak lets the publishers begin, or go on.
func (c *crowd) speak(ctx context.Context) {
	ctx, c.hushed = context.WithCancel(ctx)
	for _, p := range c.publishers {
		c.publishing.Go(func() { p.run(ctx) })
	}
}

// hush waits until they have stopped.
func (c *crowd) hush() {
	if c.hushed != nil {
		c.hushed()
		c.publishing.Wait()
		c.hushed = nil
	}
}

func (c *crowd) leave() {
	c.hush()
	c.stop()
	for _, s := range c.sessions {
		s.nc.Close()
		<-s.closed
	}
	c.running.Wait()
}

// gather connects the clients of a round: publishers that may use any node, some that
// have only one, workers, and an observer of each node.
func (t *trial) gather(ctx context.Context) error {
	rng := rand.New(rand.NewPCG(t.o.seed, uint64(t.round)))
	limits, queue := newLedger(limitsStream, false), newLedger(queueStream, true)
	t.books, t.seed, t.pulses = []*ledger{limits, queue}, maphash.MakeSeed(), map[*ledger]*pulse{limits: {}, queue: {}}
	ctx, stop := context.WithCancel(ctx)
	t.crowd = &crowd{stop: stop}
	open := func(members ...*member) (*session, error) {
		s, err := t.connect(members...)
		if err == nil {
			t.crowd.sessions = append(t.crowd.sessions, s)
		}
		return s, err
	}
	paces := map[*ledger]*pace{limits: t.mode.pace(3<<20, 250), queue: t.mode.pace(1<<20, 80)}
	add := func(name string, node int, s *session, book *ledger, subject string) {
		p := &publisher{name: name, subject: subject + "." + name, window: 1, smooth: true, book: book, pace: paces[book], rng: rand.New(rand.NewPCG(rng.Uint64(), rng.Uint64())), seed: t.seed}
		t.crowd.publishers = append(t.crowd.publishers, &persistent{p, node, s, t.pulses[book], &t.isolation})
	}
	for i := range 3 {
		s, err := open(t.members...)
		if err != nil {
			return err
		}
		for j := range 3 {
			add(fmt.Sprintf("l%d%d", i, j), atLarge, s, limits, "limits")
			add(fmt.Sprintf("q%d%d", i, j), atLarge, s, queue, "queue")
		}
		// One node alone.
		if s, err = open(t.members[i]); err != nil {
			return err
		}
		add(fmt.Sprintf("ln%d", i), i, s, limits, "limits")
		add(fmt.Sprintf("qn%d", i), i, s, queue, "queue")
		t.observers = append(t.observers, s)
		o := &observer{s, limits, t.seed, rand.New(rand.NewPCG(rng.Uint64(), rng.Uint64()))}
		t.crowd.running.Go(func() { o.run(ctx) })
		if s, err = open(t.members...); err != nil {
			return err
		}
		for _, w := range []*worker{
			{limitsStream, limitsDurable, 64, limits, rand.New(rand.NewPCG(rng.Uint64(), rng.Uint64())), t.seed},
			{queueStream, queueDurable, 16, queue, rand.New(rand.NewPCG(rng.Uint64(), rng.Uint64())), t.seed},
		} {
			t.crowd.running.Go(func() {
				for ok := true; ok; ok = waitFor(ctx, pause) {
					w.run(ctx, s)
				}
			})
		}
	}
	var err error
	t.own, err = open(t.members...)
	return err
}

// pace is slow enough for a round that its disks hold, and for workers that keep up;
// weak modes have to lose something by it.
func (m clusterMode) pace(bytes, count float64) *pace {
	if m.weak {
		count *= 4
	}
	return &pace{bytes: bytes, count: count}
}
