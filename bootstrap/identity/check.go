// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"errors"
	"fmt"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"
)

var errApart = errors.New("its keys and its token do not belong together")

// check proves that the token is the key's own and names the system account.
// It returns the operator's public key.
func (o operator) check(systemAccount string) (string, error) {
	public, err := publicOf(o.seed)
	if err != nil {
		return "", err
	}
	claims, err := jwt.DecodeOperatorClaims(o.token)
	if err != nil {
		return "", fmt.Errorf("read token: %w", err)
	}
	if claims.Subject != public || claims.Issuer != public || claims.SystemAccount != systemAccount {
		return "", errApart
	}
	return public, nil
}

// check proves that the operator signed the account's token for the account's
// key, and the account's signing keys the tokens of its users.
func (a account) check(operator string) error {
	claims, err := jwt.DecodeAccountClaims(a.token)
	if err != nil {
		return fmt.Errorf("read token: %w", err)
	}
	if claims.Subject != a.public || claims.Issuer != operator || claims.Name != a.name {
		return errApart
	}
	keys := map[string]bool{}
	for _, u := range a.users {
		if err := u.check(a.public, claims); err != nil {
			return fmt.Errorf("user %q: %w", u.name, err)
		}
		for _, key := range u.keys() {
			if !nkeys.IsValidPublicUserKey(key) {
				return fmt.Errorf("user %q: one of its keys is not a user's", u.name)
			}
			if keys[key] {
				return fmt.Errorf("user %q: one of its keys is another's too", u.name)
			}
			keys[key] = true
		}
		if _, barred := a.barred[u.public]; barred && !u.revoked(claims) {
			return fmt.Errorf("user %q: it was revoked, but the account's token lets it in", u.name)
		}
	}
	return nil
}

func (u user) check(account string, in *jwt.AccountClaims) error {
	if err := u.checkSeed(); err != nil {
		return err
	}
	signer, err := publicOf(u.signer)
	if err != nil {
		return err
	}
	claims, err := jwt.DecodeUserClaims(u.token)
	if err != nil {
		return fmt.Errorf("read token: %w", err)
	}
	if claims.Subject != u.public || claims.Issuer != signer || claims.IssuerAccount != account || claims.Name != u.name {
		return errApart
	}
	if scope, ok := in.SigningKeys.GetScope(signer); !ok || scope == nil {
		return errApart
	}
	return nil
}

// checkSeed proves that the seed is the key's own, and that it is here exactly
// when it should be.
func (u user) checkSeed() error {
	if u.own || !u.handedOut.IsZero() {
		if u.seed != (Secret{}) || u.own && !u.handedOut.IsZero() {
			return errApart
		}
		return nil
	}
	public, err := publicOf(u.seed)
	if err != nil {
		return err
	}
	if public != u.public {
		return errApart
	}
	return nil
}

func (u user) keys() []string {
	keys := []string{u.public}
	for _, r := range u.retiring {
		keys = append(keys, r.public)
	}
	return keys
}

// revoked reports whether the account's claims refuse the user's token.
func (u user) revoked(in *jwt.AccountClaims) bool {
	claims, err := jwt.DecodeUserClaims(u.token)
	return err == nil && in.IsClaimRevoked(claims)
}
