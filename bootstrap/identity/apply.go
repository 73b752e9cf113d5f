// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/jwt/v2"
)

// Account is an account as it should be.
type Account struct {
	Name   string
	Limits Limits
	Users  []User
}

// User is a user as it should be. It may do everything in its account.
type User struct {
	Name string
}

// Kind says what a Change is about.
type Kind string

// The kinds of changes.
const (
	KindAccount Kind = "account"
	KindUser    Kind = "user"
	KindLimits  Kind = "limits"
)

// Change is one difference between what was wanted and what was there.
type Change struct {
	Kind    Kind
	Account string
	User    string // of KindUser
	What    string // "created", "streams: 5 -> 10"
}

// Changes is what Apply did and what it left alone, each sorted by account.
type Changes struct {
	Made []Change
	// Unmanaged lists accounts and users that nobody asked for. They are kept,
	// and what they may do stays: an account's messages hang on its keys.
	Unmanaged []Change
}

// Apply adds the accounts and users that are missing and makes limits and
// permissions what they should be. It returns when all of it is on disk; after
// an error nothing has changed. Tokens of accounts that are right already stay
// as they are, to the byte.
func (id *Identity) Apply(want []Account) (Changes, error) {
	if err := checkWanted(want); err != nil {
		return Changes{}, err
	}
	id.applying.Lock()
	defer id.applying.Unlock()

	next := id.current.Load().clone()
	var changes Changes
	for _, w := range want {
		made, err := next.applyAccount(w, id.file.Now())
		if err != nil {
			return Changes{}, fmt.Errorf("apply account %q: %w", w.Name, err)
		}
		changes.Made = append(changes.Made, made...)
	}
	changes.Unmanaged = next.unmanaged(want)
	sortChanges(changes.Made)
	sortChanges(changes.Unmanaged)
	if len(changes.Made) == 0 {
		return changes, nil
	}
	if err := id.file.save(next); err != nil {
		return Changes{}, err
	}
	id.current.Store(next)
	return changes, nil
}

func (s *state) applyAccount(w Account, now time.Time) ([]Change, error) {
	var made []Change
	a := s.find(w.Name)
	if a == nil {
		fresh, err := s.newAccount(w.Name, func(c *jwt.AccountClaims) { setLimits(c, w.Limits) }, now)
		if err != nil {
			return nil, err
		}
		a = s.insert(fresh)
		made = append(made, Change{Kind: KindAccount, Account: w.Name, What: "created"})
	}
	claims, err := jwt.DecodeAccountClaims(a.token)
	if err != nil {
		return nil, fmt.Errorf("decode token: %w", err)
	}
	// Changed in place rather than made anew: the claims also hold what is not
	// declared, such as users that were kept.
	inToken := 0
	for _, what := range setLimits(claims, w.Limits) {
		made = append(made, Change{Kind: KindLimits, Account: w.Name, What: what})
		inToken++
	}
	for _, u := range w.Users {
		what, err := a.applyUser(claims, u, now)
		if err != nil {
			return nil, fmt.Errorf("apply user %q: %w", u.Name, err)
		}
		if what != "" {
			made = append(made, Change{Kind: KindUser, Account: w.Name, User: u.Name, What: what})
			inToken++
		}
	}
	if inToken == 0 {
		return made, nil
	}
	if a.token, err = sign(claims, s.operator.seed, now); err != nil {
		return nil, fmt.Errorf("sign token: %w", err)
	}
	return made, nil
}

// applyUser makes sure that the user exists and that the account's claims give
// it its permissions. It returns what it did, "" for nothing.
func (a *account) applyUser(claims *jwt.AccountClaims, w User, now time.Time) (string, error) {
	what := ""
	u := a.find(w.Name)
	if u == nil {
		fresh, err := newUser(a, w.Name, now)
		if err != nil {
			return "", err
		}
		u = a.insert(fresh)
		what = "created"
	}
	signer, err := publicOf(u.signer)
	if err != nil {
		return "", err
	}
	changed, err := setScope(claims, signer, w)
	if err != nil {
		return "", err
	}
	if changed {
		what = cmp.Or(what, "permissions updated")
	}
	return what, nil
}

func (s *state) unmanaged(want []Account) []Change {
	var kept []Change
	for _, a := range s.accounts {
		i := slices.IndexFunc(want, func(w Account) bool { return w.Name == a.name })
		if i < 0 {
			kept = append(kept, Change{Kind: KindAccount, Account: a.name, What: "not declared, kept"})
			continue
		}
		for _, u := range a.users {
			if !slices.Contains(want[i].Users, User{Name: u.name}) {
				kept = append(kept, Change{Kind: KindUser, Account: a.name, User: u.name, What: "not declared, kept"})
			}
		}
	}
	return kept
}

func sortChanges(changes []Change) {
	slices.SortFunc(changes, func(a, b Change) int {
		return cmp.Or(
			cmp.Compare(a.Account, b.Account),
			cmp.Compare(a.Kind, b.Kind),
			cmp.Compare(a.User, b.User),
			cmp.Compare(a.What, b.What),
		)
	})
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
		users := map[string]bool{}
		for _, u := range a.Users {
			if err := checkName(u.Name, users); err != nil {
				return fmt.Errorf("check user %q of account %q: %w", u.Name, a.Name, err)
			}
		}
	}
	return nil
}

// checkName refuses what is not one token of a subject (permissions are to be
// templates with the user's name in them) or taken, and takes the name.
func checkName(name string, taken map[string]bool) error {
	if name == "" {
		return errors.New("name is empty")
	}
	if strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r == 0x7f || strings.ContainsRune(".*>/", r) }) {
		return errors.New(`name has a space, a control character or one of . * > /`)
	}
	if taken[name] {
		return errors.New("name is taken")
	}
	taken[name] = true
	return nil
}
