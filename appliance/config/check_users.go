// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"maps"
	"regexp"
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
		c.role(o, u)
	}
}

var userKey = regexp.MustCompile("^U[A-Z2-7]{55}$")

// role checks that a user has what its role needs and nothing that the role
// would ignore.
func (c *checker) role(o object, u User) {
	if c.refused(o.at.with("role")) {
		return // what belongs to the role is not known
	}
	role := u.RoleName()
	other := "it means nothing for a user with role " + role
	if role == "" {
		other = "it means nothing for a user with permissions"
	}
	o.errors(
		rule{u.Permissions != nil && o.isSet("role"), diag.CodeConflict, "permissions",
			"a user has a role or permissions, not both; role stands at " + c.ref(o.at.with("role")), "remove one of the two"},
		rule{role == "producer" && len(u.Streams) == 0 && !o.isSet("streams"), diag.CodeRequired, "role", "a producer needs streams to publish to", "add streams: [NAME]"},
		rule{role == "worker" && len(u.Consumers) == 0 && !o.isSet("consumers"), diag.CodeRequired, "role", "a worker needs consumers to read", "add consumers: [STREAM/CONSUMER]"},
		rule{role != "producer" && len(u.Streams) > 0, diag.CodeConflict, "streams", other, "remove it, or write role: producer"},
		rule{role != "worker" && len(u.Consumers) > 0, diag.CodeConflict, "consumers", other, "remove it, or write role: worker"},
		rule{u.NKey != "" && !userKey.MatchString(u.NKey), diag.CodeValue, "nkey", "it is not the public key of a user",
			"write the key that starts with U and has 56 characters; the seed, which starts with SU, stays with the user"},
	)
	if u.Inbox == "shared" {
		c.warn(diag.CodeSharedInbox, o.at.with("inbox"), "every user of the account with a shared inbox can read the replies to this one, pulled messages among them",
			"set the inbox prefix _inbox.<user> in the client and remove the line")
	}
}

// RoleName is the user's role: what is written, admin when nothing is, and none
// for a user with permissions of its own.
func (u User) RoleName() string {
	switch {
	case u.Role != "":
		return u.Role
	case u.Permissions != nil:
		return ""
	}
	return "admin"
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
