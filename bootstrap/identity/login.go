// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

// Login is what a client proves itself with.
type Login struct {
	Token string
	Seed  Secret
}

// File returns the login as a credentials file.
func (l Login) File() ([]byte, error) {
	creds, err := jwt.FormatUserConfig(l.Token, []byte(l.Seed.Reveal()))
	if err != nil {
		return nil, fmt.Errorf("format credentials: %w", err)
	}
	return creds, nil
}

// SystemLogin makes a user of the system account, for Holdfast's own
// connections and for commands about servers.
func (id *Identity) SystemLogin() (Login, error) {
	return newLogin(id.current.Load().system, id.file.Now())
}

// InternalLogin makes a user that may do everything in the account, for
// Holdfast's own connections.
func (id *Identity) InternalLogin(account string) (Login, error) {
	s := id.current.Load()
	if account == InternalName {
		return newLogin(s.internal, id.file.Now())
	}
	a := s.find(account)
	if a == nil {
		return Login{}, unknown("account", account, id.Accounts())
	}
	return newLogin(*a, id.file.Now())
}

// newLogin makes a user with a new key, signed by the account itself, so that
// it stands in no file and needs no change of the account's token. It has no
// end: a clock that jumps must not lock Holdfast out.
func newLogin(a account, now time.Time) (Login, error) {
	kp, err := nkeys.CreateUser()
	if err != nil {
		return Login{}, fmt.Errorf("create login for account %q: %w", a.name, err)
	}
	public, err := kp.PublicKey()
	if err != nil {
		return Login{}, fmt.Errorf("create login for account %q: %w", a.name, err)
	}
	seed, err := seedOf(kp)
	if err != nil {
		return Login{}, fmt.Errorf("create login for account %q: %w", a.name, err)
	}
	claims := jwt.NewUserClaims(public)
	claims.Name = "holdfast"
	token, err := sign(claims, a.seed, now)
	if err != nil {
		return Login{}, fmt.Errorf("sign login for account %q: %w", a.name, err)
	}
	return Login{Token: token, Seed: seed}, nil
}

func unknown(kind, name string, known []string) error {
	hint := "there are none yet: declare it in the configuration and run `holdfast apply`"
	if len(known) > 0 {
		hint = "there are: " + strings.Join(known, ", ")
	}
	return diag.Fail(diag.CodeUnknownObject, fmt.Errorf("find %s %q: no such %s", kind, name, kind), hint)
}
