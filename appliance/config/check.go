// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

// check is what the values mean together. What nats-server would refuse later
// is found here, before anything runs. A value that was refused already is
// absent from the Config but still counts as set, so that nothing is said twice.
func check(cfg *Config, o Options, l *diag.List) {
	c := &checker{cfg: cfg, list: l}
	c.node()
	c.cluster()
	c.secrets()
	c.natsBlock(o.AllowNATSKey)
	for _, name := range slices.Sorted(maps.Keys(cfg.Accounts)) {
		c.account(path{"accounts", name}, cfg.Accounts[name])
	}
	if o.Volume != nil && cfg.Node.DataDir != "" {
		c.volume(o.Volume)
	}
}

type checker struct {
	cfg      *Config
	list     *diag.List
	compared int // names, for suggestions
}

func (c *checker) account(at path, a Account) {
	streams := c.streamsOf(at, a)
	for _, s := range streams {
		s.check()
	}
	c.overlaps(streams)
	c.copies(streams)
	c.accountLimits(at, a, streams)
	c.users(at, a)
}

func (c *checker) add(sev diag.Severity, code diag.Code, p path, what, fix string) {
	*c.list = append(*c.list, diag.Problem{Severity: sev, Code: code, Pos: c.pos(p), Path: p.String(), What: what, Fix: fix})
}

func (c *checker) fail(code diag.Code, p path, what, fix string) {
	c.add(diag.Error, code, p, what, fix)
}

func (c *checker) warn(code diag.Code, p path, what, fix string) {
	c.add(diag.Warning, code, p, what, fix)
}

// refused reports whether a source set the key to a value that does not fit.
func (c *checker) refused(p path) bool { return c.cfg.origin.refused[p.id()] }

// pos is the place of a value, or of the name of what it is missing from.
func (c *checker) pos(p path) diag.Pos {
	if pos, ok := c.cfg.origin.at[p.id()]; ok {
		return pos
	}
	if pos := c.cfg.At(p...); pos.Origin != "" {
		return pos // an item of a list that a variable replaced
	}
	if pos := c.cfg.KeyAt(p...); pos != (diag.Pos{}) {
		return pos
	}
	return diag.Pos{Origin: "default"}
}

// ref names another key and where it stands, for the other side of a conflict.
func (c *checker) ref(p path) string {
	at := c.pos(p)
	if at.Origin == "" && at.Line > 0 {
		return fmt.Sprintf("%s (%s:%d)", p, at.File, at.Line)
	}
	return fmt.Sprintf("%s (%s)", p, at)
}

// before orders places as they are read: files in the order of merging, then
// lines, then variables and flags.
func (c *checker) before(a, b diag.Pos) int {
	return cmp.Or(
		cmp.Compare(a.Origin, b.Origin),
		cmp.Compare(slices.Index(c.cfg.origin.files, a.File), slices.Index(c.cfg.origin.files, b.File)),
		cmp.Compare(a.Line, b.Line),
		cmp.Compare(a.Col, b.Col),
	)
}

// object is a stream, a consumer or a part of one, and where it stands.
type object struct {
	c  *checker
	at path
}

// rule is a sentence about one key that holds when broken is true.
type rule struct {
	broken    bool
	code      diag.Code
	key       string
	what, fix string
}

func (o object) errors(rules ...rule) { o.say(diag.Error, rules) }

func (o object) warnings(rules ...rule) { o.say(diag.Warning, rules) }

func (o object) say(sev diag.Severity, rules []rule) {
	for _, r := range rules {
		if r.broken {
			o.c.add(sev, r.code, o.at.with(r.key), r.what, r.fix)
		}
	}
}

func (o object) in(steps ...string) object {
	return object{o.c, append(o.at[:len(o.at):len(o.at)], steps...)}
}

// isSet reports whether a source sets the key, even to a value that was refused.
func (o object) isSet(key string) bool { return o.c.cfg.isSet(o.at.with(key)...) }

// missing reports whether no source sets a key that has to be set.
func (o object) missing(key string) rule {
	return rule{!o.isSet(key), diag.CodeRequired, key, "the key is missing", "add " + key}
}

// choice is the value that counts for a key with a default; it is empty when the value
// was refused, so that nothing follows from it.
func (o object) choice(key string, v *string, byDefault string) string {
	switch {
	case v != nil:
		return *v
	case o.isSet(key):
		return ""
	}
	return byDefault
}

func is(v *bool) bool { return v != nil && *v }

func isNot(v *bool) bool { return v != nil && !*v }

func or[T any](v *T, byDefault T) T {
	if v == nil {
		return byDefault
	}
	return *v
}

// item names an element of a list in a path.
func item(i int) string { return strconv.Itoa(i) }
