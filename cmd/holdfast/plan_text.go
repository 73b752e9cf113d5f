// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/holdfast-mq/holdfast/appliance/admin"
	"github.com/holdfast-mq/holdfast/bootstrap"
)

// What stands for the node's own file where it has none, and where nobody knows its
// name.
const (
	builtIn     = "the built-in starter"
	unknownFile = "the one that it was started with"
)

// printPlan prints a plan and what else there is to know before it is applied. own
// is the node's own file where that is another one, goBack that a stale one is meant.
// command is the apply that this plan is for.
func printPlan(w io.Writer, a admin.PlanAnswer, own, command string, goBack bool) {
	fmt.Fprint(w, a.Plan)
	if len(a.NeedRestart) > 0 {
		fmt.Fprintf(w, "Needs a restart: %s\n", strings.Join(a.NeedRestart, ", "))
	}
	if last, ok := a.Revisions.Latest(); ok {
		fmt.Fprintf(w, "Applied last: %s\n", revisionText(last))
	} else {
		fmt.Fprintln(w, "Applied last: nothing yet")
	}
	if own != "" {
		fmt.Fprintf(w, "\nThis file is not the node's own, which is %s.\n"+
			"`%s` moves the node to this one; its next start reads its own again.\n", own, command)
	}
	if a.Stale != nil {
		fmt.Fprint(w, staleText(*a.Stale, a.Revisions, goBack))
	}
}

// mostAllowances is how many streams a printed command names.
const mostAllowances = 8

// allowances are the flags that allow everything in a plan; "" when none is needed, or
// more than anybody would paste.
func allowances(p bootstrap.Plan) string {
	var names []string
	for _, a := range p.Actions {
		if a.Consent == bootstrap.Allowed && !slices.Contains(names, a.Allowance()) {
			names = append(names, a.Allowance())
		}
	}
	if len(names) == 0 || len(names) > mostAllowances {
		return ""
	}
	return " --allow-destructive " + strings.Join(names, " --allow-destructive ")
}

// staleText says that a configuration is an older one, and how to go back to it.
func staleText(old bootstrap.Revision, h bootstrap.History, goBack bool) string {
	newer := "Another one was applied since."
	// What changed nothing is not what makes it stale.
	h = slices.DeleteFunc(slices.Clone(h), func(r bootstrap.Revision) bool { return r.Unchanged })
	if last, ok := h.Latest(); ok {
		newer = fmt.Sprintf("Applied since: revision %d of %s, %s.", last.ID, timeText(last.Time), byText(last.By))
	}
	what := "No start, no reload and no `holdfast apply` does any of it, for that would undo the newer one.\n" +
		"To go back on purpose: `holdfast apply --rollback`.\n"
	if goBack {
		what = "Applying it goes back, which --rollback allows.\n"
	}
	return fmt.Sprintf("\nSTALE: this configuration is that of revision %d of %s.\n%s\n%s", old.ID, timeText(old.Time), newer, what)
}

// revisionText says which revision, when and by whom.
func revisionText(r bootstrap.Revision) string {
	s := fmt.Sprintf("revision %d, %s, %s", r.ID, timeText(r.Time), byText(r.By))
	if r.Rollback {
		s += ", going back on purpose"
	}
	switch {
	case r.Partial && r.Unchanged:
		s += "; nothing of it was done yet"
	case r.Partial:
		s += "; not all of it was done yet"
	case !r.Done:
		s += "; it is not finished: the node's next start or `holdfast apply` brings it to its end"
	}
	return s
}

func timeText(t time.Time) string { return t.UTC().Format(time.DateTime) + " UTC" }

// byText says who applied a revision, or what made the node do it.
func byText(by string) string {
	switch by {
	case "start":
		return "when the node started"
	case "reload":
		return "when the node was told to reload"
	case "file change":
		return "when the file changed"
	case "leading node":
		return "when the node began to lead"
	case "retry":
		return "when the node tried again"
	}
	return "by " + by + " with `holdfast apply`"
}

func printHistory(w io.Writer, h bootstrap.History) {
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(t, "REVISION\tTIME\tNODE\tBY\tDIGEST\tSTATE\tWHAT")
	for _, r := range h {
		state := "finished"
		switch {
		case !r.Done:
			state = "not finished"
		case r.Partial && r.Unchanged:
			state = "nothing of it yet"
		case r.Partial:
			state = "in part"
		}
		if r.Rollback {
			state += ", rollback"
		}
		fmt.Fprintf(t, "%d\t%s\t%s\t%s\t%s\t%s\t%s\n", r.ID, timeText(r.Time), r.Node, r.By, r.Digest, state, r.Summary)
	}
	t.Flush()
}

func thousands(n int) string { return humanize.Comma(int64(n)) }
