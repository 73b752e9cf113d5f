// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/jwt/v2"
)

// Kind says what a Change is about.
type Kind string

// The kinds of changes.
const (
	KindAccount Kind = "account"
	KindUser    Kind = "user"
	KindLimits  Kind = "limits"
)

// What of a Change that makes an account or a user, or takes a user away.
const (
	Created = "created"
	Removed = "removed"
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
	// Unmanaged lists accounts that nobody asked for. They are kept, and so are
	// their users: messages hang on an account's keys.
	Unmanaged []Change
}

// Apply adds the accounts and users that are missing, makes limits and
// permissions what they should be, and shuts out the users of a wanted account
// that are not wanted. It returns when all of it is on disk; after an error
// nothing has changed. Tokens of accounts that are right already stay as they
// are, to the byte, and so do those of users, whatever becomes of their
// permissions.
func (id *Identity) Apply(want []Account) (Changes, error) {
	var changes Changes
	err := id.change(func(next *state, now time.Time) (bool, error) {
		var err error
		changes, err = next.apply(want, now)
		return len(changes.Made) > 0, err
	})
	if err != nil {
		return Changes{}, err
	}
	return changes, nil
}

// Plan returns what Apply would do, and does nothing.
func (id *Identity) Plan(want []Account) (Changes, error) {
	return id.current.Load().clone().apply(want, id.file.Now())
}

func (s *state) apply(want []Account, now time.Time) (Changes, error) {
	if err := checkWanted(want); err != nil {
		return Changes{}, err
	}
	var changes Changes
	for _, w := range want {
		made, err := s.applyAccount(w, now)
		if err != nil {
			return Changes{}, fmt.Errorf("apply account %q: %w", w.Name, err)
		}
		changes.Made = append(changes.Made, made...)
	}
	changes.Unmanaged = s.unmanaged(want)
	sortChanges(changes.Made)
	sortChanges(changes.Unmanaged)
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
		made = append(made, Change{Kind: KindAccount, Account: w.Name, What: Created})
	}
	// Changed in place rather than made anew: the claims also hold what is not
	// declared, such as the revocations.
	claims, err := jwt.DecodeAccountClaims(a.token)
	if err != nil {
		return nil, fmt.Errorf("decode token: %w", err)
	}
	signed := len(made) // by newAccount
	for _, what := range setLimits(claims, w.Limits) {
		made = append(made, Change{Kind: KindLimits, Account: w.Name, What: what})
	}
	users, err := a.applyUsers(claims, w.Users, now)
	if err != nil {
		return nil, err
	}
	made = append(made, users...)
	if len(made) == signed {
		return made, nil
	}
	if err := s.sign(a, claims, now); err != nil {
		return nil, err
	}
	return made, nil
}

func (a *account) applyUsers(claims *jwt.AccountClaims, want []User, now time.Time) ([]Change, error) {
	// Before anybody gets something new: an nkey may move from one user to
	// another, and a revocation made later would hit its new token too.
	removed, err := a.dismiss(claims, want, now)
	if err != nil {
		return nil, err
	}
	var made []Change
	for _, name := range removed {
		made = append(made, Change{Kind: KindUser, Account: a.name, User: name, What: Removed})
	}
	for _, w := range want {
		what, err := a.applyUser(claims, w, now)
		if err != nil {
			return nil, fmt.Errorf("apply user %q: %w", w.Name, err)
		}
		if what != "" {
			made = append(made, Change{Kind: KindUser, Account: a.name, User: w.Name, What: what})
		}
	}
	return made, nil
}

// dismiss revokes the keys of users that are not wanted, and removes these, and
// the keys of users that are to have another one, which it leaves without a key.
func (a *account) dismiss(claims *jwt.AccountClaims, want []User, now time.Time) ([]string, error) {
	var removed []string
	var kept []user
	for _, u := range a.users {
		i := slices.IndexFunc(want, func(w User) bool { return w.Name == u.name })
		if i >= 0 && !u.needsOtherKey(want[i]) {
			kept = append(kept, u)
			continue
		}
		if err := u.revokeKeys(claims, now); err != nil {
			return nil, fmt.Errorf("revoke keys of user %q: %w", u.name, err)
		}
		if i >= 0 {
			u.public = ""
			kept = append(kept, u)
			continue
		}
		signer, err := publicOf(u.signer)
		if err != nil {
			return nil, err
		}
		claims.SigningKeys.Remove(signer)
		removed = append(removed, u.name)
	}
	a.users = kept
	return removed, nil
}

func (u user) needsOtherKey(w User) bool {
	if w.PublicKey == "" {
		return u.own
	}
	return w.PublicKey != u.public
}

// applyUser makes sure that the user exists, has its key, and has its
// permissions in the account's claims. It returns what it did, "" for nothing.
func (a *account) applyUser(claims *jwt.AccountClaims, w User, now time.Time) (string, error) {
	var what []string
	u := a.find(w.Name)
	if u == nil {
		fresh, err := newUser(w.Name, now)
		if err != nil {
			return "", err
		}
		u = a.insert(fresh)
		what = append(what, Created)
	}
	switch {
	case u.public == "":
		if len(what) == 0 {
			what = append(what, "nkey changed, the old one is revoked")
			u.rotated = dated(now)
		}
		if err := a.issue(u, w.PublicKey, claims, now); err != nil {
			return "", err
		}
	case w.PublicKey != "" && !u.own:
		// The key that was made here, taken over by the user: no client notices.
		u.seed, u.own, u.handedOut = Secret{}, true, time.Time{}
		what = append(what, "nkey is the user's own now, seed removed")
	}
	signer, err := publicOf(u.signer)
	if err != nil {
		return "", err
	}
	changed, err := setScope(claims, signer, w)
	if err != nil {
		return "", err
	}
	if changed != "" && !slices.Contains(what, Created) {
		what = append(what, changed)
	}
	return strings.Join(what, "; "), nil
}

func (s *state) unmanaged(want []Account) []Change {
	var kept []Change
	for _, a := range s.accounts {
		if !slices.ContainsFunc(want, func(w Account) bool { return w.Name == a.name }) {
			kept = append(kept, Change{Kind: KindAccount, Account: a.name, What: "not declared, kept"})
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
