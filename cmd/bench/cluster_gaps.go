// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"os/exec"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/holdfast-mq/holdfast/cmd/bench/load"
	"github.com/holdfast-mq/holdfast/cmd/internal/child"
	"github.com/holdfast-mq/holdfast/cmd/internal/netlab"
	"github.com/holdfast-mq/holdfast/cmd/internal/trio"
)

const (
	// gapPublishers wait for each acknowledgement.
	gapPublishers = 8
	// gapLimit is when a fault counts as one that publishers do not get over.
	gapLimit = 2 * time.Minute
	// settled is how long publishers must go on before a fault, and after it.
	settled = 3 * time.Second
)

// gap is what publishers saw of one fault on one side: the longest time between two
// acknowledgements, in seconds.
type gap struct {
	Fault string    `json:"fault"`
	Side  string    `json:"side"`
	Took  []float64 `json:"seconds"`
}

// gapRun measures both sides by turns.
type gapRun struct {
	*lab
	place place
	hosts []*netlab.Host
	times int
	out   io.Writer
	gaps  []*gap
}

// Faults, and what the page calls them.
const (
	killed   = "its leader is killed (kill -9)"
	cutOff   = "its leader is cut off (cable pulled)"
	deafened = "its leader hears nothing on the port of the routes"
)

// measureAll leaves out what fails, as the other tables do.
func (g *gapRun) measureAll(ctx context.Context) error {
	failed := 0
	for _, fault := range []string{killed, cutOff, deafened} {
		for _, side := range []string{ours, stock} {
			g.gaps = append(g.gaps, &gap{Fault: fault, Side: side})
		}
	}
	for i := range g.times {
		sides := []string{ours, stock}
		if i%2 == 1 {
			slices.Reverse(sides)
		}
		for _, side := range sides {
			label := fmt.Sprintf("%d of %d", i+1, g.times)
			err := g.measureSide(ctx, side, label)
			if ctx.Err() != nil {
				return err
			}
			if err != nil {
				failed++
				fmt.Fprintf(g.out, "%s: %s: %v\n", label, side, err)
			}
		}
	}
	if failed > 0 {
		return fmt.Errorf("measure gaps: %d rounds failed; the table is of the others", failed)
	}
	return nil
}

func (g *gapRun) note(fault, side string, took time.Duration) {
	for _, s := range g.gaps {
		if s.Fault == fault && s.Side == side {
			s.Took = append(s.Took, took.Seconds())
		}
	}
}

// trio3 is three nodes that run, and their publishers.
type trio3 struct {
	*gapRun
	nodes     []*trio.Node
	processes []*child.Process
	access    *trio.Access
	nc        *nats.Conn
	js        jetstream.JetStream

	mu   sync.Mutex
	last time.Time
	gap  time.Duration
}

