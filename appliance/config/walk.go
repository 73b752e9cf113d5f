// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

// walker checks the values of one source against the key table. What does not
// fit is reported and left out, so that the rest can still be checked: one run
// shows every problem.
type walker struct {
	problems *diag.List
	pos      func(p path) diag.Pos // of the value
	keyPos   func(p path) diag.Pos // of the key
	keysPos  func(p path) diag.Pos // of the value, where that is a set of keys
	base     string                // directory that relative paths start from
	refused  map[string]bool       // keys that were left out
	later    int                   // above 0 inside a block that was reported as a whole
}

func (w *walker) report(pos diag.Pos, p path, code diag.Code, what, fix string) {
	*w.problems = append(*w.problems, diag.Problem{Code: code, Pos: pos, Path: p.String(), What: what, Fix: fix})
}

// walk returns the checked value, and false when it was left out.
func (w *walker) walk(n *node, raw any, p path) (any, bool) {
	if raw == nil && n.shape == shapeLeaf || raw == nil && n.shape == shapeList {
		w.report(w.pos(p), p, diag.CodeType, "the key has no value", "write a value, or remove the line")
		return nil, false
	}
	if raw == nil {
		raw = map[string]any{} // a name alone is an object with nothing set
	}
	if n.key.Later != nil && w.later == 0 && !n.off(raw) && n.key.isLater(fmt.Sprint(raw)) {
		w.reportLater(n, raw, p)
		w.later++
		defer func() { w.later-- }()
	}
	switch n.shape {
	case shapeObject, shapeMap:
		m, ok := raw.(map[string]any)
		if !ok {
			w.report(w.pos(p), p, diag.CodeType, shown(raw)+" stands where keys are expected", "write keys below it, one per line; "+keysOf(n))
			return nil, false
		}
		return w.object(n, m, p), true
	case shapeList:
		return w.list(n, raw, p)
	case shapeFree:
		_, ok := raw.(map[string]any)
		return raw, ok // of a later version: reported already
	}
	return w.leaf(n, raw, p)
}

// off reports whether a value of a later version's key switches nothing on.
func (n *node) off(raw any) bool {
	if n.shape == shapeFree {
		return false // nothing is known of such a block, not even what an empty one asks for
	}
	switch v := raw.(type) {
	case bool:
		return !v
	case string:
		return v == "" || v == "off" && n.key.Kind == "address"
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0 && !n.present
	}
	return false
}

func (w *walker) reportLater(n *node, raw any, p path) {
	what := "not in this version"
	fix := "remove it"
	if n.shape == shapeLeaf && !slices.Contains(n.key.Later, "*") {
		what = fmt.Sprintf("%v is not in this version", shown(raw))
		have := slices.DeleteFunc(slices.Clone(n.key.Enum), n.key.isLater)
		if n.typ.Kind() == reflect.Bool {
			have = []string{"false"}
		}
		fix = "write " + strings.Join(have, " or ") + ", or remove it"
	}
	w.report(w.keyPos(p), p, diag.CodeNotYet, what, fix)
}

func (w *walker) object(n *node, m map[string]any, p path) map[string]any {
	out := make(map[string]any, len(m))
	for _, name := range slices.Sorted(maps.Keys(m)) {
		at := p.with(name)
		c := n.child(name)
		if c == nil {
			w.unknown(n, name, at)
			continue
		}
		if n.shape == shapeMap && n.names != "" {
			if what, fix := checkName(n.names, name); what != "" {
				w.report(w.keyPos(at), at, diag.CodeName, what, fix)
				w.walk(c, m[name], at) // what is below it can be wrong, too
				continue
			}
		}
		v, ok := w.walk(c, m[name], at)
		if !ok {
			w.refused[at.id()] = true
			continue
		}
		out[name] = v
	}
	return out
}

func (w *walker) unknown(n *node, name string, at path) {
	fix := keysOf(n)
	s, near := nearest(name, n.order)
	switch {
	case n.called != "" && isNameKey(name):
		fix = fmt.Sprintf("remove it: the name of %s %s is its key, here %q", article(n.called), n.called, at[len(at)-2])
	case near:
		fix = fmt.Sprintf("did you mean %q? %s", s, fix)
	}
	w.report(w.keyPos(at), at, diag.CodeUnknownKey, "unknown key", fix)
	if near {
		w.hide(n.fields[s])
	}
}

