// SPDX-License-Identifier: Apache-2.0

package bootstrap

import (
	"maps"
	"slices"

	"github.com/holdfast-mq/holdfast/appliance/config"
)

// inOrder orders stream names so that a mirror, and a stream with sources, comes
// after the declared streams it copies, and a stream that takes a subject after the
// one that gives it up. A cycle is broken where the walk meets it: the server is the
// one to refuse it.
func inOrder(names []string, declared map[string]Stream, have map[string]ObservedStream) []string {
	ordered := make([]string, 0, len(names))
	visited := make(map[string]bool, len(names))
	given := givenUp(declared, have)
	var visit func(string)
	visit = func(name string) {
		if visited[name] {
			return
		}
		visited[name] = true
		if s, ok := declared[name]; ok {
			for _, origin := range origins(s.Set) {
				if _, ok := declared[origin]; ok {
					visit(origin)
				}
			}
			for _, giver := range given {
				if giver.name != name && collideAny(texts(s.Set["subjects"]), giver.subjects) {
					visit(giver.name)
				}
			}
		}
		ordered = append(ordered, name)
	}
	for _, name := range names {
		visit(name)
	}
	return ordered
}

// giver is a stream and the subjects that it has and is not to have.
type giver struct {
	name     string
	subjects []string
}

func givenUp(declared map[string]Stream, have map[string]ObservedStream) []giver {
	var out []giver
	for _, name := range slices.Sorted(maps.Keys(declared)) {
		want, isSet := declared[name].Set["subjects"]
		if !isSet {
			continue
		}
		keeps := texts(want)
		g := giver{name: name}
		for _, s := range texts(have[name].Config["subjects"]) {
			if !slices.Contains(keeps, s) {
				g.subjects = append(g.subjects, s)
			}
		}
		if len(g.subjects) > 0 {
			out = append(out, g)
		}
	}
	return out
}

func texts(v any) []string {
	list, _ := v.([]any)
	var out []string
	for _, e := range list {
		out = append(out, text(e))
	}
	return out
}

func collideAny(a, b []string) bool {
	return slices.ContainsFunc(a, func(x string) bool {
		return slices.ContainsFunc(b, func(y string) bool { return config.Collide(x, y) })
	})
}

// holder finds a stream that has one of the subjects, is not the stream itself, and
// does not give it up: the server refuses them until it does.
func holder(of string, subjects []string, declared map[string]Stream, have map[string]ObservedStream) string {
	for _, name := range slices.Sorted(maps.Keys(have)) {
		if name == of || !collideAny(subjects, texts(have[name].Config["subjects"])) {
			continue
		}
		want, isSet := declared[name].Set["subjects"]
		if !isSet || collideAny(subjects, texts(want)) {
			return name
		}
	}
	return ""
}

// origins names the streams of the same account that a stream copies.
func origins(set map[string]any) []string {
	var names []string
	add := func(v any) {
		source, ok := v.(map[string]any)
		if ok && isLocal(source) {
			names = append(names, text(source["name"]))
		}
	}
	add(set["mirror"])
	if sources, ok := set["sources"].([]any); ok {
		for _, s := range sources {
			add(s)
		}
	}
	return names
}

// isLocal is true for an origin in the same account and domain.
func isLocal(source map[string]any) bool { return isZero(source["external"]) }
