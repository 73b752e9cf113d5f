// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

// leastPayload is what the configuration of a stream needs as a message: the
// limit holds for requests to the JetStream API too.
const leastPayload = Size(32 << 10)

// accountLimits checks the streams of an account against what it may use.
func (c *checker) accountLimits(at path, a Account, streams []stream) {
	limits := object{c, at}.in("limits")
	l := a.Limits
	limits.errors(rule{or(l.Streams, Unlimited) > 0 && len(a.Streams) > int(or(l.Streams, 0)), diag.CodeConflict, "streams",
		fmt.Sprintf("the account declares %d streams", len(a.Streams)), "raise the limit, or remove streams"})
	limits.errors(rule{or(l.Payload, Unlimited) > 0 && or(l.Payload, 0) < leastPayload, diag.CodeValue, "payload",
		fmt.Sprintf("%s is too small for Holdfast's own requests in the account", or(l.Payload, 0)), fmt.Sprintf("write %s or more; max_msg_size of a stream bounds its messages", leastPayload)})
	for _, s := range streams {
		limits.errors(rule{or(l.Consumers, Unlimited) > 0 && len(s.Consumers) > int(or(l.Consumers, 0)), diag.CodeConflict, "consumers",
			fmt.Sprintf("%s declares %d consumers", c.ref(s.at), len(s.Consumers)), "raise the limit, or remove consumers"})
	}
	c.within(limits, "disk", l.Disk, onStorage(streams, "file"))
	c.within(limits, "memory", l.Memory, onStorage(streams, "memory"))
}

// within checks the byte limits of streams against the limit of their account.
func (c *checker) within(limits object, key string, limit *Size, streams []stream) {
	most := int64(or(limit, Unlimited))
	if most < 0 {
		return
	}
	ref := c.ref(limits.at.with(key))
	tooLarge := false
	for _, s := range streams {
		n := int64(or(s.MaxBytes, 0))
		tooLarge = tooLarge || n > most
		s.errors(rule{n > most, diag.CodeBudget, "max_bytes", fmt.Sprintf("%s is more than the %s of %s", Size(n), Size(most), ref), "write less, or raise the account's limit"})
	}
	sum := sumOf(streams)
	limits.errors(rule{!tooLarge && sum > most, diag.CodeBudget, key,
		fmt.Sprintf("the byte limits of the account's streams add up to %s: %s", bytesOf(sum), largest(streams)),
		fmt.Sprintf("write %s or more, or lower max_bytes of streams", Size(sum))})
}

// volume checks all byte limits against the volume that holds the messages.
func (c *checker) volume(size func(dir string) (int64, error)) {
	var streams []stream
	var accounts []path
	var promised int64
	for _, name := range keysOfMap(c.cfg.Accounts) {
		at := path{"accounts", name}
		streams = append(streams, onStorage(c.streamsOf(at, c.cfg.Accounts[name]), "file")...)
		if disk := c.cfg.Accounts[name].Limits.Disk; disk != nil && *disk > 0 {
			promised = add(promised, int64(*disk))
			accounts = append(accounts, at.with("limits").with("disk"))
		}
	}
	limit := path{"storage", "limit"}
	total, err := size(c.cfg.Node.DataDir)
	if err != nil {
		c.warn(diag.CodeBudget, path{"node", "data_dir"}, fmt.Sprintf("the size of its volume is not known, so byte limits were not compared with it: %v", err), "check again on the machine that runs the node")
		return
	}
	budget := c.cfg.Storage.Limit.Of(total)
	if budget > total {
		c.fail(diag.CodeBudget, limit, fmt.Sprintf("%s is more than the volume of node.data_dir has (%s)", c.cfg.Storage.Limit, bytesOf(total)), "write a share, such as 80%")
		return
	}
	if keep := c.cfg.Storage.KeepFree(total); keep >= total {
		c.fail(diag.CodeBudget, path{"storage", "min_free"}, fmt.Sprintf("%s is all that the volume of node.data_dir has (%s): nobody could publish", c.cfg.Storage.MinFree, bytesOf(total)), "write a share, such as 5%")
	}
	has := fmt.Sprintf("storage.limit allows (%s of %s is %s)", c.cfg.Storage.Limit, bytesOf(total), bytesOf(budget))
	if sum := sumOf(streams); sum > budget {
		at := limit
		if !c.cfg.isSet(limit...) {
			at = bySize(streams)[0].at.with("max_bytes")
		}
		c.fail(diag.CodeBudget, at, fmt.Sprintf("the byte limits of all streams add up to %s, more than %s; the largest: %s", bytesOf(sum), has, largest(streams)),
			"lower max_bytes of streams, raise storage.limit, or use a larger volume")
	}
	if promised > budget {
		slices.SortStableFunc(accounts, func(a, b path) int { return c.before(c.pos(a), c.pos(b)) })
		// The server reserves an account's disk at once, and gives no JetStream
		// to the one that does not fit any more.
		c.fail(diag.CodeBudget, accounts[len(accounts)-1], fmt.Sprintf("limits.disk of all accounts add up to %s, more than %s", bytesOf(promised), has), "lower limits.disk of accounts, raise storage.limit, or use a larger volume")
	}
}

func onStorage(streams []stream, kind string) []stream {
	return slices.DeleteFunc(slices.Clone(streams), func(s stream) bool { return s.storage != kind })
}

// sumOf adds the byte limits: one node keeps one copy of each stream.
func sumOf(streams []stream) int64 {
	var sum int64
	for _, s := range streams {
		if n := int64(or(s.MaxBytes, 0)); n > 0 {
			sum = add(sum, n)
		}
	}
	return sum
}

func add(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

func bySize(streams []stream) []stream {
	sorted := slices.Clone(streams)
	slices.SortStableFunc(sorted, func(a, b stream) int { return cmp.Compare(or(b.MaxBytes, 0), or(a.MaxBytes, 0)) })
	return sorted
}

// largest names the three streams with the largest byte limits.
func largest(streams []stream) string {
	var parts []string
	for _, s := range bySize(streams)[:min(3, len(streams))] {
		if or(s.MaxBytes, 0) <= 0 {
			break
		}
		parts = append(parts, fmt.Sprintf("%s/%s %s", s.at[1], s.name, or(s.MaxBytes, 0)))
	}
	return strings.Join(parts, ", ")
}

func bytesOf(n int64) string { return humanize.IBytes(uint64(max(n, 0))) }
