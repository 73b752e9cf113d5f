// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

// envPrefix starts every variable that is read as configuration.
const envPrefix = "HOLDFAST_"

// envReserved are read by the commands and the unit file, not as keys.
var envReserved = map[string]bool{"HOLDFAST_OPTS": true, "HOLDFAST_CONFIG": true}

// environment turns HOLDFAST_… variables into values. A variable changes keys
// and named objects that exist in the files; it can't create an object.
func environment(environ []string, tree map[string]any, l *diag.List) *source {
	s := newSource(nil)
	for _, entry := range slices.Sorted(slices.Values(environ)) {
		name, text, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, envPrefix) || envReserved[name] {
			continue
		}
		s.variable(name, text, tree, l)
	}
	return s
}

func (s *source) variable(name, text string, tree map[string]any, l *diag.List) {
	steps := strings.Split(strings.TrimPrefix(name, envPrefix), "__")
	fail := func(what, fix string) {
		*l = append(*l, diag.Problem{Code: diag.CodeEnvironment, Pos: diag.Pos{Origin: "$" + name}, What: what, Fix: fix})
	}
	n, here, p := table(), any(tree), path{}
	for i, step := range steps {
		found, candidates := match(step, n, here)
		switch {
		case len(found) == 0 && i == 0 && len(steps) == 1:
			return // some other program's, such as HOLDFAST_PORT of a container platform
		case len(found) == 0:
			fail(fmt.Sprintf("%q is not %s", step, n.what(p)), suggestStep(step, n, candidates))
			return
		case len(found) > 1:
			fail(fmt.Sprintf("%q could be any of %s", step, strings.Join(found, ", ")), "change it in a file instead")
			return
		}
		p = p.with(found[0])
		n = n.child(found[0])
		m, _ := here.(map[string]any)
		here = m[found[0]]
	}
	if n.shape == shapeObject || n.shape == shapeMap || n.shape == shapeFree {
		fail("a group of keys can't be set by a variable", fmt.Sprintf("name one key, such as $%s__KEY", name))
		return
	}
	if n.shape == shapeList && hasEmptyItem(text) {
		fail("an item of the list is empty", "write a,b or [a, b]")
		return
	}
	if _, twice := s.at[p.id()]; twice {
		fail(fmt.Sprintf("%s is set by another variable too (%s)", p, s.at[p.id()]), "unset one of the two")
		return
	}
	s.set(p, diag.Pos{Origin: "$" + name}, fromText(n, text))
}

// set sets one key; what holds it was set by nobody else in this source.
func (s *source) set(p path, at diag.Pos, v any) {
	s.at[p.id()] = at
	for i := range p {
		s.keyAt[p[:i+1].id()] = at
	}
	put(s.values, p, v)
}

// what names what the steps below a node are, for an error.
func (n *node) what(p path) string {
	if n.shape == shapeMap {
		return fmt.Sprintf("%s %s that the files declare", article(n.names), n.names)
	}
	if len(p) == 0 {
		return "a key"
	}
	return "a key of " + p.String()
}

func suggestStep(step string, n *node, candidates []string) string {
	if n.shape == shapeMap && len(candidates) == 0 {
		return fmt.Sprintf("declare the %s in the file: a variable can't create one", n.names)
	}
	if s, ok := nearest(step, candidates); ok {
		return fmt.Sprintf("did you mean %q?", s)
	}
	if n.shape == shapeMap {
		return fmt.Sprintf("a variable can't create %s %s; declared: %s", article(n.names), n.names, strings.Join(candidates, ", "))
	}
	return "known here: " + strings.Join(candidates, ", ")
}

// match finds the keys that a step of a variable's name can mean: without
// regard to case, and with - written as _, since shells allow neither.
func match(step string, n *node, here any) (found, candidates []string) {
	if n.shape == shapeMap {
		m, _ := here.(map[string]any)
		candidates = slices.Sorted(maps.Keys(m))
	} else {
		candidates = slices.Sorted(slices.Values(n.order))
	}
	for _, c := range candidates {
		if foldName(c) == foldName(step) {
			found = append(found, c)
		}
	}
	return found, candidates
}

func foldName(s string) string { return strings.ReplaceAll(strings.ToLower(s), "-", "_") }

// fromText gives a variable's or a flag's text the type of its key.
func fromText(n *node, text string) any {
	switch {
	case n.shape == shapeList:
		return listFrom(n, text)
	case n.key.Kind == "boolean", n.key.Kind == "number", n.key.Kind == "count", n.key.Kind == "size", n.key.Kind == "replicas":
		var doc yaml.Node
		if yaml.Unmarshal([]byte(text), &doc) == nil && len(doc.Content) == 1 && doc.Content[0].Kind == yaml.ScalarNode {
			if v := scalar(doc.Content[0]); v != nil {
				return v
			}
		}
	}
	return text
}

// listFrom reads [a, b], or a,b.
func listFrom(n *node, text string) any {
	var items []any
	if strings.HasPrefix(strings.TrimSpace(text), "[") {
		var doc yaml.Node
		if yaml.Unmarshal([]byte(text), &doc) != nil || len(doc.Content) != 1 {
			return text
		}
		for _, c := range doc.Content[0].Content {
			if c.Kind != yaml.ScalarNode || c.Style&yaml.TaggedStyle != 0 {
				return text // lists of lists or keys go into a file
			}
			items = append(items, fromText(n.elem, c.Value))
		}
		return items
	}
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item != "" {
			items = append(items, fromText(n.elem, item))
		}
	}
	if items == nil {
		items = []any{}
	}
	return items
}

// hasEmptyItem reports whether a,b names nothing between two commas or beside one.
func hasEmptyItem(text string) bool {
	text = strings.TrimSpace(text)
	if text == "" || strings.HasPrefix(text, "[") {
		return false
	}
	return slices.ContainsFunc(strings.Split(text, ","), func(s string) bool { return strings.TrimSpace(s) == "" })
}

func put(m map[string]any, p path, v any) {
	for _, step := range p[:len(p)-1] {
		next, ok := m[step].(map[string]any)
		if !ok {
			next = map[string]any{}
			m[step] = next
		}
		m = next
	}
	m[p[len(p)-1]] = v
}
