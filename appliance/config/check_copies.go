// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

// copies checks mirrors and sources against the other streams of the account.
func (c *checker) copies(streams []stream) {
	byName := make(map[string]stream, len(streams))
	for _, s := range streams {
		byName[s.name] = s
	}
	for _, s := range streams {
		if s.Mirror != nil {
			s.mirror()
			s.origin(s.in("mirror"), *s.Mirror, byName)
		}
		seen := map[string]int{}
		for i, src := range s.Sources {
			o := s.in("sources", item(i))
			s.origin(o, src, byName)
			id := src.identity()
			if first, twice := seen[id]; twice && src.Name != nil {
				o.errors(rule{true, diag.CodeDuplicate, "name", "the same source as " + c.ref(s.at.with("sources").with(item(first))), "remove one, or give them different filters"})
			}
			seen[id] = i
		}
	}
	c.cycles(streams, byName)
}

// mostFollowed bounds the search for further cycles after the first one: thousands
// of streams in one ring would take minutes, and one error is enough to stop.
const mostFollowed = 200_000

// cycles reports streams whose messages would come back to them.
func (c *checker) cycles(streams []stream, byName map[string]stream) {
	endless := endless(byName)
	followed, found := 0, false
	for _, s := range streams {
		if !endless[s.name] || found && followed > mostFollowed {
			continue
		}
		n, cycle := s.cycle(byName)
		followed, found = followed+n, found || cycle
	}
}

// endless are the streams whose origins, followed back, do not all end.
func endless(byName map[string]stream) map[string]bool {
	copiers, open := map[string][]string{}, map[string]int{}
	for name, s := range byName {
		for _, src := range s.origins() {
			if from := or(src.Name, ""); byName[from].c != nil {
				copiers[from] = append(copiers[from], name)
				open[name]++
			}
		}
	}
	var ended []string
	left := make(map[string]bool, len(open))
	for name := range byName {
		if open[name] == 0 {
			ended = append(ended, name)
		} else {
			left[name] = true
		}
	}
	for len(ended) > 0 {
		from := ended[len(ended)-1]
		ended = ended[:len(ended)-1]
		for _, name := range copiers[from] {
			if open[name]--; open[name] == 0 {
				ended = append(ended, name)
				delete(left, name)
			}
		}
	}
	return left
}

func (s stream) mirror() {
	s.pairs(diag.CodeConflict,
		pair{len(s.Subjects) > 0, "subjects", "mirror"},
		pair{len(s.Sources) > 0, "sources", "mirror"},
		pair{or(s.FirstSeq, 0) > 0, "first_seq", "mirror"},
		pair{is(s.AllowMsgCounter), "allow_msg_counter", "mirror"},
		pair{is(s.AllowAtomic), "allow_atomic", "mirror"},
		pair{is(s.AllowBatched), "allow_batched", "mirror"},
		pair{or(s.DeleteMarkerTTL, 0) > 0, "subject_delete_marker_ttl", "mirror"},
	)
}

