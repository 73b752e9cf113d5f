// SPDX-License-Identifier: Apache-2.0

package bootstrap

import "slices"

// needs names, for a field, the fields whose change the server wants in the same
// request or before it. Only fields that do change count.
var needs = map[string][]string{
	// Streams.
	"subjects":                  {"republish", "no_ack", "mirror"},
	"republish":                 {"subjects"},
	"no_ack":                    {"subjects"},
	"max_age":                   {"duplicate_window"},
	"duplicate_window":          {"max_age"},
	"max_msgs_per_subject":      {"discard_new_per_subject"},
	"discard":                   {"discard_new_per_subject"},
	"discard_new_per_subject":   {"discard", "max_msgs_per_subject"},
	"num_replicas":              {"persist_mode"},
	"sources":                   {"mirror"},
	"deny_purge":                {"allow_rollup_hdrs"},
	"allow_rollup_hdrs":         {"subject_delete_marker_ttl"},
	"subject_delete_marker_ttl": {"mirror"},
	"allow_atomic":              {"mirror", "persist_mode"},
	"allow_batched":             {"mirror"},
	"allow_msg_schedules":       {"discard", "sources", "mirror"},
	// Consumers.
	"ack_wait":         {"backoff", "ack_policy"},
	"max_deliver":      {"backoff", "ack_policy"},
	"backoff":          {"max_deliver", "ack_policy"},
	"filter_subject":   {"filter_subjects", "deliver_policy"},
	"filter_subjects":  {"filter_subject", "deliver_policy"},
	"rate_limit_bps":   {"deliver_subject"},
	"max_ack_pending":  {"ack_policy"},
	"priority_groups":  {"priority_policy", "deliver_subject"},
	"priority_policy":  {"priority_groups", "priority_timeout", "deliver_subject"},
	"priority_timeout": {"priority_policy", "priority_groups", "deliver_subject"},
}

// follows names, for a field, the fields whose change makes one of it necessary, or
// gives it a meaning: it is made together with them or not at all.
var follows = map[string][]string{
	"mirror_direct":   {"mirror"},
	"deliver_group":   {"deliver_subject"},
	"flow_control":    {"deliver_subject"},
	"idle_heartbeat":  {"deliver_subject"},
	"max_waiting":     {"deliver_subject"},
	"max_batch":       {"deliver_subject"},
	"max_expires":     {"deliver_subject"},
	"max_bytes":       {"deliver_subject"},
	"opt_start_seq":   {"deliver_policy"},
	"opt_start_time":  {"deliver_policy"},
	"max_ack_pending": {"ack_policy"},
}

// apart names, for a field, the fields that the server does not change in the
// same request, nor before the first change is complete.
var apart = map[string][]string{
	"placement": {"num_replicas", "retention"},
}

// entailed returns the changes that the file does not ask for and without which
// the server refuses those it does ask for. want is the configuration after them.
func entailed(kind Kind, changes []FieldChange, have, want map[string]any) []FieldChange {
	if kind != KindStream {
		return leftBehind(changes, have, want)
	}
	var more []FieldChange
	add := func(field string, v any) {
		if !slices.ContainsFunc(changes, func(c FieldChange) bool { return c.key() == field }) {
			more = append(more, FieldChange{Field: field, Have: have[field], Want: v})
		}
	}
	if limited(want, "duplicate_window") && lowered(want["duplicate_window"], want["max_age"]) {
		add("duplicate_window", want["max_age"])
	}
	if isOn(want, "discard_new_per_subject") && (text(want["discard"]) != "new" || !limited(want, "max_msgs_per_subject")) {
		add("discard_new_per_subject", false)
	}
	return more
}

// leftBehind are the fields that go with another kind of consumer than it becomes.
func leftBehind(changes []FieldChange, have, want map[string]any) []FieldChange {
	var more []FieldChange
	drop := func(fields ...string) {
		for _, field := range fields {
			known := slices.ContainsFunc(slices.Concat(changes, more), func(c FieldChange) bool { return c.key() == field })
			if !known && !isZero(have[field]) {
				more = append(more, FieldChange{Field: field, Have: have[field], Unset: true})
			}
		}
	}
	switch push, wasPush := !isZero(want["deliver_subject"]), !isZero(have["deliver_subject"]); {
	case push && !wasPush:
		drop("max_waiting", "max_batch", "max_expires", "max_bytes", "priority_groups", "priority_policy", "priority_timeout")
	case wasPush && !push:
		drop("deliver_group", "flow_control", "idle_heartbeat", "rate_limit_bps")
	}
	if text(want["priority_policy"]) == "none" {
		drop("priority_groups", "priority_timeout")
	}
	if text(want["deliver_policy"]) != "by_start_sequence" {
		drop("opt_start_seq")
	}
	if text(want["deliver_policy"]) != "by_start_time" {
		drop("opt_start_time")
	}
	if text(want["ack_policy"]) == "none" && text(have["ack_policy"]) != "none" {
		drop("max_ack_pending", "backoff")
		if isZero(want["backoff"]) { // else it is the first step of that
			drop("ack_wait")
		}
	}
	return more
}
