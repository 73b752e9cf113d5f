// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"errors"
	"fmt"

	"github.com/nats-io/jwt/v2"
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
	for _, u := range a.users {
		if err := u.check(a.public, claims); err != nil {
			return fmt.Errorf("user %q: %w", u.name, err)
		}
	}
	return nil
}

func (u user) check(account string, in *jwt.AccountClaims) error {
	public, err := publicOf(u.seed)
	if err != nil {
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
	if claims.Subject != public || claims.Issuer != signer || claims.IssuerAccount != account || claims.Name != u.name {
		return errApart
	}
	if scope, ok := in.SigningKeys.GetScope(signer); !ok || scope == nil {
		return errApart
	}
	return nil
}
