// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/holdfast-mq/holdfast/appliance/tune"
)

func settingName(name, target string) string {
	if target == "" {
		return name
	}
	return name + " of " + target
}

func printAbouts(w io.Writer, all []tune.About) {
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	for _, a := range all {
		fmt.Fprintf(t, "%s\t%s\n", a.Name, a.Title)
	}
	t.Flush()
}

// printTune prints a line for each setting, and below what there is to do. apply is the
// command that does it; empty when that is what is done.
func printTune(w io.Writer, r tune.Report, apply string) {
	disks := "no disk that can be seen"
	if len(r.Disks) > 0 {
		disks = strings.Join(r.Disks, ", ")
	}
	fmt.Fprintf(w, "%s is on %s (%s), %s\n\n", r.Dir, r.Mount, r.FSType, disks)
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	for _, s := range r.Settings {
		now := s.Now
		if s.Wanted != "" && s.Wanted != s.Now {
			now += " → " + s.Wanted
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", s.State, s.Name, s.Target, now, hereText(s))
	}
	t.Flush()
	for _, s := range r.Settings {
		if s.State != tune.Fine || len(s.Here) > 0 {
			printSetting(w, s)
		}
	}
	if len(r.AtBoot) > 0 {
		fmt.Fprintf(w, "\nAt each boot: %s\n", strings.Join(r.AtBoot, ", "))
	}
	if n := len(r.Changes()); n > 0 && apply != "" {
		fmt.Fprintf(w, "\n%s to change: `%s`, with --at-boot also at each boot\n", count(n, "setting"), apply)
	}
}

func printSetting(w io.Writer, s tune.Setting) {
	fmt.Fprintf(w, "\n%s %s: %s", s.State, settingName(s.Name, s.Target), s.Now)
	if s.Wanted != "" && s.Wanted != s.Now {
		fmt.Fprintf(w, " → %s", s.Wanted)
	}
	fmt.Fprintf(w, "\n  why: %s\n  known: %s\n", s.Why, s.Known)
	for _, r := range s.Here {
		fmt.Fprintf(w, "  measured here, %s → %s: %s\n", r.From, r.To, r.Verdict)
		for _, c := range r.Figures {
			fmt.Fprintf(w, "    %s\n", comparisonText(c))
		}
	}
	if s.Note != "" {
		fmt.Fprintf(w, "  note: %s\n", s.Note)
	}
	if s.Command != "" {
		fmt.Fprintf(w, "  by hand: %s\n", s.Command)
	}
}

// hereText is what was measured on this machine, in one cell.
func hereText(s tune.Setting) string {
	for _, r := range s.Here {
		if r.To != s.Wanted || len(r.Figures) == 0 {
			continue
		}
		c := r.Figures[0]
		return fmt.Sprintf("measured here: %s, ×%.2f (%.2f–%.2f)", r.Verdict, c.Ratio, c.Low, c.High)
	}
	if len(s.Here) > 0 {
		return "measured here"
	}
	return ""
}

func comparisonText(c tune.Comparison) string {
	return fmt.Sprintf("%s: %s: %s → %s, ×%.2f (%.2f–%.2f), %d pairs", c.Verdict, c.Figure, quantityText(c.Before, c.Unit), quantityText(c.After, c.Unit), c.Ratio, c.Low, c.High, c.Pairs)
}

func quantityText(v float64, unit string) string {
	if unit == "s" {
		return inWords(v)
	}
	return humanize.IBytes(uint64(v)) + "/s"
}

func printTuned(w io.Writer, out tune.Outcome, notes []string, whole bool) {
	for _, c := range out.Changed {
		if c.Left != "" {
			fmt.Fprintf(w, "%s: left at %s: %s\n", settingName(c.Name, c.Target), c.From, c.Left)
			continue
		}
		fmt.Fprintf(w, "%s: %s → %s\n", settingName(c.Name, c.Target), c.From, c.To)
	}
	for _, n := range notes {
		fmt.Fprintln(w, n)
	}
	if len(out.Changed)+len(notes) == 0 && whole {
		fmt.Fprintln(w, "nothing to change")
	}
}

func printMeasured(w io.Writer, got []tune.Result, pairs int, each time.Duration) {
	for _, r := range got {
		fmt.Fprintf(w, "%s, %s → %s: %s\n", settingName(r.Name, r.Target), r.From, r.To, r.Verdict)
		for _, c := range r.Figures {
			fmt.Fprintf(w, "  %s\n", comparisonText(c))
		}
	}
	if len(got) == 0 {
		fmt.Fprintln(w, "nothing to measure: no setting that could be otherwise can be written here")
		return
	}
	fmt.Fprintf(w, "\n%d pairs of %v each, by turns; × is what it would become over what it is, with an interval of 99 %%.\n`holdfast tune` goes by it.\n", pairs, each)
}
