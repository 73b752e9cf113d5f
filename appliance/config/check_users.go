// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

func (c *checker) users(at path, a Account) {
	for _, name := range keysOfMap(a.Users) {
		u := a.Users[name]
		o := object{c, at}.in("users", name)
		for i, s := range u.Streams {
			if _, ok := a.Streams[s]; !ok && !c.cfg.isSet(at.with("streams").with(s)...) {
				c.unknownRef(o.at.with("streams").with(item(i)), "stream", s, keysOfMap(a.Streams))
			}
		}
		for i, ref := range u.Consumers {
			c.consumerRef(at, o.at.with("consumers").with(item(i)), a, ref)
		}
		o.errors(rule{u.Permissions != nil && o.isSet("role"), diag.CodeConflict, "permissions",
			"a user has a role or permissions, not both; role stands at " + c.ref(o.at.with("role")), "remove one of the two"})
	}
}

// consumerRef checks one STREAM/CONSUMER of a user.
func (c *checker) consumerRef(account, p path, a Account, ref string) {
	stream, name, ok := strings.Cut(ref, "/")
	if !ok || stream == "" || name == "" || strings.Contains(name, "/") {
		c.fail(diag.CodeReference, p, fmt.Sprintf("%q does not name a consumer", ref), "write STREAM/CONSUMER, such as ORDERS/packing")
		return
	}
	s, ok := a.Streams[stream]
	at := account.with("streams").with(stream)
	if !ok {
		if !c.cfg.isSet(at...) {
			c.unknownRef(p, "stream", stream, keysOfMap(a.Streams))
		}
		return
	}
	if _, ok := s.Consumers[name]; !ok && !c.cfg.isSet(at.with("consumers").with(name)...) {
		c.unknownRef(p, "consumer", name, keysOfMap(s.Consumers))
	}
}

func (c *checker) unknownRef(p path, kind, name string, declared []string) {
	fix := fmt.Sprintf("declare the %s, or correct the name", kind)
	if s, ok := nearest(name, declared); ok {
		fix = fmt.Sprintf("did you mean %q?", s)
	}
	c.fail(diag.CodeReference, p, fmt.Sprintf("%s %q is not declared", kind, name), fix)
}

func keysOfMap[T any](m map[string]T) []string { return slices.Sorted(maps.Keys(m)) }
