// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/holdfast-mq/holdfast/appliance/admin"
)

// mostStreams bounds how many streams in trouble are shown; --all shows all there are.
const mostStreams = 8

func printCluster(w io.Writer, c admin.Cluster, all bool) {
	leader := cmp.Or(c.Leader, "NONE")
	if c.NoLeaderSince != nil {
		leader += " since " + sinceWhen(*c.NoLeaderSince)
	}
	fmt.Fprintf(w, "Cluster %s, leader %s, %d of %d nodes needed\n\n", c.Name, leader, c.Quorum, c.Size)
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(t, "ADDRESS\tNODE\tROUTE\tHAS EVERYTHING\tVERSION\tNATS\tCLOCK\tCERTIFICATES\tFILE")
	for _, m := range c.Nodes {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", m.Address, cmp.Or(m.Name, "?"), routeText(m), currentText(m, c.Leader),
			cmp.Or(m.Version, "?"), cmp.Or(m.NATS, "?"), clockText(m), certificatesText(m), fileText(m))
	}
	t.Flush()
	printGrowth(w, c.Growth)
	for _, m := range c.Nodes {
		printMember(w, m, all)
		printFile(w, m, c.Leader, all)
		if m.PublishingStopped != "" {
			fmt.Fprintf(w, "    streams that it leads: %s\n", cmp.Or(namesText(ledBy(c.Streams, m.Name), all), "none"))
		}
	}
	if len(c.Streams) > 0 {
		printPlacements(w, c, all)
	}
	switch {
	case c.Stopped:
		printReturns(w, c, all)
	case c.Leader != "":
		printLosses(w, c.Losses, all)
	}
}

// ledBy are the streams that a node leads.
func ledBy(streams []admin.Placement, node string) []string {
	var out []string
	for _, p := range streams {
		if p.Leader == node && strings.Count(p.Name, "/") == 1 { // others are consumers
			out = append(out, p.Name)
		}
	}
	return out
}

func printGrowth(w io.Writer, g *admin.Growth) {
	if g == nil {
		return
	}
	fmt.Fprintf(w, "\n%s\n", growthText(*g))
	if g.Problem != "" {
		fmt.Fprintf(w, "    %s\n", g.Problem)
	}
	if g.Fix != "" {
		fmt.Fprintf(w, "    fix: %s\n", g.Fix)
	}
}

func printMember(w io.Writer, m admin.Member, all bool) {
	if m.Problem != "" {
		fmt.Fprintf(w, "\n%s: %s\n", m.Address, m.Problem)
		if m.Fix != "" {
			fmt.Fprintf(w, "    fix: %s\n", m.Fix)
		}
	}
	for _, what := range m.Warnings {
		fmt.Fprintf(w, "\n%s: warning: %s\n", m.Address, what)
	}
	if all {
		for _, c := range m.Certificates {
			fmt.Fprintf(w, "\n%s: certificate %s until %s", m.Address, c.Name, c.NotAfter.Format(time.DateOnly))
		}
		if len(m.Certificates) > 0 {
			fmt.Fprintln(w)
		}
	}
}

// printFile says in what a file differs, and whose counts.
func printFile(w io.Writer, m admin.Member, leader string, all bool) {
	if m.FileRefused != "" {
		fmt.Fprintf(w, "\n%s: %s\n    fix: mend the file; `holdfast status` there says how\n", m.Address, m.FileRefused)
	}
	if !m.OtherFile && len(m.Differs) == 0 {
		return
	}
	counts := "that of the node that leads counts"
	if leader != "" {
		counts = "that of node " + leader + " counts, which leads"
	}
	what := "its file asks for other accounts, users or streams"
	if !m.OtherFile {
		what = "its file differs"
	}
	if len(m.Differs) > 0 {
		what += ": " + namesText(m.Differs, all)
	}
	fmt.Fprintf(w, "\n%s: %s; %s\n    fix: put the same file on all nodes\n", m.Address, what, counts)
}

// printPlacements says how many copies there are, and names the streams of which one is
// not as it should be.
func printPlacements(w io.Writer, c admin.Cluster, all bool) {
	streams, single, behind := 0, 0, 0
	lines := leaderlessLines(c.Streams, all)
	for _, p := range c.Streams {
		if strings.Count(p.Name, "/") == 1 { // others are consumers
			streams++
			if len(p.Copies) == 1 {
				single++
			}
		}
		text, bad := placementText(p)
		if bad || p.Problem != "" {
			behind++
		}
		if p.Problem == "" && (bad || all) {
			lines = append(lines, text)
		}
	}
	fmt.Fprintf(w, "\n%d streams", streams)
	if single > 0 {
		fmt.Fprintf(w, ", %d with one copy only", single)
	}
	if behind == 0 {
		fmt.Fprint(w, "; every copy has everything\n")
	} else {
		fmt.Fprintf(w, "; %d with copies that are not as they should be:\n", behind)
	}
	for i, line := range lines {
		if i == mostStreams && !all {
			fmt.Fprintf(w, "  and %d more; --all names them\n", len(lines)-i)
			break
		}
		fmt.Fprintln(w, "  "+line)
	}
}

