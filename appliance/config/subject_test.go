// SPDX-License-Identifier: Apache-2.0

package config

import (
	"slices"
	"strings"
	"testing"
)

// The vocabulary is small on purpose: every pair of patterns is compared with
// what the literal subjects say.
func patterns(tokens []string, depth int) []Subject {
	var out []Subject
	var add func(prefix []string)
	add = func(prefix []string) {
		if len(prefix) > 0 {
			out = append(out, Subject(strings.Join(prefix, ".")))
		}
		if len(prefix) == depth || len(prefix) > 0 && prefix[len(prefix)-1] == ">" {
			return
		}
		for _, t := range tokens {
			add(append(prefix[:len(prefix):len(prefix)], t))
		}
	}
	add(nil)
	return out
}

func matches(pattern, subject Subject) bool { return within(subject, pattern) }

func TestSubjectsCollideWhenOneMessageMatchesBoth(t *testing.T) {
	literals := patterns([]string{"a", "b", "c"}, 4)
	all := patterns([]string{"a", "b", "*", ">"}, 3)
	for _, a := range all {
		for _, b := range all {
			both := slices.ContainsFunc(literals, func(l Subject) bool { return matches(a, l) && matches(b, l) })
			if got := collide(a, b); got != both {
				t.Errorf("%s and %s: got collide %t, want %t", a, b, got, both)
			}
		}
	}
}

func TestWithinMeansNoSubjectIsLeftOut(t *testing.T) {
	literals := patterns([]string{"a", "b", "c"}, 4)
	all := patterns([]string{"a", "b", "*", ">"}, 3)
	for _, a := range all {
		for _, b := range all {
			want := !slices.ContainsFunc(literals, func(l Subject) bool { return matches(a, l) && !matches(b, l) })
			if got := within(a, b); got != want {
				t.Errorf("%s within %s: got %t, want %t", a, b, got, want)
			}
		}
	}
}

func TestDestinationsAreCheckedLikeTheServerDoes(t *testing.T) {
	for _, c := range []struct {
		source Subject
		dest   string
		ok     bool
	}{
		{"a.*.*", "b.{{wildcard(2)}}.{{wildcard(1)}}", true},
		{"a.*", "b.$1", true},
		{"a.*", "b.$2", false},
		{"a.*", "b.$SYS", true},
		{"a.*", "b.{{wildcard(2)}}", false},
		{"a.*", "b.{{partition(10, 1)}}", true},
		{"a", "b.{{partition(10)}}", true},
		{"a.*", "b.{{partition(10,1,2)}}", false},
		{"a.*", "{{split(1,-)}}.x", true},
		{"a.>", "b.>", true},
		{"a.>", "b", false},
		{"a", "b.>", false},
		{">", "b.>", true},
		{"a.*", "b.*", false},
		{"a.*", "b.{{shout(1)}}", false},
		{"a", "b.{{wildcard(1)}}", false},
		{"a", "b.{{partition(10,1)}}", true},
		{"a", "", false},
		{"a", "b..c", false},
		{"a", "{{random(5)}}", true},
	} {
		if what, fix := wrongDestination(c.source, c.dest); (what == "") != c.ok || (what == "") != (fix == "") {
			t.Errorf("%s to %s: got %q, %q, want ok %t", c.source, c.dest, what, fix, c.ok)
		}
	}
}
