// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"strings"
)

// Subject is a NATS subject, wildcards included.
type Subject string

func (s *Subject) set(raw any) error {
	text, ok := raw.(string)
	if !ok {
		return wrong(shown(raw)+" is not a subject", "write it in quotes, such as \"orders.>\"")
	}
	if err := checkSubject(text); err != nil {
		return err
	}
	*s = Subject(text)
	return nil
}

func checkSubject(s string) error {
	const fix = "write tokens with dots between them; * stands for one token, > for all that follow and only at the end"
	if s == "" {
		return wrong("the subject is empty", fix)
	}
	if strings.ContainsAny(s, " \t\r\n\f\x00") {
		return wrong(fmt.Sprintf("subject %q has white space in it", s), fix)
	}
	if strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return wrong(fmt.Sprintf("subject %q has a control character in it", s), fix)
	}
	tokens := strings.Split(s, ".")
	for i, t := range tokens {
		if t == "" {
			return wrong(fmt.Sprintf("subject %q has an empty token", s), fix)
		}
		if t == ">" && i != len(tokens)-1 {
			return wrong(fmt.Sprintf("subject %q has > before its end", s), fix)
		}
	}
	return nil
}

func (s *Subject) api() any   { return string(*s) }
func (*Subject) kind() string { return "subject" }

// Two subjects collide when one message can match both; the rules are those of
// nats-server's SubjectsCollide.

// subjectTree holds subjects by token, so that those which collide with a new one are
// found without comparing all pairs.
type subjectTree[T any] struct {
	below map[string]*subjectTree[T]
	here  *T // of the subject that ends here
}

// insert keeps one value for a subject, the first: who asks for collisions wants
// the first of all, and thousands of equal subjects stay cheap.
func (t *subjectTree[T]) insert(s Subject, v T) {
	for token := range strings.SplitSeq(string(s), ".") {
		next := t.below[token]
		if next == nil {
			next = &subjectTree[T]{}
			if t.below == nil {
				t.below = map[string]*subjectTree[T]{}
			}
			t.below[token] = next
		}
		t = next
	}
	if t.here == nil {
		t.here = &v
	}
}

// collide calls found for every subject in the tree that collides with s.
func (t *subjectTree[T]) collide(s Subject, found func(T)) {
	t.match(strings.Split(string(s), "."), found)
}

func (t *subjectTree[T]) match(tokens []string, found func(T)) {
	if len(tokens) == 0 {
		if t.here != nil {
			found(*t.here)
		}
		return
	}
	token, rest := tokens[0], tokens[1:]
	if full := t.below[">"]; full != nil && token != ">" {
		full.match(nil, found)
	}
	switch token {
	case ">":
		for _, next := range t.below {
			next.all(found)
		}
	case "*":
		for name, next := range t.below {
			if name != ">" {
				next.match(rest, found)
			}
		}
	default:
		for _, name := range []string{token, "*"} {
			if next := t.below[name]; next != nil {
				next.match(rest, found)
			}
		}
	}
}

func (t *subjectTree[T]) all(found func(T)) {
	if t.here != nil {
		found(*t.here)
	}
	for _, next := range t.below {
		next.all(found)
	}
}

// SubjectIndex finds out who has a subject that collides with another one, without
// comparing all pairs.
type SubjectIndex struct {
	tree subjectTree[*[]string]
	at   map[string]*[]string // names by subject, the same lists as in the tree
}

// Add notes that somebody has a subject.
func (x *SubjectIndex) Add(subject, name string) {
	if names := x.at[subject]; names != nil {
		*names = append(*names, name)
		return
	}
	if x.at == nil {
		x.at = map[string]*[]string{}
	}
	names := &[]string{name}
	x.at[subject] = names
	x.tree.insert(Subject(subject), names)
}

// Colliding calls found for everybody who was noted with a subject that collides.
func (x *SubjectIndex) Colliding(subject string, found func(name string)) {
	x.tree.collide(Subject(subject), func(names *[]string) {
		for _, name := range *names {
			found(name)
		}
	})
}

func collide(a, b Subject) bool {
	var t subjectTree[bool]
	t.insert(a, true)
	hit := false
	t.collide(b, func(bool) { hit = true })
	return hit
}

// Collide reports whether some subject matches both.
func Collide(a, b string) bool { return collide(Subject(a), Subject(b)) }

func collideAny(a Subject, others []Subject) bool {
	for _, b := range others {
		if collide(a, b) {
			return true
		}
	}
	return false
}

// within reports whether every subject that a matches is matched by b too.
func within(a, b Subject) bool {
	as, bs := strings.Split(string(a), "."), strings.Split(string(b), ".")
	for i, t := range bs {
		if i >= len(as) {
			return false
		}
		if t == ">" {
			return true
		}
		if as[i] == ">" || t != "*" && t != as[i] {
			return false
		}
	}
	return len(as) == len(bs)
}

// literal reports whether a subject has no wildcard.
func literal(s Subject) bool {
	for token := range strings.SplitSeq(string(s), ".") {
		if token == "*" || token == ">" {
			return false
		}
	}
	return true
}
