// SPDX-License-Identifier: Apache-2.0

package config

import (
	"encoding/json"
	"slices"
	"strings"
)

// Schema returns the key table as a JSON schema (draft 2020-12), for editors.
// It knows the form of each value; what values mean together only Load knows.
func Schema() []byte {
	s := schemaOf(table())
	s["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	s["title"] = "Holdfast configuration"
	// Maps of strings, lists and booleans always become JSON.
	text, _ := json.MarshalIndent(s, "", "  ")
	return append(text, '\n')
}

func schemaOf(n *node) map[string]any {
	s := map[string]any{}
	switch n.shape {
	case shapeObject:
		properties := map[string]any{}
		for _, name := range n.order {
			properties[name] = schemaOf(n.fields[name])
		}
		s["type"] = []string{"object", "null"}
		s["properties"] = properties
		s["additionalProperties"] = false
	case shapeMap:
		s["type"] = []string{"object", "null"}
		s["additionalProperties"] = schemaOf(n.elem)
		if n.names != "" {
			s["propertyNames"] = map[string]any{"pattern": `^[^\s.*>/\\]+$`, "maxLength": maxName}
		}
	case shapeList:
		s["type"] = "array"
		s["items"] = schemaOf(n.elem)
	case shapeFree:
		s["type"] = []string{"object", "null"}
	default:
		s = schemaOfValue(n.key)
	}
	if n.key.Help != "" {
		s["description"] = n.key.description()
	}
	if n.key.Default != "" {
		s["default"] = fromText(n, n.key.Default)
	}
	return s
}

// description is the help, and what belongs to a later version.
func (k Key) description() string {
	switch {
	case slices.Contains(k.Later, "*"):
		return k.Help + " (not in this version)"
	case k.Later != nil:
		return k.Help + " (not in this version: " + strings.Join(k.Later, ", ") + ")"
	}
	return k.Help
}

func schemaOfValue(k Key) map[string]any {
	text := func(pattern string) map[string]any { return map[string]any{"type": "string", "pattern": pattern} }
	whole := func(least int) map[string]any { return map[string]any{"type": "integer", "minimum": least} }
	either := func(options ...any) map[string]any { return map[string]any{"anyOf": options} }
	word := func(w string) map[string]any { return map[string]any{"const": w} }
	const size = `^\d+(\.\d+)?\s*([kKmMgGtTpPeE][iI]?)?[bB]$`
	switch k.Kind {
	case "boolean":
		return map[string]any{"type": "boolean"}
	case "number":
		return whole(0)
	case "size":
		return either(whole(1), text(size), word("unlimited"))
	case "count":
		return either(whole(1), word("unlimited"))
	case "share":
		return either(whole(101), text(`^\s*\d+(\.\d+)?\s*%\s*$`), text(size))
	case "replicas":
		return either(word("auto"), map[string]any{"type": "integer", "minimum": 1, "maximum": maxReplicas})
	case "duration":
		return text(`^(\d+(\.\d+)?d)?(\d*\.?\d+(ns|us|µs|ms|s|m|h))*$`)
	case "time":
		return text(`^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?(Z|[+-]\d{2}:\d{2})$`)
	case "address":
		return text(`^(off|.+:\d{1,5})?$`)
	case "subject":
		return text(`^[^\s.]+(\.[^\s.]+)*$`)
	case "secret":
		return text(`^(file:.+)?$`)
	}
	s := map[string]any{"type": "string"}
	if k.Enum != nil {
		s["enum"] = k.Enum
	}
	return s
}