// measureSide takes three fresh nodes through the faults.
func (g *gapRun) measureSide(ctx context.Context, side, label string) (err error) {
	dir, err := os.MkdirTemp(g.place.dir, "trio-")
	if err != nil {
		return fmt.Errorf("make data directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	t := &trio3{gapRun: g, processes: make([]*child.Process, len(g.hosts))}
	defer func() {
		for i := range t.processes {
			t.end(i)
		}
	}()
	if err := t.form(ctx, dir, side); err != nil {
		return err
	}
	defer t.nc.Close()
	publishing, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	for i := range gapPublishers {
		nc, js, err := t.access.Connect(t.nodes)
		if err != nil {
			return err
		}
		defer nc.Close()
		running.Go(func() { t.publish(publishing, js, fmt.Sprintf("p%d", i)) })
	}
	for _, fault := range []string{killed, cutOff, deafened} {
		took, err := t.through(ctx, fault)
		if err != nil {
			return fmt.Errorf("%s: %w", fault, err)
		}
		g.note(fault, side, took)
		fmt.Fprintf(g.out, "%s: %s: %s: nothing acknowledged for %s\n", label, side, fault, quantity(took.Seconds(), seconds))
	}
	return nil
}

// form starts the nodes and makes the stream.
func (t *trio3) form(ctx context.Context, dir, side string) (err error) {
	var places []trio.Place
	for i, h := range t.hosts {
		home := filepath.Join(dir, fmt.Sprintf("n%d", i+1))
		places = append(places, trio.Place{Host: h.Addr, Client: 4222, HTTP: 8222, Routes: 6222, Dir: home, Data: filepath.Join(home, "data"), Dial: h.DialContext})
	}
	if side == ours {
		t.nodes, err = trio.Holdfast(t.holdfast, fmt.Sprintf("durability: strict, limit: %d", queueLimit), clusterQueue(), places)
	} else {
		t.nodes, err = trio.Stock([]string{t.stock}, "always", queueLimit, nil, places)
	}
	for i := range t.nodes {
		if err == nil {
			err = t.start(i)
		}
	}
	if err == nil {
		err = t.until(ctx, t.allReady)
	}
	if err == nil {
		t.access, err = t.nodes[0].Access()
	}
	if err == nil {
		t.nc, t.js, err = t.access.Connect(t.nodes)
	}
	if err == nil && side != ours {
		err = t.until(ctx, func(ctx context.Context) error {
			_, err := t.js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{
				Name: queueName, Subjects: []string{load.Spec{Queue: queueName}.Subjects()}, MaxBytes: load.QueueBytes, Discard: jetstream.DiscardNew, Replicas: 3,
			})
			return err
		})
	}
	return err
}

// clusterQueue declares what stock nodes are told by a client.
func clusterQueue() string {
	return fmt.Sprintf("      %s: {subjects: [%q], max_bytes: %d}\n", queueName, load.Spec{Queue: queueName}.Subjects(), load.QueueBytes)
}

func (t *trio3) start(i int) error {
	name, args := t.nodes[i].Command()
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = t.nodes[i].Dir, t.env
	child.Tied(cmd)
	return t.hosts[i].Do(func() (err error) {
		t.processes[i], err = child.Start(cmd, t.nodes[i].Log())
		return err
	})
}

func (t *trio3) end(i int) {
	if p := t.processes[i]; p != nil {
		kill(p)
		t.processes[i] = nil
	}
}

func (t *trio3) allReady(ctx context.Context) error {
	for _, n := range t.nodes {
		if err := n.Ready(ctx); err != nil {
			return err
		}
	}
	return nil
}

// leader is who leads the stream, by number, when all copies are there.
func (t *trio3) leader(ctx context.Context) (int, error) {
	s, err := t.js.Stream(ctx, queueName)
	if err != nil {
		return 0, fmt.Errorf("ask for stream %q: %w", queueName, err)
	}
	c := s.CachedInfo().Cluster
	if err := trio.Whole("stream "+queueName, c); err != nil {
		return 0, err
	}
	for i, n := range t.nodes {
		if n.Name == c.Leader {
			return i, nil
		}
	}
	return 0, fmt.Errorf("ask for stream %q: led by %q: %w", queueName, c.Leader, trio.ErrNotYet)
}

// through measures one fault, from copies that are whole to publishers that go on.
func (t *trio3) through(ctx context.Context, fault string) (took time.Duration, err error) {
	leader := 0
	err = t.until(ctx, func(ctx context.Context) (err error) {
		if err = t.allReady(ctx); err == nil {
			leader, err = t.leader(ctx)
		}
		return err
	})
	if err != nil {
		return 0, err
	}
	if err := t.goingOn(ctx); err != nil {
		return 0, err
	}
	t.begin()
	host := t.hosts[leader]
	switch fault {
	case killed:
		t.end(leader)
	case cutOff:
		err = host.Unplug(ctx)
	default:
		err = host.Deafen(ctx, t.nodes[leader].Routes)
	}
	if err != nil {
		return 0, err
	}
	if err := t.goingOn(ctx); err != nil {
		return 0, err
	}
	took = t.longest()
	if fault == killed {
		return took, t.start(leader)
	}
	return took, host.Heal(ctx)
}

func (t *trio3) publish(ctx context.Context, js jetstream.JetStream, name string) {
	subject := load.Spec{Queue: queueName}.Subjects()
	subject = subject[:len(subject)-1] + name
	body := make([]byte, 256)
	for n := 0; ctx.Err() == nil; {
		asked, cancel := context.WithTimeout(ctx, trio.RequestLimit)
		_, err := js.PublishMsg(asked, &nats.Msg{Subject: subject, Data: body, Header: nats.Header{jetstream.MsgIDHeader: {fmt.Sprintf("%s-%d", name, n)}}}, jetstream.WithRetryAttempts(0))
		cancel()
		if err != nil {
			pauseFor(ctx, 20*time.Millisecond)
			continue
		}
		n++
		t.beat()
	}
}

func (t *trio3) beat() {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	t.gap, t.last = max(t.gap, now.Sub(t.last)), now
}

func (t *trio3) begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.gap, t.last = 0, time.Now()
}

// longest counts the time that has not ended, too.
func (t *trio3) longest() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return max(t.gap, time.Since(t.last))
}

// goingOn waits until something was acknowledged in each second of some.
func (t *trio3) goingOn(ctx context.Context) error {
	good := 0
	return t.every(ctx, time.Second, func(context.Context) error {
		t.mu.Lock()
		defer t.mu.Unlock()
		if good++; time.Since(t.last) > time.Second {
			good = 0
		}
		if time.Duration(good)*time.Second <= settled {
			return trio.ErrNotYet
		}
		return nil
	})
}

func (t *trio3) until(ctx context.Context, ask func(context.Context) error) error {
	return t.every(ctx, 50*time.Millisecond, ask)
}

// every asks again and again, for a limited time, as long as all processes run.
func (t *trio3) every(ctx context.Context, pause time.Duration, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, gapLimit)
	defer cancel()
	for {
		// A server without a leader gives no answer at all.
		asked, done := context.WithTimeout(ctx, askLimit)
		err := ask(asked)
		done()
		if err == nil {
			return nil
		}
		for _, p := range t.processes {
			if p != nil {
				if gone := ended(p); gone != nil {
					return gone
				}
			}
		}
		if !pauseFor(ctx, pause) {
			return fmt.Errorf("%w after %s: %w", ctx.Err(), gapLimit, err)
		}
	}
}

// pauseFor is false when ctx ended first.
func pauseFor(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
