// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// shown is how many findings of one kind are written out for one cut.
const shown = 3

// leastGrouped is the part of the PubAcks of a mode with group commit, one in so many,
// that has to be for messages that went in batches.
const leastGrouped = 4

// tally is what one mode on one file system came to.
type tally struct {
	mode  mode
	fs    string
	asked int // cuts
	done  int // cuts judged
	cuts  int // times the power went, twice in some cuts

	acked     int // PubAcks
	grouped   int // of those, for messages that went in batches
	confirmed int // acknowledgements of workers that the node confirmed
	again     int // of those, delivered once more
	undone    int // of those, removals from a work queue that a cut took back
	found     map[kind]int
}

// line is one cut.
type line struct {
	cut, of int
	seed    uint64
	phase   phase
	acked   int
	held    int64 // bytes in LIMITS
	found   []finding
	took    time.Duration
}

func (t *tally) add(found []finding) {
	for _, f := range found {
		t.found[f.kind]++
	}
}

// failure says what is wrong with the mode, or with the judge; empty: nothing.
func (t *tally) failure() string {
	for k, n := range t.found {
		if n > 0 && !t.mode.forgives(k) {
			return "FAILED"
		}
	}
	switch {
	case t.done < t.asked:
		return "not finished"
	case t.mode.weak && t.found[lost] == 0:
		return "no loss shown: the judge sees nothing"
	case t.mode.grouped && t.grouped < t.acked/leastGrouped:
		return "too few batches: group commit was not under test"
	}
	return ""
}

// progress writes one line, and what must not have happened below it.
func (t *tally) progress(out io.Writer, l line) {
	kinds := map[kind]int{}
	for _, f := range l.found {
		kinds[f.kind]++
	}
	verdict := "ok"
	if len(kinds) > 0 {
		verdict = kindsText(kinds)
	}
	fmt.Fprintf(out, "%-12s %-4s cut %d/%d  %-11s  acked %-5d  holds %4.1f MiB  %4.1fs  %s\n",
		t.mode.name, t.fs, l.cut, l.of, l.phase, l.acked, float64(l.held)/(1<<20), l.took.Seconds(), verdict)
	written := map[kind]int{}
	for _, f := range l.found {
		if t.mode.forgives(f.kind) {
			continue
		}
		if written[f.kind]++; written[f.kind] <= shown {
			fmt.Fprintf(out, "  %s\n", strings.ReplaceAll(f.String(), "\n", "\n    "))
		}
	}
	if len(written) > 0 {
		fmt.Fprintf(out, "  once more: -mode %s -fs %s -cuts %d -seed %d -keep\n", t.mode.name, t.fs, l.cut, l.seed)
	}
}

func kindsText(kinds map[kind]int) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(kinds)) {
		parts = append(parts, fmt.Sprintf("%s %d", k, kinds[k]))
	}
	return strings.Join(parts, ", ")
}

// table is the summary, in the form in which the documentation shows it.
func table(out io.Writer, tallies []*tally) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "MODE\tON\tCUTS\tPOWER LOST\tACKED\tIN BATCHES\tLOST\tOTHER FINDINGS\tWORKERS' ACKS\tDELIVERED AGAIN\tREMOVALS UNDONE\tVERDICT")
	for _, t := range tallies {
		other := maps.Clone(t.found)
		delete(other, lost)
		verdict := t.failure()
		switch {
		case verdict != "":
		case t.mode.weak:
			verdict = "loses, as it must"
		default:
			verdict = "ok"
		}
		text := kindsText(other)
		if text == "" {
			text = "-"
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%d%%\t%d\t%s\t%d\t%d\t%d\t%s\n",
			t.mode.name, t.fs, t.done, t.cuts, t.acked, 100*t.grouped/max(t.acked, 1), t.found[lost], text, t.confirmed, t.again, t.undone, verdict)
	}
	w.Flush()
}
