// SPDX-License-Identifier: Apache-2.0

package bootstrap

import (
	"maps"
	"slices"
	"strings"
)

// Merged returns the configuration of an existing object with the fields of an
// action's Spec on top: objects are merged key by key, a nil unsets. What the
// server adds to its answers is left out.
func Merged(have, set map[string]any) map[string]any {
	out := maps.Clone(have)
	for k, v := range set {
		object, isObject := v.(map[string]any)
		switch {
		case v == nil:
			delete(out, k)
		case isObject:
			below, _ := out[k].(map[string]any)
			out[k] = merge(below, object)
		default:
			out[k] = v
		}
	}
	if metadata, ok := out["metadata"].(map[string]any); ok {
		metadata = maps.Clone(metadata)
		maps.DeleteFunc(metadata, func(k string, _ any) bool { return strings.HasPrefix(k, "_nats.") })
		out["metadata"] = metadata
	}
	return out
}

// Unmet returns the fields of an action's Spec that a configuration does not have:
// the server takes some changes without making them. want is the whole configuration
// that was asked for.
func Unmet(k Kind, set, want, have map[string]any) []FieldChange {
	var changes []FieldChange
	for _, c := range compare(k, want, have) {
		if _, ok := set[c.key()]; ok {
			changes = append(changes, c)
		}
	}
	for field, v := range set {
		if v == nil && !isZero(have[field]) && !slices.Contains(rulesOf(k).chosen, field) && !strings.HasPrefix(field, "filter_subject") {
			changes = append(changes, FieldChange{Field: field, Have: have[field], Unset: true})
		}
	}
	return changes
}
