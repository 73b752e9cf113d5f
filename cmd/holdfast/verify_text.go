// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/holdfast-mq/holdfast/appliance/admin"
)

// print says what a pass found, and what to do.
func (v *verifying) print(out verifyAnswer) {
	w := v.std.out
	took := out.Ended.Sub(out.Begun)
	fmt.Fprintf(w, "Read %s, %s, %s, %s in %s.\n", count(out.Streams, "stream"), count(out.Blocks, "block"), count(out.Messages, "message"),
		sizeText(out.Bytes), since(took.Seconds()))
	if out.Hidden > 0 {
		fmt.Fprintf(w, "Not verified: %s, which are encrypted: the node verifies them while it runs, with its key.\n", count(out.Hidden, "block"))
	}
	for _, p := range out.Problems {
		fmt.Fprintf(w, "Not read, or not kept: %s\n", p)
	}
	if len(out.Damage) == 0 {
		switch {
		case out.Hidden > 0:
			fmt.Fprintln(w, "Nothing is damaged of what could be read.")
		case len(out.Problems) == 0:
			fmt.Fprintln(w, "Nothing is damaged.")
		}
		return
	}
	fmt.Fprintf(w, "\n%s found:\n", count(len(out.Damage), "damage"))
	for _, d := range out.Damage {
		printDamage(w, d)
	}
	if v.mend {
		return
	}
	fmt.Fprintln(w, "\nWhat to do: look at the disk (`dmesg`, `smartctl -a`), tell who publishes which sequences are missing, then")
	if out.Node == "running" {
		fmt.Fprintln(w, "`holdfast verify --mend`, or restart the node: only what is damaged goes. Until then the server")
		fmt.Fprintln(w, "cuts a block off where it is damaged when it reads it; the copies in the quarantine have what is behind.")
		return
	}
	fmt.Fprintln(w, "`holdfast verify --mend`: only what is damaged goes. Without it the server cuts a block off where it is")
	fmt.Fprintln(w, "damaged when it reads it.")
}

func printDamage(w io.Writer, d admin.Damage) {
	fmt.Fprintf(w, "  %s  %s\n", d.Stream, d.Lost)
	if d.Original != "" {
		fmt.Fprintf(w, "      as it was found: %s\n", d.Original)
	}
}

func (v *verifying) printMended(done admin.MendAnswer, running bool) {
	w := v.std.out
	fmt.Fprintf(w, "\nMended")
	if running {
		fmt.Fprintf(w, "; the streams were closed for %s", since(done.ClosedSeconds))
	}
	fmt.Fprintln(w, ". Gone for good:")
	for _, d := range done.Damage {
		printDamage(w, d)
	}
	if len(done.Damage) == 0 {
		fmt.Fprintln(w, "  nothing more: the damage was not there any more")
	}
}

// verifiedText says when everything was read last, for status.
func verifiedText(s admin.VerifyStatus, now time.Time) string {
	text := "not yet"
	if l := s.Last; l != nil {
		text = fmt.Sprintf("all %s, %s, %s", count(l.Streams, "stream"), agoText(now.Sub(l.Ended)), foundText(*l))
	} else if s.Every == 0 {
		text = "never; `holdfast verify` does it"
	}
	switch r := s.Running; {
	case r != nil && r.StreamsTotal > 0:
		text += fmt.Sprintf("; under way: %s, now %s", passText(*r), r.Current)
	case r != nil:
		text += "; under way"
	case s.Every == 0 && s.Last != nil:
		text += "; not by itself any more"
	}
	return text
}

func foundText(l admin.VerifiedLast) string {
	text := "nothing damaged"
	if l.Damaged > 0 {
		text = count(l.Damaged, "damage") + " found"
	}
	if l.Hidden > 0 {
		text += fmt.Sprintf(", %s not looked into (encrypted)", count(l.Hidden, "block"))
	}
	if l.Problems > 0 {
		text += ", not all could be read: the log says what"
	}
	return text
}

func agoText(d time.Duration) string {
	switch days := int(d.Hours() / 24); {
	case days >= 2:
		return humanize.Comma(int64(days)) + " days ago"
	case d >= time.Minute:
		return strings.TrimSuffix(d.Round(time.Minute).String(), "0s") + " ago"
	}
	return "just now"
}
