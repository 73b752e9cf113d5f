// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/holdfast-mq/holdfast/appliance/admin"
	"github.com/holdfast-mq/holdfast/bootstrap"
)

const (
	// mostNames is how many names stand in one line, and mostLines how many lines say
	// the same kind of thing; the rest is counted.
	mostNames = 8
	mostLines = 20
)

func firstOf(names []string) string {
	if len(names) <= mostNames {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %s more", strings.Join(names[:mostNames], ", "), thousands(len(names)-mostNames))
}

// consequences says once more, right above the question, what can't be undone.
func consequences(p bootstrap.Plan, c bootstrap.Consents) string {
	var lost bootstrap.Loss
	var losing []string // streams
	names := map[bootstrap.Op][]string{}
	for _, a := range p.Actions {
		if !a.Op.Changes() || !c.Cover(a) {
			continue
		}
		names[a.Op] = append(names[a.Op], a.Path())
		loses := a.Loss != nil && (a.Loss.Messages > 0 || a.Loss.Bytes > 0)
		if loses {
			lost.Messages += a.Loss.Messages
			lost.Bytes += a.Loss.Bytes
		}
		if (loses || a.Op == bootstrap.Drop) && !slices.Contains(losing, a.Allowance()) {
			losing = append(losing, a.Allowance())
		}
	}
	var b strings.Builder
	if len(losing) > 0 {
		fmt.Fprintf(&b, "%s %s: %s\n", removesText(lost), count(len(losing), "stream"), firstOf(losing))
	}
	if anew := names[bootstrap.Recreate]; len(anew) > 0 {
		fmt.Fprintf(&b, "Makes anew: %s\n", firstOf(anew))
	}
	if oneWay := names[bootstrap.OneWay]; len(oneWay) > 0 {
		fmt.Fprintf(&b, "Can't be taken back: %s\n", firstOf(oneWay))
	}
	return b.String()
}

// removesText says how much is removed, as far as it is known: what is left out is
// what age and subjects decide.
func removesText(l bootstrap.Loss) string {
	switch size := humanize.IBytes(l.Bytes); {
	case l.Messages > 0 && l.Bytes > 0:
		return fmt.Sprintf("Removes at least %s, %s, from", count(int(l.Messages), "message"), size)
	case l.Messages > 0:
		return fmt.Sprintf("Removes at least %s from", count(int(l.Messages), "message"))
	case l.Bytes > 0:
		return fmt.Sprintf("Removes at least %s of messages from", size)
	}
	return "Removes messages, now or later, from"
}

// printApplied says what was done and what is left.
func printApplied(w io.Writer, a admin.ApplyAnswer) {
	what, left := a.Report.Done(), leftText(a.Report)
	switch {
	case what == "" && len(left) > 0:
		what = "nothing was changed"
	case !a.Report.Did() && what != "":
		what = "nothing was changed, " + what
	case what == "":
		what = "nothing to change"
	}
	if a.Revision > 0 {
		what = fmt.Sprintf("applied revision %d: %s", a.Revision, what)
	}
	fmt.Fprintf(w, "\n%s\n", what)
	if len(a.NeedRestart) > 0 {
		fmt.Fprintf(w, "left: %s: needs a restart of the node\n", strings.Join(a.NeedRestart, ", "))
	}
	for _, l := range left[:min(len(left), mostLines)] {
		fmt.Fprintf(w, "left: %s\n", l)
	}
	if n := len(left) - mostLines; n > 0 {
		fmt.Fprintf(w, "left: %s more; `holdfast plan` shows them\n", thousands(n))
	}
}

// leftText is what is not as in the file and did not fail.
func leftText(report bootstrap.Report) []string {
	var left []string
	for _, r := range report.Results {
		if !isLeft(r) && r.Action.Op != bootstrap.Unknown {
			continue
		}
		what := string(r.Action.Op)
		switch r.Action.Op {
		case bootstrap.Blocked:
			what = "can't be done"
		case bootstrap.Unknown:
			what = "not compared"
		}
		left = append(left, fmt.Sprintf("%s %s: %s: %s", r.Action.Kind, r.Action.Path(), what,
			cmp.Or(r.Reason, r.Action.Reason, "`holdfast plan` says more")))
	}
	return slices.Compact(left)
}

// isLeft is true for what needs a flag or a person.
func isLeft(r bootstrap.Result) bool {
	return r.Action.Op == bootstrap.Blocked || r.Action.Op.Changes() && r.Outcome == bootstrap.Skipped
}

// appliedCode is the exit code for what became of an apply.
func appliedCode(a admin.ApplyAnswer) int {
	code := exitOK
	for _, r := range a.Report.Results {
		switch {
		case r.Outcome == bootstrap.Failed || r.Action.Op == bootstrap.Unknown:
			return exitFailed
		case isLeft(r):
			code = exitDiffers
		}
	}
	if len(a.NeedRestart) > 0 {
		code = exitDiffers
	}
	return code
}

// printFailures says what went wrong, each with what to do about it.
func (a *applying) printFailures(r bootstrap.Report) {
	n := 0
	for _, res := range r.Results {
		if res.Outcome != bootstrap.Failed {
			continue
		}
		if n++; n > mostLines {
			continue
		}
		err := res.Err
		if err == nil {
			err = errors.New(cmp.Or(res.Reason, string(res.Action.Op)+" "+res.Action.Path()))
		}
		a.g.printError(a.std, err)
	}
	if n > mostLines {
		fmt.Fprintf(a.std.err, "holdfast: %s more failed; `holdfast status` shows what stands\n", thousands(n-mostLines))
	}
}

// printElsewhere warns that the node's next start reads another file than the one
// that was applied.
func (a *applying) printElsewhere(w wish, own string) {
	if own == "" {
		return
	}
	hint := fmt.Sprintf("put %s in its place", w.file)
	if len(w.request.Texts) > 1 {
		hint += ", and its overlays with it"
	}
	if own == builtIn {
		hint = "start it with --config " + w.file
	}
	fmt.Fprintf(a.std.err, "holdfast: warning: the node's next start does not read what was applied: its own file is %s\nhint: %s\n", own, hint)
}
