// SPDX-License-Identifier: Apache-2.0

package bootstrap

// originsFirst orders stream names so that a mirror, and a stream with sources,
// comes after the declared streams it copies. A cycle is broken where the walk
// meets it: the server is the one to refuse it.
func originsFirst(names []string, declared map[string]Stream) []string {
	ordered := make([]string, 0, len(names))
	visited := make(map[string]bool, len(names))
	var visit func(string)
	visit = func(name string) {
		if visited[name] {
			return
		}
		visited[name] = true
		s, ok := declared[name]
		if ok {
			for _, origin := range origins(s.Set) {
				if _, ok := declared[origin]; ok {
					visit(origin)
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
