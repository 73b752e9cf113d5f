// SPDX-License-Identifier: Apache-2.0

package loadtest

import (
	"context"
	"sync"
)

// crew is goroutines that end together: the first error ends all. Whoever makes a crew
// waits for it, or stops it.
type crew struct {
	ctx  context.Context
	end  context.CancelCauseFunc
	work sync.WaitGroup
}

func newCrew(ctx context.Context) *crew {
	c := &crew{}
	c.ctx, c.end = context.WithCancelCause(ctx)
	return c
}

func (c *crew) run(do func(context.Context) error) {
	c.work.Go(func() {
		if err := do(c.ctx); err != nil {
			c.end(err)
		}
	})
}

// wait returns when all have ended, with the first error.
func (c *crew) wait() error {
	c.work.Wait()
	return context.Cause(c.ctx)
}

// stop ends all and waits for them.
func (c *crew) stop() {
	c.end(context.Canceled)
	c.work.Wait()
}
