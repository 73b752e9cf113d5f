// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"hash/maphash"
	"time"

	"github.com/holdfast-mq/holdfast/cmd/internal/trio"
)

// mapSeed is what the checksums of one round are made with.
type mapSeed = maphash.Seed

// equalLimit is when three copies must be the same, with nobody publishing.
const equalLimit = 20 * time.Second

// judge reads every node's copy of every stream, with the publishers silent, and compares
// them with each other and with the books. Workers and observers go on.
func (t *trial) judge(ctx context.Context, read func(context.Context, int, string) (holding, error)) ([]finding, error) {
	t.crowd.hush()
	var found []finding
	for _, b := range t.books {
		// First what still changes: a work queue shrinks while workers are at it.
		first, err := read(ctx, 0, b.name)
		if err == nil {
			found = append(found, t.delivered(ctx, b, first)...)
		}
		if b.queue {
			found = append(found, t.finished(ctx, b.name, queueDurable)...)
		}
		copies, differ, err := t.copies(ctx, b, read)
		if err != nil {
			found = append(found, finding{kind: partial, stream: b.name, what: "its copies can't be read: " + err.Error()})
			continue
		}
		found = append(found, differ...)
		for i, h := range copies {
			for _, f := range b.judgeStored(h) {
				f.what += " (on " + t.members[i].Name + ")"
				found = append(found, f)
			}
			if len(differ) == 0 {
				break // one speaks for all
			}
		}
		found = append(found, b.noted()...)
	}
	return found, ctx.Err()
}

// copies reads until they are the same, or time is up: what was on its way arrives.
func (t *trial) copies(ctx context.Context, b *ledger, read func(context.Context, int, string) (holding, error)) (copies []holding, differ []finding, err error) {
	var names []string
	for _, m := range t.members {
		names = append(names, m.Name)
	}
	var first time.Time
	late := t.until(ctx, patience, func(ctx context.Context) error {
		var got []holding
		for i := range t.members {
			h, failed := read(ctx, i, b.name)
			if failed != nil {
				return failed
			}
			got = append(got, h)
		}
		copies, differ = got, judgeCopies(b.name, names, got)
		if first.IsZero() {
			first = time.Now()
		}
		if time.Since(first) > equalLimit {
			return nil
		}
		for i, h := range got {
			if uint64(len(h.messages)) != h.count && len(differ) == 0 {
				return fmt.Errorf("%s counts %d and gives %d: %w", names[i], h.count, len(h.messages), trio.ErrNotYet)
			}
		}
		if len(differ) > 0 {
			return trio.ErrNotYet
		}
		return nil
	})
	if copies == nil {
		return nil, nil, late
	}
	return copies, differ, nil
}

// delivered waits until the workers were given everything at least once. Slow is not
// stuck: time runs while nothing moves.
func (t *trial) delivered(ctx context.Context, b *ledger, h holding) []finding {
	stuck := b.undelivered(h)
	for len(stuck) > 0 {
		before := len(stuck)
		late := t.until(ctx, drainLimit, func(context.Context) error {
			if stuck = b.undelivered(h); len(stuck) == before {
				return trio.ErrNotYet
			}
			return nil
		})
		if late != nil {
			stuck[0].what += "; " + t.consumer(ctx, b.name)
			return stuck
		}
	}
	return nil
}

// consumer describes the state of a stream's consumer.
func (t *trial) consumer(ctx context.Context, stream string) string {
	durable := limitsDurable
	if stream == queueStream {
		durable = queueDurable
	}
	c, err := t.own.consumer(ctx, stream, durable)
	if err != nil {
		return fmt.Sprintf("its consumer: %v", err)
	}
	i := c.CachedInfo()
	text := fmt.Sprintf("its consumer: %d to deliver, %d to acknowledge, %d pulls wait, delivered %d, floor %d", i.NumPending, i.NumAckPending, i.NumWaiting, i.Delivered.Stream, i.AckFloor.Stream)
	if i.Cluster != nil {
		text += ", leader " + i.Cluster.Leader
	}
	return text
}

// finished waits until all is delivered and acknowledged, as long as something moves.
func (t *trial) finished(ctx context.Context, stream, durable string) []finding {
	left := -1
	for {
		before := left
		late := t.until(ctx, drainLimit, func(ctx context.Context) error {
			c, err := t.own.consumer(ctx, stream, durable)
			if err != nil {
				return err
			}
			i := c.CachedInfo()
			if left = int(i.NumPending) + i.NumAckPending; left > 0 && left == before {
				return trio.ErrNotYet
			}
			return nil
		})
		switch {
		case late != nil:
			return []finding{{kind: stuck, stream: stream + "/" + durable, what: late.Error() + "; " + t.consumer(ctx, stream)}}
		case left == 0:
			return nil
		}
	}
}

// conclude is the last judgement: the copies are read from their nodes as leaders, and
// the consumers must get to the end.
func (t *trial) conclude(ctx context.Context) ([]finding, error) {
	found, err := t.judge(ctx, t.ledCopy)
	return append(found, t.finished(ctx, limitsStream, limitsDurable)...), err
}
