// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	"github.com/holdfast-mq/holdfast/appliance/admin"
	"github.com/holdfast-mq/holdfast/appliance/loadtest"
)

// grouped makes scratch streams whose messages the node groups, where it does that for
// declared streams.
type grouped struct {
	loadtest.Scratch
	node    *admin.Client
	account string
	refused bool // by who runs it

	end func() error // nil where nothing is grouped
	why string       // nothing is
}

// Make goes on without group commit where it is not possible: that, too, is what an
// application would get.
func (g *grouped) Make(ctx context.Context, w loadtest.Wish) (loadtest.Place, error) {
	p, err := g.Scratch.Make(ctx, w)
	switch {
	case err != nil:
		return p, err
	case g.refused:
		g.why = "--no-group-commit"
		return p, nil
	}
	g.end, err = g.node.Bench(ctx, admin.BenchRequest{Account: g.account, Stream: p.Stream, Subject: p.Subject + ".>", Consumer: p.Consumer})
	if err != nil {
		g.why = err.Error()
	}
	return p, nil
}

// Remove ends group commit first: nothing leads to a stream that is gone.
func (g *grouped) Remove(ctx context.Context, p loadtest.Place) error {
	if g.end != nil {
		if err := g.end(); err != nil {
			g.why = fmt.Sprintf("ended before the run: %v", err)
		}
	}
	return g.Scratch.Remove(ctx, p)
}

// putLoad runs one load through a scratch stream of the target, which group, if not
// nil, has grouped.
func (b *benching) putLoad(ctx context.Context, target loadtest.Target, l loadtest.Load, prefix string, group *grouped) (loadtest.Result, error) {
	direct, err := loadtest.NewDirect(target)
	if err != nil {
		return loadtest.Result{}, err
	}
	defer direct.Close()
	if group == nil {
		return loadtest.Run(ctx, target, direct, l, b.observer(prefix))
	}
	group.Scratch = direct
	return loadtest.Run(ctx, target, group, l, b.observer(prefix))
}
