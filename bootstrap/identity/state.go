// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"
)

// state is everything the file holds. A published state is never changed:
// a change is made to a clone, which is swapped in once it is saved.
type state struct {
	operator operator
	system   account
	internal account
	accounts []account // sorted by name
}

type operator struct {
	seed  Secret
	token string
}

type account struct {
	name   string
	public string
	seed   Secret
	token  string
	users  []user // sorted by name
	// barred holds the keys that somebody revoked, and when. The account's token
	// revokes them too, and others besides: of users that left, and old ones.
	// What is barred is not let in again, even if it is declared again.
	barred map[string]time.Time
}

func newState(now time.Time) (*state, error) {
	op, err := nkeys.CreateOperator()
	if err != nil {
		return nil, fmt.Errorf("create operator key: %w", err)
	}
	s := &state{}
	if s.operator.seed, err = seedOf(op); err != nil {
		return nil, err
	}
	if s.system, err = s.newAccount(SystemName, func(*jwt.AccountClaims) {}, now); err != nil {
		return nil, err
	}
	if s.internal, err = s.newAccount(InternalName, func(c *jwt.AccountClaims) { setLimits(c, Unlimited()) }, now); err != nil {
		return nil, err
	}
	public, err := op.PublicKey()
	if err != nil {
		return nil, fmt.Errorf("read operator key: %w", err)
	}
	claims := jwt.NewOperatorClaims(public)
	claims.Name = "holdfast"
	claims.SystemAccount = s.system.public
	if s.operator.token, err = sign(claims, s.operator.seed, now); err != nil {
		return nil, fmt.Errorf("sign operator: %w", err)
	}
	return s, nil
}

// newAccount makes the key and the token of an account. It has no JetStream
// unless shape gives it some: the server refuses a system account with it.
func (s *state) newAccount(name string, shape func(*jwt.AccountClaims), now time.Time) (account, error) {
	kp, err := nkeys.CreateAccount()
	if err != nil {
		return account{}, fmt.Errorf("create key of account %q: %w", name, err)
	}
	a := account{name: name}
	if a.public, err = kp.PublicKey(); err != nil {
		return account{}, fmt.Errorf("read key of account %q: %w", name, err)
	}
	if a.seed, err = seedOf(kp); err != nil {
		return account{}, err
	}
	claims := jwt.NewAccountClaims(a.public)
	claims.Name = name
	shape(claims)
	if a.token, err = sign(claims, s.operator.seed, now); err != nil {
		return account{}, fmt.Errorf("sign account %q: %w", name, err)
	}
	return a, nil
}

// sign makes the account's token say what the claims say.
func (s *state) sign(a *account, claims *jwt.AccountClaims, now time.Time) error {
	token, err := sign(claims, s.operator.seed, now)
	if err != nil {
		return fmt.Errorf("sign account %q: %w", a.name, err)
	}
	a.token = token
	return nil
}

func (s *state) clone() *state {
	next := *s
	next.accounts = slices.Clone(s.accounts)
	for i := range next.accounts {
		next.accounts[i].users = slices.Clone(next.accounts[i].users)
		next.accounts[i].barred = maps.Clone(next.accounts[i].barred)
	}
	return &next
}

// all returns every account, the two of Holdfast's own first.
func (s *state) all() []account {
	return append([]account{s.system, s.internal}, s.accounts...)
}

// find returns the declared account of that name, or nil.
func (s *state) find(name string) *account {
	i, ok := slices.BinarySearchFunc(s.accounts, name, func(a account, n string) int { return strings.Compare(a.name, n) })
	if !ok {
		return nil
	}
	return &s.accounts[i]
}

// user returns a user of a declared account, or a fault that says which there are.
func (s *state) user(accountName, userName string) (*account, *user, error) {
	a := s.find(accountName)
	if a == nil {
		return nil, nil, unknown("account", accountName, s.names())
	}
	u := a.find(userName)
	if u == nil {
		var names []string
		for _, u := range a.users {
			names = append(names, u.name)
		}
		return nil, nil, unknown("user", accountName+"/"+userName, names)
	}
	return a, u, nil
}

// names returns the names of the declared accounts, sorted.
func (s *state) names() []string {
	var names []string
	for _, a := range s.accounts {
		names = append(names, a.name)
	}
	return names
}

// insert adds a under its name and returns where it now stands.
func (s *state) insert(a account) *account {
	i, _ := slices.BinarySearchFunc(s.accounts, a.name, func(b account, n string) int { return strings.Compare(b.name, n) })
	s.accounts = slices.Insert(s.accounts, i, a)
	return &s.accounts[i]
}

func (a *account) find(name string) *user {
	i, ok := slices.BinarySearchFunc(a.users, name, func(u user, n string) int { return strings.Compare(u.name, n) })
	if !ok {
		return nil
	}
	return &a.users[i]
}

func (a *account) insert(u user) *user {
	i, _ := slices.BinarySearchFunc(a.users, u.name, func(v user, n string) int { return strings.Compare(v.name, n) })
	a.users = slices.Insert(a.users, i, u)
	return &a.users[i]
}
