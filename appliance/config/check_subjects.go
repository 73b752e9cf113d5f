// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

// captured returns the subjects the stream keeps, and where each stands: the
// server takes the stream's name when none is given.
func (s stream) captured() ([]Subject, func(i int) path) {
	if len(s.Subjects) > 0 {
		return s.Subjects, func(i int) path { return s.at.with("subjects").with(item(i)) }
	}
	if s.copied() || s.isSet("subjects") && s.Subjects == nil {
		return nil, nil
	}
	return s.Captured(s.name), func(int) path { return s.at.with("subjects") }
}

// subjects checks each subject by itself.
func (s stream) subjects() {
	for i, subject := range s.Subjects {
		p := s.at.with("subjects").with(item(i))
		if subject == ">" && s.forbidden(subject) {
			s.c.fail(diag.CodeValue, p, "a stream can't keep every subject: the server's own requests would be in it", "write the subjects out, such as \"orders.>\"")
			continue
		}
		if name, _ := takenBy(subject); s.forbidden(subject) {
			s.c.fail(diag.CodeValue, p, fmt.Sprintf("%q overlaps with %s, which the node needs for itself", subject, name), "choose subjects that start with neither $ nor _hf nor a wildcard")
			continue
		}
		if first, _, _ := strings.Cut(string(subject), "."); strings.EqualFold(first, "_INBOX") {
			s.c.warn(diag.CodeValue, p, "the stream would keep the replies to every request", "choose a subject outside _INBOX and _inbox")
		}
	}
}

// forbidden reports whether the server refuses the subject: without
// acknowledgements it lets a stream listen to everything.
func (s stream) forbidden(subject Subject) bool {
	_, taken := takenBy(subject)
	return taken && !is(s.NoAck)
}

// takenBy is the server's namespace that a subject would reach into.
func takenBy(s Subject) (string, bool) {
	for _, space := range []struct{ taken, free Subject }{{"$JS.>", "$JS.EVENT.>"}, {"$JSC.>", ""}, {"$NRG.>", ""}, {"$SYS.>", "$SYS.ACCOUNT.>"}, {"_hf.>", ""}} {
		if collide(s, space.taken) && !(space.free != "" && within(s, space.free)) {
			return string(space.taken), true
		}
	}
	return "", false
}

// captureOf is one subject of one stream.
type captureOf struct {
	stream  int // in the order of the files
	n       int // among the stream's subjects
	at      path
	subject Subject
}

// overlaps finds subjects that two streams of an account would both keep, or one stream twice.
func (c *checker) overlaps(streams []stream) {
	var tree subjectTree[captureOf]
	for i, s := range streams {
		subjects, at := s.captured()
		told := map[int]bool{} // one problem for a pair of streams, and for a subject
		for n, subject := range subjects {
			if s.forbidden(subject) {
				continue
			}
			var hits []captureOf
			tree.collide(subject, func(h captureOf) { hits = append(hits, h) })
			if len(hits) > 0 {
				h := slices.MinFunc(hits, func(a, b captureOf) int { return cmp.Or(cmp.Compare(a.stream, b.stream), cmp.Compare(a.n, b.n)) })
				if !told[h.stream] {
					told[h.stream] = true
					c.overlap(at(n), subject, h, h.stream == i)
				}
			}
			tree.insert(subject, captureOf{i, n, at(n), subject})
		}
	}
}

func (c *checker) overlap(p path, s Subject, other captureOf, sameStream bool) {
	fix := "change one of the two: a message belongs to one stream"
	if sameStream {
		fix = "remove one of the two: a message would be kept twice"
	}
	c.fail(diag.CodeOverlap, p, fmt.Sprintf("%q overlaps with %q at %s", s, other.subject, c.ref(other.at)), fix)
}
