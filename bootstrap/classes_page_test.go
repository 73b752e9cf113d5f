// SPDX-License-Identifier: Apache-2.0

package bootstrap

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-mq/holdfast/appliance/config"
)

const pageHead = `<!-- Generated from bootstrap/classes.go and bootstrap/testdata/updates.golden. Do not edit: run make golden. -->

# What a change in the file does

This page says for each field what happens to a stream or consumer that exists when its value in the file changes. Each
line was measured: a test sends the change to a real nats-server %s, on one node and in a cluster of three.
` + "`holdfast plan`" + ` shows the same for your file, with the values on both sides.

| What happens | Needs | Meaning |
|---|---|---|
| in place | nothing | Done by itself at start and at reload. Nothing stored is touched. |
| one-way | ` + "`holdfast apply`" + ` | Asked for first, because the server never takes it back. |
| drops data | ` + "`holdfast apply --allow-destructive ACCOUNT/STREAM`" + ` | Removes stored messages, now or later. |
| recreate | ` + "`holdfast apply --allow-destructive ACCOUNT/STREAM`" + ` | The server refuses it: the object is deleted and created, its data carried over by a copy. |
| blocked | not done | Not to be had for what exists. Put the server's value in the file, or declare an object of another name. |

A limit counts as lowered when it was unlimited before.

What the file does not say is left as it is: "unset" below is a value that says so, empty braces, empty brackets, an empty text or 0s, and not a line that is
missing. A key of metadata is emptied with an empty text and not removed. A recreated stream gives its publishers no answer while its messages
are copied twice, each synced to disk: ` + "`holdfast apply`" + ` shows how far that is. Its data is on the disk twice meanwhile. A
recreated consumer goes on at its oldest unacknowledged message: what was delivered after that one is delivered again, acknowledged or not, and deliveries are
counted anew.

## An older file

What was applied is recorded, and ` + "`holdfast plan --history`" + ` shows it, under numbers that grow with gaps. A file that was applied before, and replaced by another one since, is stale: nothing of it is applied (HF2207), so that a
forgotten copy undoes nothing. To go back to it on purpose put it in place and run ` + "`holdfast apply --rollback`" + `. A file with any difference that counts is a new one, and needs no flag: comments, order and spaces don't count.

An edit that waits, because it needs a consent, a node is down or the server refuses it, can be taken back in the file:

| What was done of it, in ` + "`holdfast plan --history`" + ` | Putting the file back as it was |
|---|---|
| nothing of it yet | needs nothing |
| in part, and the older file does not undo that: streams and consumers that were made stay, for no file removes one | needs nothing |
| in part, and the older file would undo that: a new user, a changed field | needs ` + "`holdfast apply --rollback`" + ` |
| finished | needs ` + "`holdfast apply --rollback`" + ` |
`

func TestUpdatesPageIsUpToDate(t *testing.T) {
	const file = "../docs/updates.md"
	page := updatesPage(t, measurements(t))
	if *update {
		if err := os.WriteFile(file, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	have, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(have), "\n"), strings.Split(page, "\n")); diff != "" {
		t.Errorf("docs/updates.md is not current, run `go test ./bootstrap -update` (-page +now):\n%s", diff)
	}
}

func updatesPage(t *testing.T, cases []measured) string {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, pageHead, serverVersion(t))
	for _, kind := range []Kind{KindStream, KindConsumer} {
		fmt.Fprintf(&b, "\n## Fields of a %s\n\n| Field | Change | What happens | Needs | Reason |\n|---|---|---|---|---|\n", kind)
		for _, r := range pageRows(cases, kind) {
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", r.field, strings.Join(r.steps, "; "), r.class, consentOf(r.class), r.reason)
		}
	}
	b.WriteString("\n## Fields that change together\n\nThe server takes a change of the first field only with, or after, one of the others, where these change, too.\n" +
		"They are then done in one update, with the consent that the strongest of them needs.\n\n| Field | Together with |\n|---|---|\n")
	for _, field := range slices.Sorted(maps.Keys(needs)) {
		fmt.Fprintf(&b, "| `%s` | `%s` |\n", field, strings.Join(needs[field], "` `"))
	}
	b.WriteString("\n`max_age` below `duplicate_window` lowers the window with it, and `discard_new_per_subject` is turned off with `discard: old`\n" +
		"or without `max_msgs_per_subject`, even where the file does not say so: the server refuses it otherwise.\n")
	for _, field := range slices.Sorted(maps.Keys(apart)) {
		fmt.Fprintf(&b, "`%s` never changes in one update with `%s`; one follows the other.\n", field, strings.Join(apart[field], "` or `"))
	}
	b.WriteString("\n## What depends on something else\n\n| Field | Change | What the server says | What it takes |\n|---|---|---|---|\n")
	for _, m := range cases {
		if m.Other != "" && m.offered() {
			fmt.Fprintf(&b, "| %s `%s` | %s | %s | %s |\n", m.Kind, m.Field, m.Step, m.told, m.Other)
		}
	}
	return b.String()
}

func consentOf(c Class) string {
	switch c {
	case InPlace:
		return "nothing"
	case OnlyOnce:
		return "`apply`"
	case Drops, Anew:
		return "`apply --allow-destructive`"
	}
	return "not done"
}

type pageRow struct {
	field  string
	steps  []string
	class  Class
	reason string
}

// pageRows has one row for each field and outcome.
func pageRows(cases []measured, kind Kind) []pageRow {
	var rows []pageRow
	for _, m := range cases {
		if m.Kind != kind || m.Other != "" || m.With != nil && !m.Alone || !m.offered() {
			continue
		}
		class, why := m.class(m.Field, nil)
		field, part, _ := strings.Cut(m.Field, ".")
		i := slices.IndexFunc(rows, func(r pageRow) bool { return r.field == field && r.class == class && r.reason == why })
		if i < 0 {
			i = len(rows)
			rows = append(rows, pageRow{field: field, class: class, reason: why})
		}
		step := m.Step
		if part != "" {
			step = part + " " + step
		}
		rows[i].steps = append(rows[i].steps, step)
	}
	for i := range rows {
		same := func(r pageRow) bool { return r.field == rows[i].field }
		if first := slices.IndexFunc(rows, same); len(rows[i].steps) > 1 && first == i && !slices.ContainsFunc(rows[i+1:], same) {
			rows[i].steps = []string{"any"}
		}
	}
	order := slices.Clone(rows)
	first := func(r pageRow) int {
		return slices.IndexFunc(order, func(o pageRow) bool { return o.field == r.field })
	}
	slices.SortStableFunc(rows, func(a, b pageRow) int { return first(a) - first(b) })
	return rows
}

// offered reports whether the file has the field.
func (m measured) offered() bool {
	fields := config.APIFields[config.Stream]()
	if m.Kind == KindConsumer {
		fields = config.APIFields[config.Consumer]()
	}
	return slices.Contains(fields, FieldChange{Field: m.Field}.key())
}

func serverVersion(t *testing.T) string {
	t.Helper()
	mod, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`nats-io/nats-server/v2 v(\S+)`).FindSubmatch(mod)
	if m == nil {
		t.Fatal("go.mod: got no nats-server, want one")
	}
	return string(m[1])
}
