// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/holdfast-mq/holdfast/appliance/admin"
	"github.com/holdfast-mq/holdfast/appliance/config"
	"github.com/holdfast-mq/holdfast/appliance/metrics"
)

// tellGrouped keeps what was decided for those who ask, and logs what is new in it.
func (a *Appliance) tellGrouped(decided map[string][]decision) {
	now := summarise(decided)
	a.mu.Lock()
	before := summarise(a.groups)
	a.groups = decided
	a.mu.Unlock()
	switch {
	case now == before || now.on == 0 && now.why == notYet:
	case now.on > 0:
		a.log.Info("group commit is on", keyCount, now.on, keyTotal, now.streams)
	default:
		a.log.Info("group commit is off", keyReason, now.why)
	}
}

// notYet is why group commit is off where the leading node has its say: a moment later, or
// for reasons of its own.
const notYet = "the leading node has not turned it on; `holdfast status` there says why"

// groupSummary is about the declared streams of all accounts.
type groupSummary struct {
	on, streams int
	why         string // for most of those that are off
}

func summarise(decided map[string][]decision) groupSummary {
	var s groupSummary
	reasons := map[string]int{}
	for _, list := range decided {
		for _, g := range list {
			s.streams++
			if g.on {
				s.on++
			} else {
				reasons[g.why]++
			}
		}
	}
	for _, why := range slices.Sorted(maps.Keys(reasons)) {
		if s.why == "" || reasons[why] > reasons[s.why] {
			s.why = why
		}
	}
	switch more := len(reasons) - 1; {
	case more == 1:
		s.why += "; and for one more reason, see `holdfast status`"
	case more > 1:
		s.why += "; and for " + strconv.Itoa(more) + " more reasons, see `holdfast status`"
	}
	return s
}

// decisions returns what was decided of each declared stream, by account.
func (a *Appliance) decisions() map[string][]decision {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.groups // replaced as a whole, never changed
}

// groupStatus says of any stream whether its messages are grouped.
func (a *Appliance) groupStatus(account, stream string, declared bool) admin.GroupCommit {
	if !declared {
		return admin.GroupCommit{Reason: "not in the file"}
	}
	for _, g := range a.decisions()[account] {
		if g.lane.Stream == stream {
			if g.why == notYet {
				g.why = cmp.Or(a.offByLeader(account, stream), notYet)
			}
			return admin.GroupCommit{On: g.on, Reason: g.why}
		}
	}
	// A node that follows others applies nothing: what can be said without is said.
	if mode, why := a.config().GroupCommit(account, stream); mode == config.GroupOff {
		return admin.GroupCommit{Reason: why}
	}
	return admin.GroupCommit{Reason: "not applied yet"}
}

// groupCounters returns what went through group commit in an account since the start;
// nil when nothing can.
func (a *Appliance) groupCounters(account string) *admin.GroupCounters {
	s := a.ingest.Accounts()[account]
	if s == nil {
		return nil
	}
	return &admin.GroupCounters{
		Alone: s.Alone.Load(), Grouped: s.Grouped.Load(), Batches: s.Batches.Load(),
		Fallbacks: s.Fallbacks.Load(), Refused: s.Refused.Load(), Unanswered: s.Unanswered.Load(),
	}
}

// GroupCommit is what group commit does, for metrics.
func (a *Appliance) GroupCommit() metrics.GroupCommit {
	out := metrics.GroupCommit{Flush: a.flush}
	for account, list := range a.decisions() {
		for _, g := range list {
			out.Streams = append(out.Streams, metrics.GroupedStream{Account: account, Stream: g.lane.Stream, On: g.on})
		}
	}
	for account := range a.ingest.Accounts() {
		if c := a.groupCounters(account); c != nil {
			out.Accounts = append(out.Accounts, metrics.GroupedAccount{
				Account: account, Alone: c.Alone, Grouped: c.Grouped, Batches: c.Batches,
				Fallbacks: c.Fallbacks, Refused: c.Refused, Unanswered: c.Unanswered,
			})
		}
	}
	return out
}

// shortDuration is a measured time as people write it.
func shortDuration(d time.Duration) string { return d.Round(time.Microsecond).String() }
