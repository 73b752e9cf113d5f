// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
)

// fault is what happens to the nodes. strike returns what makes it good again, which
// leaves all processes running.
type fault struct {
	name     string
	majority bool // of the nodes goes on meanwhile
	strike   func(context.Context, *trial) (heal func(context.Context) error, err error)
}

// allFaults in the order in which they happen. The one without a strike happens to the
// first start.
func allFaults() []fault {
	return []fault{
		{name: "deaf-join"},
		{"kill", true, strikeKill},
		{"unplug", true, strikeNet(func(ctx context.Context, m *member) error { return m.host.Unplug(ctx) })},
		{"drop", true, strikeNet(func(ctx context.Context, m *member) error { return m.host.Drop(ctx) })},
		{"deaf", true, strikeNet(func(ctx context.Context, m *member) error { return m.host.Deafen(ctx, routePort) })},
		{"power-one", true, strikePower(1)},
		{"power-two", false, strikePower(2)},
		{"rolling", true, strikeRolling},
		{"power-three", false, strikePower(3)},
	}
}

func faultNames() []string {
	var names []string
	for _, f := range allFaults() {
		names = append(names, f.name)
	}
	return names
}

// faults are those of this round. What a weak mode is known for is lost with the power of
// all three.
func (t *trial) faults() []fault {
	var out []fault
	for _, name := range t.o.faults {
		for _, f := range allFaults() {
			if f.name == name && (!t.mode.weak || f.name == "power-three") && (!t.mode.stock() || f.strike != nil) {
				out = append(out, f)
			}
		}
	}
	return out
}

// target is the node that leads the stream, or the first.
func (t *trial) target(ctx context.Context) int {
	leader := t.leader(ctx, limitsStream)
	for i, m := range t.members {
		if m.Name == leader {
			return i
		}
	}
	return 0
}

// after is the node behind another one, round and round.
func (t *trial) after(node, n int) *member { return t.members[(node+n)%len(t.members)] }

func strikeKill(ctx context.Context, t *trial) (func(context.Context) error, error) {
	m := t.after(t.target(ctx), 0)
	m.kill()
	return func(context.Context) error { return m.start() }, nil
}

// strikeNet takes the leader's network away.
func strikeNet(cut func(context.Context, *member) error) func(context.Context, *trial) (func(context.Context) error, error) {
	return func(ctx context.Context, t *trial) (func(context.Context) error, error) {
		node := t.target(ctx)
		m := t.members[node]
		if err := cut(ctx, m); err != nil {
			return nil, err
		}
		t.isolation.set(node, true)
		return m.host.Heal, nil
	}
}

// strikePower takes the power of the leader, and of more.
func strikePower(n int) func(context.Context, *trial) (func(context.Context) error, error) {
	return func(ctx context.Context, t *trial) (func(context.Context) error, error) {
		node := t.target(ctx)
		var struck []*member
		for i := range n {
			struck = append(struck, t.after(node, i))
		}
		if err := t.cutPower(ctx, struck...); err != nil {
			return nil, err
		}
		return func(context.Context) error {
			var err error
			for _, m := range struck {
				err = errors.Join(err, m.start())
			}
			return err
		}, nil
	}
}

// strikeRolling stops and starts one after the other, as an upgrade does.
func strikeRolling(ctx context.Context, t *trial) (func(context.Context) error, error) {
	for _, m := range t.members {
		if err := m.stop(ctx); err != nil {
			return nil, err
		}
		if err := m.start(); err != nil {
			return nil, err
		}
		if err := t.until(ctx, wholeLimit, t.whole); err != nil {
			return nil, err
		}
	}
	return func(context.Context) error { return nil }, nil
}
