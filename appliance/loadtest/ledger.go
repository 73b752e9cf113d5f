// SPDX-License-Identifier: Apache-2.0

package loadtest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

// receipt is a message and the sequence that it is said to have.
type receipt struct{ seq, id uint64 }

// ledger is what publishers and workers know for sure.
type ledger struct {
	acknowledged []receipt
	delivered    []receipt
}

// Counts are messages of a run.
type Counts struct {
	Acknowledged int
	Stored       int
	Consumed     int // each once, however often it was delivered
	Redelivered  int
	// Lost were acknowledged and never delivered, Unknown delivered and never
	// acknowledged, Changed delivered with another content, or two of them
	// acknowledged with one sequence.
	Lost, Unknown, Changed int
}

func (c *Counts) add(o Counts) {
	c.Acknowledged += o.Acknowledged
	c.Consumed += o.Consumed
	c.Redelivered += o.Redelivered
	c.Lost += o.Lost
	c.Unknown += o.Unknown
	c.Changed += o.Changed
}

// judge compares what was acknowledged with what was delivered, message by message.
func (l *ledger) judge() Counts {
	order := func(a, b receipt) int { return cmp.Or(cmp.Compare(a.seq, b.seq), cmp.Compare(a.id, b.id)) }
	slices.SortFunc(l.acknowledged, order)
	slices.SortFunc(l.delivered, order)
	c := Counts{Acknowledged: len(l.acknowledged)}
	for i := 1; i < len(l.acknowledged); i++ {
		if l.acknowledged[i].seq == l.acknowledged[i-1].seq {
			c.Changed++
		}
	}
	got := l.delivered
	for _, want := range slices.CompactFunc(slices.Clone(l.acknowledged), sameSequence) {
		for len(got) > 0 && got[0].seq < want.seq {
			got = c.take(got, nil)
		}
		if len(got) == 0 || got[0].seq != want.seq {
			c.Lost++
			continue
		}
		got = c.take(got, &want)
	}
	for len(got) > 0 {
		got = c.take(got, nil)
	}
	return c
}

func sameSequence(a, b receipt) bool { return a.seq == b.seq }

// take counts all deliveries of the first sequence and returns the rest.
func (c *Counts) take(got []receipt, want *receipt) []receipt {
	n := 1
	for n < len(got) && got[n].seq == got[0].seq {
		n++
	}
	c.Consumed++
	c.Redelivered += n - 1
	switch {
	case want == nil:
		c.Unknown++
	case slices.ContainsFunc(got[:n], func(r receipt) bool { return r.id != want.id }):
		c.Changed++
	}
	return got[n:]
}

// err says what does not agree.
func (c *Counts) err(publishOnly bool) error {
	var wrong []string
	if c.Stored != c.Acknowledged {
		wrong = append(wrong, fmt.Sprintf("%d acknowledged and %d stored", c.Acknowledged, c.Stored))
	}
	if !publishOnly {
		for _, n := range []struct {
			count int
			what  string
		}{
			{c.Lost, "acknowledged and not delivered"},
			{c.Unknown, "delivered and never acknowledged"},
			{c.Changed, "not what was acknowledged under their sequence"},
		} {
			if n.count > 0 {
				wrong = append(wrong, fmt.Sprintf("%d %s", n.count, n.what))
			}
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	return diag.Fail(diag.CodeMiscount, errors.New("the counts of messages do not agree: "+strings.Join(wrong, "; ")),
		"look for errors in the node's log; when nobody else published to or purged the scratch stream, this is a fault of the node: please report it with the log")
}