// origin checks one stream that messages are copied from.
func (s stream) origin(o object, src StreamSource, byName map[string]stream) {
	name := or(src.Name, "")
	o.errors(
		o.missing("name"),
		rule{src.FilterSubject != nil && len(src.SubjectTransforms) > 0, diag.CodeConflict, "filter_subject",
			"not possible together with subject_transforms, which filter too", "put the filter into src of a transform"},
		rule{or(src.OptStartSeq, 0) > 0 && src.OptStartTime != nil, diag.CodeConflict, "opt_start_seq", "there is opt_start_time, too", "remove one of the two"},
	)
	if src.Name != nil {
		if what, fix := checkName("stream", name); what != "" {
			o.errors(rule{true, diag.CodeName, "name", what, fix})
			return
		}
	}
	for i, t := range src.SubjectTransforms {
		at := o.in("subject_transforms", item(i))
		at.renaming("src", t.Source, t.Destination)
		for j, other := range src.SubjectTransforms[:i] {
			at.errors(rule{collide(or(t.Source, ">"), or(other.Source, ">")), diag.CodeOverlap, "src",
				"overlaps with " + s.c.ref(o.in("subject_transforms", item(j)).at), "a message goes through one transform: change one of the two"})
		}
	}
	s.originConsumer(o, src)
	if e := src.External; e != nil {
		x := o.in("external")
		for key, v := range map[string]*string{"api": e.API, "deliver": e.Deliver} {
			text := Subject(or(v, ""))
			x.errors(rule{text != "" && (checkSubject(string(text)) != nil || !literal(text)), diag.CodeValue, key, fmt.Sprintf("%q is not a subject without wildcards", text), "write $JS.<domain>.API for api, a plain subject for deliver"})
		}
		x.errors(rule{or(e.API, "") == "$JS.API", diag.CodeOverlap, "api", "$JS.API is this account's own API", "remove external, or write $JS.<domain>.API"})
		return
	}
	origin, declared := byName[name]
	o.warnings(rule{name != "" && !declared && !s.c.cfg.isSet(s.at[:len(s.at)-1].with(name)...), diag.CodeReference, "name", fmt.Sprintf("stream %q is not declared", name),
		"declare it, unless somebody makes it by hand"})
	small, large := or(s.MaxMsgSize, Unlimited), or(origin.MaxMsgSize, Unlimited)
	s.errors(rule{declared && small > 0 && large > small, diag.CodeConflict, "max_msg_size",
		fmt.Sprintf("%s is below the %s of %s, which it copies", small, large, s.c.ref(origin.at.with("max_msg_size"))), fmt.Sprintf("write %s or more", large)})
}

// originConsumer: a durable consumer at the origin decides what is copied, so
// nothing else may.
func (s stream) originConsumer(o object, src StreamSource) {
	if src.Consumer == nil {
		return
	}
	x := o.in("consumer")
	what, _ := checkName("consumer", or(src.Consumer.Name, "x"))
	deliver := or(src.Consumer.DeliverSubject, "x")
	const fix = "remove it: the consumer at the origin decides"
	x.errors(x.missing("name"), x.missing("deliver_subject"),
		rule{what != "", diag.CodeName, "name", what, "write the consumer's name"},
		rule{!literal(deliver), diag.CodeValue, "deliver_subject", "it can't have wildcards", "write a plain subject"})
	o.errors(
		rule{src.FilterSubject != nil, diag.CodeConflict, "filter_subject", "not possible together with consumer", fix},
		rule{or(src.OptStartSeq, 0) > 0, diag.CodeConflict, "opt_start_seq", "not possible together with consumer", fix},
		rule{src.OptStartTime != nil, diag.CodeConflict, "opt_start_time", "not possible together with consumer", fix})
}

// identity is what makes two sources of one stream different to the server.
func (s StreamSource) identity() string {
	id := fmt.Sprintf("%q %q", or(s.Name, ""), or(s.FilterSubject, ""))
	for _, t := range s.SubjectTransforms {
		id += fmt.Sprintf(" %q %q", or(t.Source, ""), or(t.Destination, ""))
	}
	if s.External != nil {
		id += fmt.Sprintf(" from %q", or(s.External.API, ""))
	}
	return id
}

// cycle reports a stream whose messages would come back to it, and how many
// streams it looked at.
func (s stream) cycle(byName map[string]stream) (followed int, found bool) {
	visited, queue := map[string]bool{}, []stream{s}
	for len(queue) > 0 {
		from := queue[0]
		queue = queue[1:]
		if visited[from.name] {
			continue
		}
		visited[from.name] = true
		for _, src := range from.origins() {
			name := or(src.Name, "")
			if name == s.name && (src.FilterSubject == nil || collideAny(*src.FilterSubject, s.Subjects)) {
				s.c.fail(diag.CodeOverlap, s.at.with(s.copyKey()), fmt.Sprintf("stream %q would copy its own messages without end, by way of %q", s.name, from.name), "remove one of the copies")
				return len(visited), true
			}
			if next, ok := byName[name]; ok {
				queue = append(queue, next)
			}
		}
	}
	return len(visited), false
}

func (s stream) copyKey() string {
	if s.Mirror != nil {
		return "mirror"
	}
	return "sources"
}

// origins are the streams of the same account that messages come from.
func (s stream) origins() []StreamSource {
	all := s.Sources
	if s.Mirror != nil {
		all = append(all[:len(all):len(all)], *s.Mirror)
	}
	var local []StreamSource
	for _, src := range all {
		if src.External == nil {
			local = append(local, src)
		}
	}
	return local
}
