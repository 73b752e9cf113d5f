// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/holdfast-mq/holdfast/cmd/internal/netlab"
	"github.com/holdfast-mq/holdfast/cmd/internal/trio"
)

const (
	// warm is how many acknowledgements there are before a fault, and again how many show
	// that publishers go on: more than could have been on their way.
	warm, again = 200, 40
	// availableLimit is when publishers must be acknowledged again, with most nodes up.
	availableLimit = 30 * time.Second
	// wholeLimit is when every node must have everything again.
	wholeLimit = 90 * time.Second
	// patience is for what has no limit of its own: the harness would hang on it.
	patience = 3 * time.Minute
)

// trial is three fresh nodes that go through all faults once.
type trial struct {
	*score
	o     clusterOptions
	hosts []*netlab.Host
	dir   string
	fs    string
	round int
	out   io.Writer

	members   []*member
	access    *trio.Access
	books     []*ledger
	seed      mapSeed
	crowd     *crowd
	observers []*session // of one node each
	own       *session   // asks for what clients don't
	pulses    map[*ledger]*pulse
	isolation isolation
}

// run makes one round. What it returns is the harness's own trouble; what the nodes did
// wrong is in the score.
func (t *trial) run(ctx context.Context) (err error) {
	defer func() {
		if t.crowd != nil {
			t.crowd.leave()
		}
		err = errors.Join(err, t.close(ctx))
	}()
	if err := t.newMembers(ctx); err != nil {
		return err
	}
	todo := t.faults()
	found, err := t.form(ctx, todo)
	if err != nil || t.spoiled(found) {
		return err
	}
	t.crowd.speak(ctx)
	for _, f := range todo {
		if f.strike == nil {
			continue
		}
		found, err := t.endure(ctx, f)
		if err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
		if t.spoiled(found) {
			return nil
		}
	}
	begun := time.Now()
	found, err = t.conclude(ctx)
	t.note(t, passage{fault: "end", found: found, took: time.Since(begun)})
	return err
}

// spoiled says that this round has nothing more to say.
func (t *trial) spoiled(found []finding) bool { return len(found) > 0 }

// form starts all three for the first time, one of them deaf to the others if that is
// among the faults.
func (t *trial) form(ctx context.Context, todo []fault) ([]finding, error) {
	p := passage{fault: "form"}
	begun := time.Now()
	deaf := -1
	for _, f := range todo {
		if f.strike == nil {
			p.fault, deaf = f.name, t.round%3
			if err := t.members[deaf].host.Deafen(ctx, routePort, routePort+1); err != nil {
				return nil, err
			}
		}
	}
	for _, m := range t.members {
		if err := m.start(); err != nil {
			return nil, err
		}
	}
	if deaf >= 0 {
		p.found = t.waits(ctx, deaf)
		if err := t.members[deaf].host.Heal(ctx); err != nil {
			return nil, err
		}
	}
	begun = t.since(begun, &p)
	if err := t.until(ctx, patience, t.allReady); err != nil {
		p.found = append(p.found, finding{kind: unstarted, what: err.Error()})
		t.note(t, p)
		return p.found, ctx.Err()
	}
	err := t.login()
	if err == nil {
		err = t.gather(ctx)
	}
	if err == nil && t.mode.stock() {
		err = t.until(ctx, patience, func(ctx context.Context) error { return fillStock(ctx, t.own.js, 3) })
	}
	if err == nil {
		err = t.until(ctx, patience, t.whole)
	}
	p.whole = time.Since(begun)
	t.note(t, p)
	return p.found, err
}

// since ends the first part of a passage.
func (t *trial) since(begun time.Time, p *passage) time.Time {
	p.took = time.Since(begun)
	return time.Now()
}

// waits: a node that nobody can tell anything must not go its own way, and neither must
// the two others, which are not all.
func (t *trial) waits(ctx context.Context, deaf int) []finding {
	const watched = 6 * time.Second
	end, cancel := context.WithTimeout(ctx, watched)
	defer cancel()
	var found []finding
	for waitFor(end, 10*pause) {
		for i, m := range t.members {
			if m.ready(end) == nil {
				found = append(found, finding{kind: minority, what: fmt.Sprintf("%s is ready while %s hears nobody", m.Name, t.members[deaf].Name)})
				return found
			}
			select {
			case <-m.process.Ended:
				return append(found, finding{kind: unstarted, what: fmt.Sprintf("n%d ended while n%d heard nobody: %s", i+1, deaf+1, m.process.LastWords())})
			default:
			}
		}
	}
	return found
}

