// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"slices"
	"time"

	"github.com/nats-io/jwt/v2"
)

// State says where the credentials of a user are.
type State string

// The states of users. One that was revoked is nothing else.
const (
	StateActive    State = "active"
	StateRevoked   State = "revoked"
	StateHandedOut State = "handed out" // and forgotten here
	StateOwnKey    State = "own key"    // the user's, not kept here
)

// Info is what there is to know about a user. There is nothing secret in it.
type Info struct {
	Account   string
	User      string
	Role      Role
	PublicKey string
	Created   time.Time // zero when it is not known
	Rotated   time.Time // zero when it never was
	State     State
	Since     time.Time // of a user that was revoked or handed out
	Retiring  []Retiring
}

// Retiring is an old key that is let in until a time.
type Retiring struct {
	PublicKey string
	Until     time.Time
}

// List returns all users of all accounts but Holdfast's own, sorted by account
// and user.
func (id *Identity) List() []Info {
	var all []Info
	for _, a := range id.current.Load().accounts {
		claims, err := jwt.DecodeAccountClaims(a.token)
		for _, u := range a.users {
			i := a.info(u)
			if signer, bad := publicOf(u.signer); err == nil && bad == nil {
				i.Role = roleOf(claims, signer)
			}
			all = append(all, i)
		}
	}
	return all
}

// info is all but the role, which stands in the account's token.
func (a *account) info(u user) Info {
	i := Info{
		Account: a.name, User: u.name, PublicKey: u.public,
		Created: u.created, Rotated: u.rotated, State: StateActive,
	}
	revoked, barred := a.barred[u.public]
	switch {
	case barred:
		i.State, i.Since = StateRevoked, revoked
	case u.own:
		i.State = StateOwnKey
	case !u.handedOut.IsZero():
		i.State, i.Since = StateHandedOut, u.handedOut
	}
	for _, r := range u.retiring {
		i.Retiring = append(i.Retiring, Retiring{PublicKey: r.public, Until: r.until})
	}
	return i
}

// UserName returns the name of the user of an account that has or had this key,
// as far as it is known: old keys of a rotation that is over are not.
func (id *Identity) UserName(account, publicKey string) string {
	a := id.current.Load().find(account)
	if a == nil {
		return ""
	}
	for _, u := range a.users {
		if u.public == publicKey || slices.ContainsFunc(u.retiring, func(r retiring) bool { return r.public == publicKey }) {
			return u.name
		}
	}
	return ""
}
