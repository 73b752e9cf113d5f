// SPDX-License-Identifier: Apache-2.0

package bootstrap

import (
	"fmt"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

// named is how many objects of the same kind and fate are named in the text; the
// rest is counted.
const named = 8

// sections are the parts of a plan's text: first what a person has to decide.
var sections = []struct {
	title string
	has   func(Action) bool
}{
	{"Removes stored messages or makes the object anew; needs `holdfast apply --allow-destructive ACCOUNT/STREAM`:",
		func(a Action) bool { return a.Op.Changes() && a.Consent == Allowed }},
	{"Can't be taken back; needs `holdfast apply`:",
		func(a Action) bool { return a.Op == OneWay }},
	{"Was changed on the server since the file was applied; `holdfast apply` puts it back:",
		func(a Action) bool { return a.Drift && a.Consent == Confirmed && a.Op != OneWay }},
	{"Takes access away, at start, reload and apply:",
		func(a Action) bool { return a.Op == Remove }},
	{"Done at start, reload and apply:",
		func(a Action) bool { return a.Op.Changes() && a.Op != Remove && a.Consent == NoConsent }},
	{"Was not made by Holdfast and is in the file now; what the file does not say stays:",
		func(a Action) bool { return a.Op == Keep && len(a.Adopted) > 0 }},
	{"Can't be done:",
		func(a Action) bool { return a.Op == Blocked }},
	{"Not in the file, left alone:",
		func(a Action) bool { return a.Op == Unmanaged }},
	{"Could not be read:",
		func(a Action) bool { return a.Op == Unknown }},
}

// String is the plan as people read it, the same everywhere: what a person has to
// decide first, objects with the same fate in one line, totals last. What stays as
// it is appears in the totals only.
func (p Plan) String() string {
	var b strings.Builder
	for _, s := range sections {
		var members []Action
		for _, a := range p.Actions {
			if s.has(a) {
				members = append(members, a)
			}
		}
		if len(members) == 0 {
			continue
		}
		fmt.Fprintln(&b, s.title)
		for _, g := range alike(members) {
			b.WriteString(g.String())
		}
		b.WriteByte('\n')
	}
	b.WriteString(p.Summary())
	b.WriteByte('\n')
	return b.String()
}

// Summary counts the actions in one line.
func (p Plan) Summary() string {
	var parts []string
	for _, c := range []struct {
		op   Op
		word string
	}{
		{Drop, "that remove messages"}, {Recreate, "to make anew"}, {OneWay, "that can't be taken back"},
		{Remove, "to remove"}, {Update, "to update"}, {Create, "to create"}, {Blocked, "blocked"},
		{Unmanaged, "not in the file"}, {Unknown, "not compared"}, {Keep, "as declared"},
	} {
		if n := p.Count(c.op); n > 0 {
			parts = append(parts, humanize.Comma(int64(n))+" "+c.word)
		}
	}
	if len(parts) == 0 {
		return "nothing declared"
	}
	return strings.Join(parts, ", ")
}

// fate is a group of actions that say the same but for the name of the object.
type fate struct {
	Action
	names []string
}

// alike groups actions that have the same text, in the order of their first.
func alike(actions []Action) []fate {
	var out []fate
	index := map[string]int{}
	for _, a := range actions {
		key := fmt.Sprint(a.Op, a.Kind, a.Account, a.details(false))
		i, ok := index[key]
		if !ok {
			i = len(out)
			index[key] = i
			out = append(out, fate{Action: a})
		}
		out[i].names = append(out[i].names, strings.TrimPrefix(a.Path(), a.Account+"/"))
	}
	return out
}

func (f fate) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "  %-9s ", f.Op)
	switch n := len(f.names); {
	case n == 1:
		fmt.Fprintf(&b, "%-8s %s", f.Kind, printable(f.Path()))
	default:
		shownNames := make([]string, min(n, named))
		for i := range shownNames {
			shownNames[i] = printable(f.names[i])
		}
		fmt.Fprintf(&b, "%s %ss in %s: %s", humanize.Comma(int64(n)), f.Kind, printable(f.Account), strings.Join(shownNames, ", "))
		if n > named {
			fmt.Fprintf(&b, " and %s more", humanize.Comma(int64(n-named)))
		}
	}
	b.WriteString(f.details(len(f.names) == 1)) // a place belongs to one object
	b.WriteByte('\n')
	return b.String()
}

// details is what is to be said of an action besides what it is about.
func (a Action) details(places bool) string {
	var b strings.Builder
	switch {
	case a.Reason != "":
		fmt.Fprintf(&b, ": %s", a.Reason)
	case a.Drift && (a.Op == Drop || a.Op == Recreate || a.Op == OneWay):
		b.WriteString(": was changed on the server since the file was applied")
	}
	for _, c := range a.Changes {
		if !places {
			c.Pos = diag.Pos{}
		}
		fmt.Fprintf(&b, "\n            %s", c)
		if c.Why != "" {
			fmt.Fprintf(&b, "\n              %s", c.Why)
		}
	}
	for _, c := range a.Adopted {
		fmt.Fprintf(&b, "\n            %s stays %s, where Holdfast makes it %s", c.Field, shown(c.Field, c.Have), shown(c.Field, c.Want))
	}
	if a.Note != "" {
		fmt.Fprintf(&b, "\n            %s", a.Note)
	}
	if l := a.Loss; l != nil {
		fmt.Fprintf(&b, "\n            removes %s", l)
	}
	return b.String()
}

// String says what is removed, as far as it is known.
func (l Loss) String() string {
	var parts []string
	if l.Messages > 0 {
		parts = append(parts, humanize.Comma(int64(l.Messages))+" messages")
	}
	if l.Bytes > 0 {
		parts = append(parts, humanize.IBytes(l.Bytes))
	}
	if l.Note != "" {
		parts = append(parts, l.Note)
	}
	if len(parts) == 0 {
		return "nothing now"
	}
	return strings.Join(parts, ", ")
}
