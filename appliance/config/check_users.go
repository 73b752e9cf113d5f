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
			p := o.at.with("streams").with(item(i))
			if _, ok := a.Streams[s]; !ok && !c.cfg.isSet(at.with("streams").with(s)...) {
				unknownRef(c, p, "stream", s, a.Streams)
			}
			if u.RoleName() == "producer" {
				c.templates(p, a.Streams[s].Subjects)
			}
		}
		if u.Permissions != nil {
			c.literalPermissions(o.at.with("permissions").with("publish"), u.Permissions.Publish)
			c.literalPermissions(o.at.with("permissions").with("subscribe"), u.Permissions.Subscribe)
		}
		for i, ref := range u.Consumers {
			c.consumerRef(at, o.at.with("consumers").with(item(i)), a, ref)
		}
		c.role(o, u)
	}
}

// literalPermissions refuses subjects in which the server would replace something, and
// those that follow from other permissions: identity takes them away again, and a user
// who had no others would be left with none, which to the server means all.
func (c *checker) literalPermissions(p path, subjects []Subject) {
	for i, s := range subjects {
		if strings.Contains(string(s), template) {
			c.fail(diag.CodeValue, p.with(item(i)), fmt.Sprintf("%q has {{, which the server would replace in a permission", s), "write the subject out, or a * for the token")
		}
		if strings.HasPrefix(string(s), "_hf.") {
			c.fail(diag.CodeValue, p.with(item(i)), fmt.Sprintf("%q is a subject that the node needs for itself", s), "name the subject that clients use: where messages are led follows from it")
		}
	}
}

// templates refuses a producer's stream whose subjects can't be permissions.
func (c *checker) templates(p path, subjects []Subject) {
	for _, s := range subjects {
		if strings.Contains(string(s), template) {
			c.fail(diag.CodeValue, p, fmt.Sprintf("subject %q of the stream has {{, which the server would replace in a permission", s), "choose another subject for the stream")
			return
		}
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
			unknownRef(c, p, "stream", stream, a.Streams)
		}
		return
	}
	if _, ok := s.Consumers[name]; !ok && !c.cfg.isSet(at.with("consumers").with(name)...) {
		unknownRef(c, p, "consumer", name, s.Consumers)
	}
}

// mostCompared bounds how many names are compared for suggestions: thousands of
// wrong names among thousands of streams would take minutes.
const mostCompared = 200_000

func unknownRef[T any](c *checker, p path, kind, name string, declared map[string]T) {
	fix := fmt.Sprintf("declare the %s, or correct the name", kind)
	if c.compared += len(declared); c.compared <= mostCompared {
		if s, ok := nearest(name, keysOfMap(declared)); ok {
			fix = fmt.Sprintf("did you mean %q?", s)
		}
	}
	c.fail(diag.CodeReference, p, fmt.Sprintf("%s %q is not declared", kind, name), fix)
}

func keysOfMap[T any](m map[string]T) []string { return slices.Sorted(maps.Keys(m)) }
