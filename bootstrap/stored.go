// SPDX-License-Identifier: Apache-2.0

package bootstrap

import (
	"encoding/json"
	"maps"
	"slices"
)

// rules is what the server makes of the values of one kind of object, so that
// its own defaults and corrections are no differences. Read off nats-server
// 2.15.3 (checkStreamCfgLocked, setConsumerConfigDefaults); the tests of
// bootstrap/jetstream hold them against the real server.
type rules struct {
	// noLimit fields are stored as -1 for 0 and everything below.
	noLimit []string
	// notNegative fields are stored as 0 for everything below.
	notNegative []string
	// chosen fields are filled by the server when they are 0 or empty, from
	// values that depend on other fields and on limits.
	chosen []string
	// implied is the value of a field that the server leaves out.
	implied map[string]string
}

func rulesOf(k Kind) rules {
	if k == KindConsumer {
		return rules{
			noLimit: []string{"max_deliver"},
			notNegative: []string{"max_waiting", "max_batch", "max_expires", "max_bytes",
				"idle_heartbeat", "inactive_threshold", "priority_timeout"},
			chosen: []string{"ack_wait", "max_waiting", "max_ack_pending", "max_batch",
				"idle_heartbeat", "inactive_threshold", "priority_timeout"},
			implied: map[string]string{"deliver_policy": "all", "replay_policy": "instant", "priority_policy": "none"},
		}
	}
	return rules{
		noLimit: []string{"max_consumers", "max_msgs", "max_bytes", "max_msgs_per_subject", "max_msg_size"},
		chosen:  []string{"duplicate_window", "num_replicas", "subjects"},
		implied: map[string]string{"persist_mode": "default", "compression": "none"},
	}
}

// asStored returns what the server stores for the fields that are set, without
// those it chooses itself.
func asStored(k Kind, set map[string]any) map[string]any {
	want, r := maps.Clone(set), rulesOf(k)
	for _, f := range r.noLimit {
		if n, ok := number(want[f]); ok && n.Sign() <= 0 {
			want[f] = json.Number("-1")
		}
	}
	for _, f := range r.notNegative {
		if n, ok := number(want[f]); ok && n.Sign() < 0 {
			want[f] = json.Number("0")
		}
	}
	if backoff, ok := want["backoff"].([]any); ok && len(backoff) > 0 && want["ack_wait"] != nil {
		want["ack_wait"] = backoff[0]
	}
	for _, f := range r.chosen {
		if isZero(want[f]) {
			delete(want, f)
		}
	}
	if mirror, ok := want["mirror"].(map[string]any); ok && isLocal(mirror) {
		// Taken from the origin's allow_direct, whatever the mirror asks for.
		delete(want, "mirror_direct")
	}
	if republish, ok := want["republish"].(map[string]any); ok && len(republish) > 0 {
		want["republish"] = storedRepublish(republish, want)
	}
	return want
}

// storedRepublish fills an empty source. From everything to everything means
// the subjects after the stream's transform.
func storedRepublish(republish, set map[string]any) map[string]any {
	const all = ">"
	r := maps.Clone(republish)
	if text(r["src"]) == "" {
		r["src"] = all
	}
	transform, _ := set["subject_transform"].(map[string]any)
	subjects, _ := set["subjects"].([]any)
	if r["src"] == all && r["dest"] == all && len(subjects) == 1 &&
		transform != nil && transform["src"] == subjects[0] {
		r["src"], r["dest"] = transform["dest"], transform["dest"]
	}
	return r
}

// filters returns what a consumer filters, whichever of the two fields says it.
func filters(config map[string]any) []any {
	if many, ok := config["filter_subjects"].([]any); ok && len(many) > 0 {
		return many
	}
	if one := text(config["filter_subject"]); one != "" {
		return []any{one}
	}
	return nil
}

// compareFilters compares the filters of a consumer as one field, under the
// name the file uses.
func compareFilters(want, have map[string]any) []FieldChange {
	_, one := want["filter_subject"]
	_, many := want["filter_subjects"]
	if !one && !many {
		return nil
	}
	w, h := filters(want), filters(have)
	if sameElements(w, h) {
		return nil
	}
	c := FieldChange{Field: "filter_subjects", Have: shortFilters(h), Want: shortFilters(w)}
	if !many {
		c.Field = "filter_subject"
	}
	return []FieldChange{c}
}

func shortFilters(f []any) any {
	switch len(f) {
	case 0:
		return nil
	case 1:
		return f[0]
	}
	return slices.Clone(f)
}
