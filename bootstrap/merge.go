// SPDX-License-Identifier: Apache-2.0

package bootstrap

import (
	"maps"
	"slices"
	"strings"
)

// Merged returns the configuration of an existing object with the fields of an
// action's Spec on top: objects are merged key by key, a nil unsets. What the server
// adds to its answers is left out.
func Merged(have, set map[string]any) map[string]any { return WithoutServers(overlaid(have, set)) }

func overlaid(have, set map[string]any) map[string]any {
	out := make(map[string]any, len(have)+len(set))
	maps.Copy(out, have)
	for k, v := range set {
		object, isObject := v.(map[string]any)
		below, _ := out[k].(map[string]any)
		switch {
		case v == nil:
			delete(out, k)
		case isObject:
			out[k] = overlaid(below, object)
		default:
			out[k] = v
		}
	}
	return out
}

// WithoutServers returns a configuration without the metadata that the server adds to
// every answer.
func WithoutServers(config map[string]any) map[string]any {
	metadata, ok := config["metadata"].(map[string]any)
	if !ok {
		return config
	}
	out, own := maps.Clone(config), maps.Clone(metadata)
	maps.DeleteFunc(own, func(k string, _ any) bool { return strings.HasPrefix(k, "_nats.") })
	if out["metadata"] = own; len(own) == 0 {
		delete(out, "metadata")
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
