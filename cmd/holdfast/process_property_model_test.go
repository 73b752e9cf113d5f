// SPDX-License-Identifier: Apache-2.0

//go:build process && linux

package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-mq/holdfast/bootstrap"
)

// Everything here is said a second time, apart from the product: what the file asks
// for, what can't be had, and which messages a stream may remove by itself.

// apiValue turns a value of a file into that of the API.
func apiValue(field string, v any) any {
	switch field {
	case "max_age", "duplicate_window", "subject_delete_marker_ttl", "ack_wait", "max_expires", "idle_heartbeat", "backoff":
		return nanoseconds(v)
	}
	if v == "unlimited" {
		return float64(-1)
	}
	return v
}

func nanoseconds(v any) any {
	if list, ok := v.([]any); ok {
		out := make([]any, len(list))
		for i := range list {
			out[i] = nanoseconds(list[i])
		}
		return out
	}
	text, _ := v.(string)
	d, err := time.ParseDuration(text)
	if err != nil {
		return v
	}
	return float64(d)
}

// zero is what the server leaves out.
func zero(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case bool:
		return !v
	case float64:
		return v == 0
	case string:
		return v == "" || v == "none" || v == "default"
	case []any:
		return len(v) == 0
	case map[string]any:
		return !slices.ContainsFunc(slices.Collect(maps.Values(v)), func(e any) bool { return !zero(e) })
	}
	return false
}

// met reports whether a configuration on the server is as the file has it.
func met(field string, want any, have map[string]any) bool {
	got := have[field]
	if strings.HasPrefix(field, "filter_subject") {
		return asJSON(filtersOf(map[string]any{field: want})) == asJSON(filtersOf(have))
	}
	if field == "replay_policy" || field == "deliver_policy" || field == "ack_policy" {
		return got == want
	}
	object, isObject := want.(map[string]any)
	if field == "metadata" || isObject && len(object) > 0 && field != "mirror" {
		in, _ := got.(map[string]any)
		for k, v := range object {
			if !(zero(v) && zero(in[k])) && in[k] != v {
				return false
			}
		}
		return true
	}
	want = apiValue(field, want)
	return zero(want) && zero(got) || asJSON(want) == asJSON(got)
}

func filtersOf(c map[string]any) []any {
	if many, ok := c["filter_subjects"].([]any); ok && len(many) > 0 {
		return many
	}
	if f, ok := c["filter_subject"].(string); ok && f != "" {
		return []any{f}
	}
	return nil
}

func asJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// over is a configuration with the fields of the file on top.
func over(have, file map[string]any) map[string]any {
	out := maps.Clone(have)
	for field, v := range file {
		if strings.HasPrefix(field, "filter_subject") {
			delete(out, "filter_subject")
			delete(out, "filter_subjects")
		}
		out[field] = apiValue(field, v)
	}
	return out
}

// barred reports whether a field of a stream that exists can't become what the file
// says: docs/updates.md says blocked.
func barred(field string, have, file map[string]any) bool {
	want := over(have, file)
	is := func(c map[string]any, f string) bool { return !zero(c[f]) }
	on := is(want, field)
	if is(have, "sealed") && (is(want, "subject_delete_marker_ttl") || is(want, "allow_msg_schedules")) {
		return true
	}
	switch field {
	case "first_seq", "allow_msg_counter":
		return true
	case "mirror":
		return on
	case "deny_delete", "allow_msg_ttl", "sealed":
		return !on || is(have, "sealed")
	case "deny_purge":
		return !on || is(want, "allow_rollup_hdrs") || is(have, "sealed")
	case "allow_msg_schedules", "subject_delete_marker_ttl":
		return field == "allow_msg_schedules" && !on || on && is(have, "deny_purge") && !is(have, "allow_rollup_hdrs")
	case "allow_rollup_hdrs":
		needed := is(want, "allow_msg_schedules") || is(want, "subject_delete_marker_ttl")
		return is(have, "sealed") || on && is(have, "deny_purge") || !on && needed
	case "max_age", "discard_new_per_subject":
		return is(have, "sealed")
	case "discard":
		return is(have, "sealed") || want["discard"] == "new" && (is(want, "allow_msg_schedules") || is(want, "allow_msg_counter"))
	case "sources":
		return on && is(want, "allow_msg_schedules")
	case "allow_atomic":
		return on && want["persist_mode"] == "async"
	}
	return false
}

// unmovable reports whether a stream can't be copied, or its copy can't be what it is
// to become: docs/adr/0005 says refused.
func unmovable(s *shelf, file *worldStream) bool {
	want := over(s.config, file.fields)
	for _, c := range []map[string]any{s.config, want} {
		if !zero(c["sealed"]) || !zero(c["mirror"]) || !zero(c["sources"]) || !zero(c["allow_msg_schedules"]) {
			return true
		}
	}
	if want["retention"] == "interest" && s.config["retention"] == "workqueue" {
		return true // refused where a message is for no consumer
	}
	if want["retention"] == "workqueue" {
		// Consumers that are not in the file any more may not fit a work queue.
		for name := range s.consumers {
			if _, ok := file.consumers[name]; !ok {
				return true
			}
		}
	}
	return want["storage"] == "file" && s.config["storage"] == "memory" && !zero(want["max_bytes"]) && want["max_bytes"].(float64) < 1<<20
}

