// SPDX-License-Identifier: Apache-2.0

package bootstrap

import (
	"fmt"
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
	var given config.SubjectIndex
	for _, g := range givenUp(declared, have) {
		for _, s := range g.subjects {
			given.Add(s, g.name)
		}
	}
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
			for _, giver := range givers(&given, name, texts(s.Set["subjects"])) {
				visit(giver)
			}
		}
		ordered = append(ordered, name)
	}
	for _, name := range names {
		visit(name)
	}
	return ordered
}

// givers are the streams that give up what a stream takes, in order.
func givers(given *config.SubjectIndex, of string, takes []string) []string {
	var out []string
	for _, s := range takes {
		given.Colliding(s, func(name string) {
			if name != of && !slices.Contains(out, name) {
				out = append(out, name)
			}
		})
	}
	slices.Sort(out)
	return out
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

// foresee names, in actions that take subjects, the stream that has one of them at
// that point of the plan: the server refuses it then. Subjects that two streams swap
// are such a case, whatever the order.
func foresee(actions []Action, have map[string]ObservedStream) {
	held := map[string][]string{}
	var index config.SubjectIndex // also of what was given up since
	hold := func(name string, subjects []string) {
		held[name] = subjects
		for _, s := range subjects {
			index.Add(s, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(have)) {
		hold(name, texts(have[name].Config["subjects"]))
	}
	for i, a := range actions {
		if a.Kind != KindStream || a.Spec["subjects"] == nil || a.Op != Create && a.Op != Update {
			continue
		}
		wants, inTheWay := texts(a.Spec["subjects"]), ""
		for _, s := range wants {
			index.Colliding(s, func(name string) {
				if name != a.Stream && collideAny([]string{s}, held[name]) && (inTheWay == "" || name < inTheWay) {
					inTheWay = name
				}
			})
		}
		if inTheWay != "" {
			actions[i].Reason = fmt.Sprintf(reasonHeld, inTheWay)
			continue
		}
		hold(a.Stream, wants)
	}
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