func (t *trial) allReady(ctx context.Context) error {
	for _, m := range t.members {
		if err := m.ready(ctx); err != nil {
			return err
		}
	}
	return nil
}

// until asks again and again, for a limited time.
func (t *trial) until(ctx context.Context, limit time.Duration, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		err := ask(ctx)
		if err == nil {
			return nil
		}
		if !waitFor(ctx, 2*pause) {
			return fmt.Errorf("%w after %s: %w", ctx.Err(), limit, err)
		}
	}
}

// endure goes through one fault, from nodes that are whole to nodes that are whole.
func (t *trial) endure(ctx context.Context, f fault) ([]finding, error) {
	p := passage{fault: f.name}
	begun := time.Now()
	if err := t.acknowledged(ctx, warm, patience); err != nil {
		p.found = []finding{{kind: unavailable, what: err.Error()}}
		t.note(t, p)
		return p.found, ctx.Err()
	}
	t.beginPulses()
	heal, err := f.strike(ctx, t)
	if err != nil {
		return nil, err
	}
	if f.majority {
		// What is acknowledged now is by those that are left. A connection that is cut is not
		// noticed at once: more than what was on its way.
		if err := t.acknowledged(ctx, again, availableLimit); err != nil {
			p.found = append(p.found, t.unavailable("while most nodes were up", err))
		}
		waitFor(ctx, 2*time.Second)
		p.out = t.longest()
	}
	t.isolation.set(0, false)
	if err := heal(ctx); err != nil {
		return nil, err
	}
	healed := time.Now()
	if err := t.acknowledged(ctx, again, availableLimit); err != nil {
		p.found = append(p.found, t.unavailable("with all nodes back", err))
		// How long, then?
		if t.acknowledged(ctx, again, patience) == nil {
			p.found[len(p.found)-1].what += fmt.Sprintf("; then it went on, after %s", time.Since(healed).Round(time.Second))
		}
	}
	if !f.majority {
		p.out = t.longest()
	}
	t.crowd.hush()
	if err := t.until(ctx, wholeLimit, t.whole); err != nil {
		p.found = append(p.found, finding{kind: partial, what: err.Error()})
	}
	p.whole = time.Since(healed)
	found, err := t.judge(ctx, t.nearCopy)
	if err != nil {
		return nil, err
	}
	p.found, p.took = append(p.found, found...), time.Since(begun)
	t.note(t, p)
	if len(p.found) == 0 {
		t.crowd.speak(ctx)
	}
	return p.found, nil
}

func (t *trial) unavailable(when string, err error) finding {
	f := finding{kind: unavailable, what: fmt.Sprintf("nothing was acknowledged for %s %s: %v", availableLimit, when, err)}
	for _, m := range t.members {
		if m.process != nil {
			f.what += "\n" + m.Name + ": " + m.process.LastWords()
		}
	}
	return f
}

// acknowledged waits for n more acknowledgements on each stream, to publishers that may
// use any node.
func (t *trial) acknowledged(ctx context.Context, n int, limit time.Duration) error {
	want := map[*ledger]int{}
	for b, p := range t.pulses {
		_, now := p.longest(time.Now())
		want[b] = now + n
	}
	return t.until(ctx, limit, func(context.Context) error {
		for b, p := range t.pulses {
			if _, now := p.longest(time.Now()); now < want[b] {
				return fmt.Errorf("%s: %d acknowledgements of %d: %w", b.name, n-(want[b]-now), n, trio.ErrNotYet)
			}
		}
		return nil
	})
}

// beginPulses forgets what was before.
func (t *trial) beginPulses() {
	for _, p := range t.pulses {
		p.begin(time.Now())
	}
}

// longest is the longest time without an acknowledgement on one of the streams.
func (t *trial) longest() time.Duration {
	var most time.Duration
	for _, p := range t.pulses {
		gap, _ := p.longest(time.Now())
		most = max(most, gap)
	}
	return most
}