// hide keeps the source line of the last problem from showing a secret that
// stands where a reference to it should, or under a mistyped key.
func (w *walker) hide(n *node) {
	if n.typ == reflect.TypeFor[Secret]() {
		(*w.problems)[len(*w.problems)-1].Sensitive = true
	}
}

func keysOf(n *node) string {
	if n.shape == shapeMap {
		return "the keys here are names of " + n.names + "s"
	}
	names := slices.Sorted(maps.Keys(n.fields))
	const shownAtMost = 12
	if len(names) > shownAtMost {
		return "all keys: docs/configuration.md"
	}
	return "keys here: " + strings.Join(names, ", ")
}

func (w *walker) list(n *node, raw any, p path) (any, bool) {
	items, ok := raw.([]any)
	if !ok {
		w.report(w.misplaced(raw, p), p, diag.CodeType, shown(raw)+" is not a list", "write [a, b], or one line with - for each item")
		return nil, false
	}
	out := make([]any, 0, len(items))
	for i, v := range items {
		if v, ok := w.walk(n.elem, v, p.with(item(i))); ok {
			out = append(out, v)
		}
	}
	// A list with a hole would say something else, and its items would have other places.
	return out, len(out) == len(items)
}

func (w *walker) leaf(n *node, raw any, p path) (any, bool) {
	if err := fits(n, raw); err != nil {
		var m *mismatch
		code, fix := diag.CodeValue, ""
		if errors.As(err, &m) {
			fix = m.fix
		}
		if _, text := raw.(string); !text {
			code = diag.CodeType
		}
		pos := w.misplaced(raw, p)
		if _, keys := raw.(map[string]any); keys && p.id() == natsKey {
			pos, fix = w.keyPos(p), "write `nats: |` and the keys below it, indented"
		}
		w.report(pos, p, code, err.Error(), fix)
		w.hide(n)
		return nil, false
	}
	text, isText := raw.(string)
	switch {
	case !isText:
		return raw, true
	case n.path && text != "":
		return w.absolute(text), true
	case n.typ == reflect.TypeFor[Secret]() && text != "":
		return "file:" + w.absolute(strings.TrimPrefix(text, "file:")), true
	}
	return raw, true
}

// misplaced is the place of a value that is of the wrong kind.
func (w *walker) misplaced(raw any, p path) diag.Pos {
	if _, keys := raw.(map[string]any); keys {
		return w.keysPos(p)
	}
	return w.pos(p)
}

func (w *walker) absolute(file string) string {
	if filepath.IsAbs(file) {
		return file
	}
	return filepath.Join(w.base, file)
}

// fits checks one value against the type of its key.
func fits(n *node, raw any) error {
	switch raw.(type) {
	case map[string]any, []any:
		return wrong("a list or keys stand where one value is expected", "write one value after the colon")
	}
	if v, ok := reflect.New(n.typ).Interface().(value); ok {
		return v.set(raw)
	}
	switch n.typ.Kind() {
	case reflect.Bool:
		if _, ok := raw.(bool); !ok {
			return wrong(shown(raw)+" is neither true nor false", "write true or false, without quotes")
		}
	case reflect.Uint64:
		if i, ok := raw.(int64); ok && i >= 0 {
			return nil
		}
		if _, ok := raw.(uint64); !ok {
			return wrong(shown(raw)+" is not a number", "write a whole number, 0 or above, without quotes")
		}
	default:
		text, ok := raw.(string)
		if !ok {
			return wrong(shown(raw)+" is not text", "put it in quotes")
		}
		return checkEnum(n.key.Enum, text)
	}
	return nil
}

func checkEnum(enum []string, text string) error {
	if len(enum) == 0 || slices.Contains(enum, text) {
		return nil
	}
	fix := "write one of: " + strings.Join(enum, ", ")
	if s, ok := nearest(text, enum); ok {
		fix = fmt.Sprintf("did you mean %q? %s", s, fix)
	}
	return wrong(fmt.Sprintf("%q is not possible here", text), fix)
}
