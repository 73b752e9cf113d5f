// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

// shareOf is what one consumer takes from a work queue.
type shareOf struct {
	consumer int // in the order of the files
	at       path
	filter   Subject
}

// workQueue: a message of a work queue goes to exactly one consumer, so no two
// of them may want the same.
func (s stream) workQueue() {
	var tree subjectTree[shareOf]
	for n, x := range s.consumersInOrder() {
		x.queueRules()
		filters, at := x.filtered()
		if len(filters) == 0 {
			if x.isSet("filter_subject") || x.isSet("filter_subjects") && x.FilterSubjects == nil {
				continue // refused: it says nothing about what the consumer takes
			}
			filters, at = []Subject{">"}, func(int) path { return x.at }
		}
		var hits []shareOf // one problem for a filter, the first other consumer's
		for i, f := range filters {
			if x.matchesNothing(f) {
				continue // said already: it takes nothing
			}
			hits = hits[:0]
			tree.collide(f, func(h shareOf) { hits = append(hits, h) })
			if len(hits) > 0 {
				x.contested(at(i), f, slices.MinFunc(hits, func(a, b shareOf) int { return cmp.Compare(a.consumer, b.consumer) }))
			}
		}
		for i, f := range filters {
			tree.insert(f, shareOf{n, at(i), f})
		}
	}
}

func (s stream) consumersInOrder() []consumer {
	var out []consumer
	for _, name := range keysOfMap(s.Consumers) {
		out = append(out, s.consumer(name))
	}
	slices.SortStableFunc(out, func(a, b consumer) int { return s.c.before(s.c.cfg.KeyAt(a.at...), s.c.cfg.KeyAt(b.at...)) })
	return out
}

func (x consumer) queueRules() {
	x.errors(
		rule{x.deliver != "all" && x.deliver != "", diag.CodeWorkQueue, "deliver_policy", "a work queue is read from its start: " + x.deliver + " is refused", "remove deliver_policy, or write all"},
		rule{x.ack == "all" || x.ack == "none", diag.CodeWorkQueue, "ack_policy", "each message of a work queue is acknowledged by itself: " + x.ack + " is refused", "remove ack_policy, or write explicit"},
	)
}

func (x consumer) contested(p path, f Subject, other shareOf) {
	what := fmt.Sprintf("filter %q overlaps with %q at %s", f, other.filter, x.c.ref(other.at))
	fix := "choose filters that share no subject: a message of a work queue goes to one consumer"
	if f == ">" || other.filter == ">" {
		what = fmt.Sprintf("it takes the same messages as %s", x.c.ref(other.at))
		fix = "give each consumer a filter_subject of its own, or let all workers share one consumer"
	}
	x.c.fail(diag.CodeWorkQueue, p, what, fix)
}