// leaderlessLines are those of streams that nobody leads: many have the same reason.
func leaderlessLines(streams []admin.Placement, all bool) []string {
	type reason struct{ what, fix string }
	var reasons []reason
	names, first := map[reason][]string{}, map[reason]*time.Time{}
	for _, p := range streams {
		if p.Problem == "" {
			continue
		}
		r := reason{p.Problem, p.Fix}
		if names[r] == nil {
			reasons = append(reasons, r)
		}
		names[r] = append(names[r], p.Name)
		if t := p.NoLeaderSince; t != nil && (first[r] == nil || t.Before(*first[r])) {
			first[r] = t
		}
	}
	lines := make([]string, 0, len(reasons))
	for _, r := range reasons {
		since := ""
		if t := first[r]; t != nil {
			since = ", since " + sinceWhen(*t)
		}
		lines = append(lines, namesText(names[r], all)+": "+r.what+since+"\n    fix: "+r.fix)
	}
	return lines
}

// placementText says where a stream is kept, and whether something is wrong with that.
func placementText(p admin.Placement) (text string, bad bool) {
	var parts []string
	for _, c := range p.Copies {
		switch {
		case c.Offline: // since when, the line of the node says
			parts = append(parts, c.Node+" is gone")
		case !c.Current && c.Behind > 0:
			parts = append(parts, fmt.Sprintf("%s is %s changes behind%s", c.Node, humanize.Comma(int64(c.Behind)), seenText(c)))
		case !c.Current:
			parts = append(parts, c.Node+" does not have everything"+seenText(c))
		default:
			continue
		}
		bad = true
	}
	if bad {
		return p.Name + ": " + strings.Join(parts, ", "), true
	}
	for _, c := range p.Copies {
		parts = append(parts, c.Node)
	}
	return fmt.Sprintf("%s: on %s, %s leads", p.Name, strings.Join(parts, ", "), p.Leader), false
}

func seenText(c admin.Copy) string {
	if c.Seen < 1 {
		return ""
	}
	return ", last heard of " + since(c.Seen) + " ago"
}

// printReturns says what has stopped already, and which node brings it back.
func printReturns(w io.Writer, c admin.Cluster, all bool) {
	up := len(c.Nodes) - len(c.Returns)
	fmt.Fprintf(w, "\nEverything that more than one node keeps has stopped, for too few nodes are up: %d of %d, and %d are needed. Nothing is lost by that.\n", up, c.Size, c.Quorum)
	for _, r := range c.Returns {
		name := cmp.Or(r.Node, r.Address)
		switch {
		case !r.Enough:
			fmt.Fprintf(w, "%s alone is not enough: %d of those that are down have to be back.\n", name, c.Quorum-up)
		case len(r.Waits) > 0:
			fmt.Fprintf(w, "With %s back everything goes on but %s.\n", name, namesText(r.Waits, all))
		default:
			fmt.Fprintf(w, "With %s back everything goes on.\n", name)
		}
	}
}

// printLosses says what losing one more node would do.
func printLosses(w io.Writer, losses []admin.Loss, all bool) {
	harmless := true
	for _, l := range losses {
		harmless = harmless && !l.Everything && len(l.Stops)+len(l.Loses) == 0
	}
	if harmless {
		if len(losses) > 0 {
			fmt.Fprint(w, "\nLosing any one node stops nothing and loses nothing.\n")
		}
		return
	}
	fmt.Fprintln(w)
	for _, l := range losses {
		stops := namesText(l.Stops, all)
		if l.Everything {
			stops = "everything, for too few nodes would be left"
		}
		line := fmt.Sprintf("Losing %s stops %s", l.Node, cmp.Or(stops, "nothing"))
		if len(l.Loses) > 0 {
			line += "; losing its disk loses " + namesText(l.Loses, all)
		}
		fmt.Fprintln(w, line+".")
	}
}

// namesText names a few, or all.
func namesText(names []string, all bool) string {
	if more := len(names) - mostNamed; more > 0 && !all {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:mostNamed], ", "), more)
	}
	return strings.Join(names, ", ")
}

func sinceWhen(t time.Time) string {
	return fmt.Sprintf("%s (%s)", t.Local().Format(time.DateTime), since(time.Since(t).Seconds()))
}

func routeText(m admin.Member) string {
	switch {
	case m.Self:
		return "this node"
	case !m.Connected:
		return "NONE"
	case m.RTT > 0:
		return "up, " + time.Duration(m.RTT*float64(time.Second)).Round(10*time.Microsecond).String()
	}
	return "up"
}

func currentText(m admin.Member, leader string) string {
	switch {
	case m.Current && m.Name == leader && leader != "":
		return "yes, leads"
	case m.Current:
		return "yes"
	}
	return "no"
}

// clockText is how far the clock of a node is from this one's; less than what a busy
// machine takes for an answer says nothing.
func clockText(m admin.Member) string {
	ahead := time.Duration(m.ClockAhead * float64(time.Second)).Round(100 * time.Millisecond)
	switch {
	case m.Self:
		return "-"
	case m.Name == "" || !m.Connected:
		return "?"
	case ahead == 0:
		return "same"
	}
	if ahead > 0 {
		return "+" + ahead.String()
	}
	return ahead.String()
}

// certificatesText is when the first of the node's certificates ends.
func certificatesText(m admin.Member) string {
	var first time.Time
	for _, c := range m.Certificates {
		if first.IsZero() || c.NotAfter.Before(first) {
			first = c.NotAfter
		}
	}
	switch {
	case first.IsZero():
		return "?"
	case first.Before(time.Now()):
		return "EXPIRED " + first.Format(time.DateOnly)
	}
	return "until " + first.Format(time.DateOnly)
}

func fileText(m admin.Member) string {
	if m.FileRefused != "" {
		return "NOT IN FORCE"
	}
	if m.OtherFile || len(m.Differs) > 0 {
		return "DIFFERS"
	}
	if m.Name == "" || !m.Self && !m.Connected {
		return "?"
	}
	return "same"
}
