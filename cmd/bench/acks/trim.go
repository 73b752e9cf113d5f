// SPDX-License-Identifier: Apache-2.0

package acks

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
)

// trimEvery is how long an acknowledged message may stay.
const trimEvery = 100 * time.Millisecond

// trim purges up to the acknowledgement floor. What max_deliver gave up lies below the
// floor, or holds it for ever: this prototype does not know of it, a product must.
func trim(ctx context.Context, nc *nats.Conn, filter string, fail context.CancelCauseFunc) (func(), error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(trimEvery)
		defer tick.Stop()
		var trimmed uint64
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			p, err := askPosition(ctx, nc)
			if err == nil && p.Floor.Stream > trimmed {
				trimmed = p.Floor.Stream
				_, err = purge(ctx, nc, filter, trimmed+1)
			}
			if err != nil && !errors.Is(err, context.Canceled) {
				fail(err)
				return
			}
		}
	}()
	return func() { <-done }, nil
}
