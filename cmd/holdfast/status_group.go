// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/holdfast-mq/holdfast/appliance/admin"
)

// mostNamed bounds how many streams a line names.
const mostNamed = 3

// groupLines say how many streams have group commit, what went through it, and why the
// others don't. A stream that is not in the file is not counted: `*` says so already.
func groupLines(accounts []admin.AccountStatus) []string {
	var sum admin.GroupCounters
	var whys []string
	off := map[string][]string{}
	on, declared := 0, 0
	for _, a := range accounts {
		add(&sum, a.GroupCommit)
		for _, s := range a.Streams {
			if !s.InFile {
				continue
			}
			declared++
			if why := s.GroupCommit.Reason; s.GroupCommit.On {
				on++
			} else {
				if off[why] == nil {
					whys = append(whys, why)
				}
				off[why] = append(off[why], a.Name+"/"+s.Name)
			}
		}
	}
	if declared == 0 {
		return nil
	}
	lines := []string{fmt.Sprintf("on for %d of %d streams%s", on, declared, countersText(sum))}
	for _, why := range whys {
		lines = append(lines, "off for "+someOf(off[why])+": "+why)
	}
	return lines
}

func add(sum, more *admin.GroupCounters) {
	if more == nil {
		return
	}
	sum.Alone += more.Alone
	sum.Grouped += more.Grouped
	sum.Batches += more.Batches
	sum.Fallbacks += more.Fallbacks
	sum.Refused += more.Refused
	sum.Unanswered += more.Unanswered
}

// countersText says what went through group commit, and what is no good news.
func countersText(c admin.GroupCounters) string {
	if c == (admin.GroupCounters{}) {
		return ""
	}
	text := fmt.Sprintf("; %s in %s, %s alone", count(int(c.Grouped), "message"), batchesText(c.Batches), comma(c.Alone))
	for _, bad := range []struct {
		n    uint64
		what string
	}{
		{c.Fallbacks, "batches refused and sent one by one"},
		{c.Refused, "messages refused: too many waited"},
		{c.Unanswered, "not answered in time"},
	} {
		if bad.n > 0 {
			text += "; " + comma(bad.n) + " " + bad.what
		}
	}
	return text
}

func batchesText(n uint64) string {
	if n == 1 {
		return "1 batch"
	}
	return comma(n) + " batches"
}

func comma(n uint64) string { return humanize.Comma(int64(n)) }

func someOf(names []string) string {
	if len(names) <= mostNamed {
		return strings.Join(names, ", ")
	}
	return strings.Join(names[:mostNamed], ", ") + fmt.Sprintf(" and %d more", len(names)-mostNamed)
}

func flushText(seconds float64) string {
	if seconds == 0 {
		return ""
	}
	return "; a flush takes " + time.Duration(seconds*float64(time.Second)).Round(time.Microsecond).String()
}

func yesNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}
