// SPDX-License-Identifier: Apache-2.0

package bootstrap

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
)

// stampManaged is the metadata key that Holdfast puts on what it makes.
const stampManaged = "holdfast.managed"

func (s Stream) spec() map[string]any {
	spec := merge(s.Defaults, s.Set)
	for field, v := range spec {
		// Nothing written inside means that there is to be none.
		if object, ok := v.(map[string]any); ok && len(object) == 0 {
			delete(spec, field)
		}
	}
	spec["name"] = s.Name
	return stamp(spec)
}

func (c Consumer) spec() map[string]any {
	spec := merge(c.Defaults, c.Set)
	spec["name"], spec["durable_name"] = c.Name, c.Name
	return stamp(spec)
}

// merge returns a copy of base with over on top, object by object.
func merge(base, over map[string]any) map[string]any {
	out := make(map[string]any, len(base)+len(over))
	for k, v := range base {
		if v != nil {
			out[k] = v
		}
	}
	for k, v := range over {
		if v == nil {
			continue
		}
		object, ok := v.(map[string]any)
		below, _ := out[k].(map[string]any)
		if ok {
			v = merge(below, object)
		}
		out[k] = v
	}
	return out
}

// stamp marks a specification as Holdfast's.
func stamp(spec map[string]any) map[string]any {
	own, _ := spec["metadata"].(map[string]any)
	spec["metadata"] = merge(own, map[string]any{stampManaged: "true"})
	return spec
}

// digest identifies a value: JSON sorts the keys of objects.
func digest(v any) string {
	// What is identified came from JSON, so it always goes back to JSON.
	text, _ := json.Marshal(v)
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}
