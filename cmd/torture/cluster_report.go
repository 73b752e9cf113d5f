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

// passage is how one fault was gone through.
type passage struct {
	fault string
	out   time.Duration // the longest time without an acknowledgement
	whole time.Duration // from the end of the fault until every node has everything
	took  time.Duration
	found []finding
}

// score is what one mode came to.
type score struct {
	mode     clusterMode
	asked    int // rounds
	done     int
	cuts     int // times a node's power went
	acked    int
	observed int // messages that observers read
	alone    int // requests to nodes that were cut off
	passages []passage
	failed   map[int]bool // rounds
}

func newScore(m clusterMode, rounds int) *score {
	return &score{mode: m, asked: rounds, failed: map[int]bool{}}
}

func (s *score) failedIn(round int) bool { return s.failed[round] }

// note takes a passage down and tells it.
func (s *score) note(t *trial, p passage) {
	s.passages = append(s.passages, p)
	kinds := map[kind]int{}
	for _, f := range p.found {
		kinds[f.kind]++
		if !s.mode.forgives(f.kind) {
			s.failed[t.round] = true
		}
	}
	verdict := "ok"
	if len(kinds) > 0 {
		verdict = kindsText(kinds)
	}
	fmt.Fprintf(t.out, "%-12s %-4s round %d/%d  %-11s  out %4.1fs  whole after %4.1fs  %5.1fs  %s\n",
		s.mode.name, t.fs, t.round, s.asked, p.fault, p.out.Seconds(), p.whole.Seconds(), p.took.Seconds(), verdict)
	written := map[kind]int{}
	for _, f := range p.found {
		if s.mode.forgives(f.kind) {
			continue
		}
		if written[f.kind]++; written[f.kind] <= shown {
			fmt.Fprintf(t.out, "  %s\n", strings.ReplaceAll(f.String(), "\n", "\n    "))
		}
	}
	if p.fault == "end" || len(p.found) > 0 {
		s.done++
		for _, b := range t.books {
			n, _, _ := b.counts()
			s.acked += n
			s.observed += b.timesObserved()
		}
		s.alone += t.isolation.asked
	}
}

// findings counts by kind.
func (s *score) findings() map[kind]int {
	kinds := map[kind]int{}
	for _, p := range s.passages {
		for _, f := range p.found {
			kinds[f.kind]++
		}
	}
	return kinds
}

// failure says what is wrong with the mode, or with the judge; empty: nothing.
func (s *score) failure() string {
	kinds := s.findings()
	switch {
	case len(s.failed) > 0:
		return "FAILED"
	case s.done < s.asked:
		return "not finished"
	// Publishers were going on when it was looked at: what was lost has a successor.
	case s.mode.weak && kinds[lost]+kinds[reused] == 0:
		return "no loss shown: the judge sees nothing"
	case s.observed == 0:
		return "nothing read from a node's own copy: the observers see nothing"
	case s.cutOff() && s.alone == 0:
		return "nothing asked of a node that was cut off: a minority was not under test"
	}
	return ""
}

// cutOff says that there was a fault of networks.
func (s *score) cutOff() bool {
	return slices.ContainsFunc(s.passages, func(p passage) bool {
		return p.fault == "unplug" || p.fault == "drop" || p.fault == "deaf"
	})
}

// clusterTable is the summary, in the form in which the documentation shows it.
func clusterTable(out io.Writer, scores []*score) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "MODE\tFAULT\tTIMES\tNO ACK FOR (MEDIAN)\t(MOST)\tWHOLE AFTER (MEDIAN)\t(MOST)\tFINDINGS")
	for _, s := range scores {
		for _, name := range append([]string{"form"}, append(faultNames(), "end")...) {
			var outs, wholes []time.Duration
			kinds := map[kind]int{}
			for _, p := range s.passages {
				if p.fault != name {
					continue
				}
				outs, wholes = append(outs, p.out), append(wholes, p.whole)
				for _, f := range p.found {
					kinds[f.kind]++
				}
			}
			if len(outs) == 0 {
				continue
			}
			text := kindsText(kinds)
			if text == "" {
				text = "-"
			}
			fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\t%s\t%s\t%s\n", s.mode.name, name, len(outs),
				middle(outs), tenths(slices.Max(outs)), middle(wholes), tenths(slices.Max(wholes)), text)
		}
	}
	w.Flush()
	for _, s := range scores {
		verdict := s.failure()
		switch {
		case verdict != "":
		case s.mode.weak:
			verdict = "loses, as it must"
		default:
			verdict = "ok"
		}
		found := s.findings()
		for _, k := range slices.Sorted(maps.Keys(found)) {
			verdict += fmt.Sprintf(", %s %d", k, found[k])
		}
		fmt.Fprintf(out, "%s: %d rounds, power lost %d times, %d acknowledged, %d read from one node's copy meanwhile, %d asked in vain of nodes that were cut off: %s\n", s.mode.name, s.done, s.cuts, s.acked, s.observed, s.alone, verdict)
	}
}

func middle(all []time.Duration) string {
	return tenths(slices.Sorted(slices.Values(all))[len(all)/2])
}

func tenths(d time.Duration) string {
	if d == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1fs", d.Seconds())
}
