// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
)

const (
	seconds = "s"
	mib     = "MiB"
)

// registry lists the measurements, the quick ones first: when time runs out
// the last has fewer pairs.
func registry(l *lab) []measurement {
	large := fmt.Sprintf("%d streams, %d consumers", l.size.streams, l.size.total())
	all := []measurement{
		{
			name:    "check",
			figures: []figure{{"whole process", "check of a file with " + large, seconds}},
			ours:    side{"holdfast check", l.timeCheck},
			peer:    side{"holdfast version", l.timeVersion},
		},
		{
			name: "empty",
			figures: []figure{
				{"first start", "first start of an empty node until ready", seconds},
				{"restart", "restart of an empty node until ready", seconds},
				{"rss", "idle memory of an empty node, RSS", mib},
				{"pss", "idle memory of an empty node, PSS", mib},
			},
			ours: side{"holdfast", func(ctx context.Context) (sample, error) { return l.life(ctx, l.newHoldfast, size{}) }},
			peer: side{"nats-server", func(ctx context.Context) (sample, error) { return l.life(ctx, l.newStock, size{}) }},
		},
		{
			name: "large",
			figures: []figure{
				{"first start", "first start until " + large + " exist", seconds},
				{"stop", "clean stop with " + large, seconds},
				{"restart", "restart with " + large + " until ready", seconds},
				{"rss", "idle memory with " + large + ", RSS", mib},
				{"pss", "idle memory with " + large + ", PSS", mib},
			},
			ours: side{"holdfast", func(ctx context.Context) (sample, error) { return l.life(ctx, l.newHoldfast, l.size) }},
			peer: side{"nats-server", func(ctx context.Context) (sample, error) { return l.life(ctx, l.newStock, l.size) }},
		},
		{
			name: "converge",
			figures: []figure{
				{"create", fmt.Sprintf("apply that creates %d streams", l.size.streams), seconds},
				{"compare", fmt.Sprintf("plan of %d streams without a change", l.size.streams), seconds},
				{"plan", fmt.Sprintf("plan that changes a field of %d streams", l.size.streams), seconds},
				{"update", fmt.Sprintf("apply that changes a field of %d streams", l.size.streams), seconds},
				{"peak", "most memory of the node meanwhile, RSS", mib},
			},
			ours: side{"holdfast", func(ctx context.Context) (sample, error) {
				return l.convergence(ctx, l.newHoldfast, l.convergeHoldfast)
			}},
			peer: side{"nats-server", func(ctx context.Context) (sample, error) { return l.convergence(ctx, l.newStock, l.convergeStock) }},
		},
		l.acknowledging(),
	}
	if l.store > 0 {
		all = append(all, l.recovering()...)
	}
	return all
}

// life takes one node from its first start over a clean stop and a restart to
// the memory it holds when idle.
func (l *lab) life(ctx context.Context, newNode func(dir string, s size) (node, error), s size) (_ sample, err error) {
	dir, err := os.MkdirTemp(l.dir, "node-")
	if err != nil {
		return nil, fmt.Errorf("make data directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	n, err := newNode(dir, s)
	if err != nil {
		return nil, err
	}
	got := sample{}
	first, took, err := l.start(ctx, n, true)
	if err != nil {
		return nil, fmt.Errorf("first start: %w", err)
	}
	defer kill(first)
	got["first start"] = took.Seconds()
	// Not part of the time: both sides must have made the same.
	if err := n.verify(ctx); err != nil {
		return nil, err
	}
	if took, err = stop(first); err != nil {
		return nil, err
	}
	got["stop"] = took.Seconds()
	again, took, err := l.start(ctx, n, false)
	if err != nil {
		return nil, fmt.Errorf("restart: %w", err)
	}
	// Killed, because a clean stop of a large node takes long and its data goes.
	defer kill(again)
	got["restart"] = took.Seconds()
	m, err := settle(ctx, again)
	if err != nil {
		return nil, err
	}
	got["rss"] = float64(m.rss) / (1 << 20)
	if m.pss > 0 {
		got["pss"] = float64(m.pss) / (1 << 20)
	}
	return got, n.verify(ctx)
}