// excused reports whether an action may be left of a plan after everything was
// allowed.
func excused(a bootstrap.Action, s *shelf, file *worldStream) bool {
	if s == nil || file == nil {
		return false
	}
	switch {
	case a.Op == bootstrap.Blocked && a.Kind == bootstrap.KindStream:
		return slices.ContainsFunc(a.Changes, func(c bootstrap.FieldChange) bool {
			field, _, _ := strings.Cut(c.Field, ".")
			return barred(field, s.config, file.fields)
		})
	case a.Op == bootstrap.Blocked && s.consumers[a.Consumer] != nil:
		want := over(s.consumers[a.Consumer].Config, file.consumers[a.Consumer])
		return !zero(want["backoff"]) && slices.ContainsFunc(a.Changes, func(c bootstrap.FieldChange) bool { return c.Field == "ack_wait" })
	case a.Op == bootstrap.Recreate && a.Kind == bootstrap.KindConsumer && file.consumers[a.Consumer]["deliver_policy"] == "by_start_sequence":
		return true // refused where it would skip a message
	case a.Op == bootstrap.Recreate, a.Op == bootstrap.Create && a.Kind == bootstrap.KindConsumer:
		return unmovable(s, file)
	}
	return false
}

// mostOf is more than a message of the test takes in a stream.
const mostOf = 300

// keeps reports whether a message has to be there still. regimes are the
// configurations that the stream had meanwhile, or may have had.
func (s *shelf) keeps(seq, last uint64, sameSubject uint64, regimes []map[string]any) bool {
	// A lower limit per subject, which somebody allowed, counts whatever the discard policy.
	newer, old, perSubject := last-seq, false, len(regimes) > 1
	for _, c := range regimes {
		old = old || c["discard"] == "old"
		perSubject = perSubject || c["discard"] == "old" || zero(c["discard_new_per_subject"])
	}
	limit := func(c map[string]any, field string) uint64 {
		n, _ := c[field].(float64)
		if n <= 0 {
			return 1 << 40
		}
		return uint64(n)
	}
	for _, c := range regimes {
		switch {
		case old && (newer >= limit(c, "max_msgs") || (newer+1)*mostOf > limit(c, "max_bytes")):
			return false
		case perSubject && sameSubject >= limit(c, "max_msgs_per_subject"):
			return false
		}
	}
	return true
}

// volatile streams lose messages when the process ends.
func volatile(c map[string]any) bool { return c["storage"] == "memory" || c["persist_mode"] == "async" }

// patient reports whether a consumer keeps every message of an interest stream: it
// was there before, wants all, and nobody in the test fetches from it.
func patient(name string, have, file map[string]any) bool {
	want := over(have, file)
	return name == "keep" && !slices.ContainsFunc([]map[string]any{have, want}, func(c map[string]any) bool {
		return len(filtersOf(c)) > 0 || c["ack_policy"] != "explicit" || c["deliver_policy"] != "all" || !zero(c["deliver_subject"])
	})
}

// waits reports whether everything that a stream holds, and that nobody fetched, has
// to be waiting for a consumer.
func (s *shelf) waits(c *shelfConsumer, fetched func(seq uint64) bool) (want, got uint64, sure bool) {
	if c == nil || c.Config["ack_policy"] != "explicit" || c.Config["deliver_policy"] != "all" || len(filtersOf(c.Config)) > 0 {
		return 0, 0, false
	}
	for seq := range s.msgs {
		if !fetched(seq) {
			want++
		}
	}
	return want, c.Pending + c.AckPending, true
}

// changesLeft are the actions of a plan that change something, or are blocked,
// without excuse, and the fields of the others, by object and name.
func changesLeft(p bootstrap.Plan, have shelves, w world) (left []string, open map[string]bool) {
	open = map[string]bool{}
	for _, a := range p.Actions {
		if !a.Op.Changes() && a.Op != bootstrap.Blocked && a.Op != bootstrap.Unknown {
			continue
		}
		var file *worldStream
		if acc := w[a.Account]; acc != nil {
			file = acc.Streams[a.Stream]
		}
		if !excused(a, have[a.Allowance()], file) {
			left = append(left, fmt.Sprintf("%s %s %s: %s", a.Op, a.Path(), a.Changes, a.Reason))
		}
		open[a.Path()] = true
		for _, c := range a.Changes {
			field, _, _ := strings.Cut(c.Field, ".")
			open[a.Path()+" "+field] = true
		}
	}
	return left, open
}

// unlike are the fields of a world that the server does not have as it says, besides
// those that are open.
func unlike(w world, have shelves, open map[string]bool) []string {
	var out []string
	compare := func(path string, file, have map[string]any) {
		for field, v := range file {
			if !open[path+" "+field] && !met(field, v, have) {
				out = append(out, fmt.Sprintf("%s: %s is %v, the file says %v", path, field, have[field], v))
			}
		}
	}
	for account, acc := range w {
		for name, file := range acc.Streams {
			path := account + "/" + name
			s := have[path]
			if s == nil && open[path] {
				continue
			}
			if s == nil {
				out = append(out, path+" is missing")
				continue
			}
			compare(path, file.fields, s.config)
			for c, fields := range file.consumers {
				switch {
				case s.consumers[c] != nil:
					compare(path+"/"+c, fields, s.consumers[c].Config)
				case !open[path+"/"+c]:
					out = append(out, path+"/"+c+" is missing")
				}
			}
		}
	}
	slices.Sort(out)
	return out
}
