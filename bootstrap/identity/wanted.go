// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nats-io/nkeys"
)

// Account is an account as it should be.
type Account struct {
	Name   string
	Limits Limits
	Users  []User
}

// User is a user as it should be.
type User struct {
	Name string
	// Role has no default: whoever forgets it must not make an admin.
	Role      Role
	Subjects  []string      // of a producer: those of its streams
	Consumers []ConsumerRef // of a worker
	Publish   []string      // of a custom user
	Subscribe []string      // of a custom user, besides its inbox
	// SharedInbox lets clients that cannot set an inbox prefix receive replies.
	// The user then reads the replies to everybody who has none either.
	SharedInbox bool
	// PublicKey is the user's own nkey, "" for a key that is made here. Of a key
	// of its own nothing secret is ever here.
	PublicKey string
}

// checkWanted is the last line, not the first: package config says the same
// with a line number. A bad name here would be in a token for good.
func checkWanted(want []Account) error {
	accounts := map[string]bool{SystemName: true, InternalName: true}
	for _, a := range want {
		if err := checkName(a.Name, accounts); err != nil {
			return fmt.Errorf("check account %q: %w", a.Name, err)
		}
		if err := a.Limits.check(); err != nil {
			return fmt.Errorf("check account %q: %w", a.Name, err)
		}
		users, keys := map[string]bool{}, map[string]string{}
		for _, u := range a.Users {
			if err := u.checkWanted(users, keys); err != nil {
				return fmt.Errorf("check user %q of account %q: %w", u.Name, a.Name, err)
			}
		}
	}
	return nil
}

func (u User) checkWanted(names map[string]bool, keys map[string]string) error {
	if err := checkName(u.Name, names); err != nil {
		return err
	}
	if _, err := permissions(u); err != nil {
		return err
	}
	for _, c := range u.Consumers {
		for _, name := range []string{c.Stream, c.Consumer} {
			if err := checkName(name, map[string]bool{}); err != nil {
				return fmt.Errorf("consumer %s/%s: %w", c.Stream, c.Consumer, err)
			}
		}
	}
	for _, subject := range slices.Concat(u.Subjects, u.Publish, u.Subscribe) {
		if err := checkSubject(subject); err != nil {
			return fmt.Errorf("subject %q: %w", subject, err)
		}
	}
	if u.PublicKey == "" {
		return nil
	}
	// The text is not repeated: somebody may have written the seed.
	if !nkeys.IsValidPublicUserKey(u.PublicKey) {
		return errors.New("nkey is not the public key of a user")
	}
	if other, ok := keys[u.PublicKey]; ok {
		return fmt.Errorf("nkey is the one of user %q: revoking one would revoke the other", other)
	}
	keys[u.PublicKey] = u.Name
	return nil
}

// template is what the server would replace in a permission. Everything here is
// meant as it is written, and a template that fails locks the user out.
const template = "{{"

// checkName refuses what is not one token of a subject (names stand in
// permissions) or taken, and takes the name.
func checkName(name string, taken map[string]bool) error {
	if name == "" {
		return errors.New("name is empty")
	}
	if strings.ContainsFunc(name, blank) || strings.ContainsAny(name, ".*>/") || strings.Contains(name, template) {
		return errors.New(`name has a space, a control character, {{ or one of . * > /`)
	}
	if taken[name] {
		return errors.New("name is taken")
	}
	taken[name] = true
	return nil
}

func checkSubject(subject string) error {
	if strings.ContainsFunc(subject, blank) || strings.Contains(subject, template) {
		return errors.New("it has a space, a control character or {{")
	}
	if slices.Contains(strings.Split(subject, "."), "") {
		return errors.New("a token of it is empty")
	}
	return nil
}

func blank(r rune) bool { return r <= ' ' || r == 0x7f }
