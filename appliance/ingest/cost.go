// SPDX-License-Identifier: Apache-2.0

package ingest

import "time"

// cost is what the server was seen to take, as running averages.
type cost struct {
	alone time.Duration // of one message that is stored by itself, one after the other
	fixed time.Duration // of a batch, whatever its size
}

const (
	// perGrouped says how much of what a message costs alone is left of it in a batch,
	// without its sync: one part in so many.
	perGrouped = 8
	// gain is by how much a batch must be faster to be worth it: by one part in so many.
	gain = 4
	// fewest and most bound the number of messages that a batch must at least have,
	// whatever was measured.
	fewest = 4
	most   = 64
	// weight is how slowly averages move, and doubt how slowly a bad opinion of batches
	// fades while none is sent that could better it.
	weight = 16
	doubt  = 16

	firstAlone = 200 * time.Microsecond
	firstFixed = 800 * time.Microsecond
)

func newCost() cost { return cost{alone: firstAlone, fixed: firstFixed} }

// least is the smallest number of messages for which a batch is faster than messages
// one by one.
func (c *cost) least() int {
	return int(min(max((c.fixed+c.fixed/gain)/(c.alone-c.alone/perGrouped)+1, fewest), most))
}

// one learns what a message by itself took.
func (c *cost) one(took time.Duration) { c.alone = max(average(c.alone, took), time.Microsecond) }

// batched learns from the answer to a batch of n.
func (c *cost) batched(n int, took time.Duration) {
	c.fixed = average(c.fixed, max(took-time.Duration(n)*c.alone/perGrouped, c.alone))
}

// passedOver is told when messages went alone that could have been a batch.
func (c *cost) passedOver() { c.fixed -= c.fixed / doubt }

func average(have, seen time.Duration) time.Duration {
	// A stall says nothing of what is usual.
	return have + (min(seen, 4*have)-have)/weight
}
