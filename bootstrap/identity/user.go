// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"
)

type user struct {
	name   string
	public string
	// seed is empty when the user brought its own key, or was handed the one that
	// was made here.
	seed  Secret
	token string
	// signer is the scoped key that signed token, and those of retiring keys. The
	// user's permissions stand with its public half in the account's token, so
	// that they can change while the credentials file stays as it is.
	signer    Secret
	own       bool
	created   time.Time // zero where format 1 did not keep it
	rotated   time.Time // zero before the first rotation
	handedOut time.Time // zero while the seed is here
	retiring  []retiring
}

// retiring is an old key of a user that is let in until a time.
type retiring struct {
	public string
	issued int64 // date of its token, in Unix seconds
	until  time.Time
}

// newUser makes a user that has no key yet.
func newUser(name string, now time.Time) (user, error) {
	kp, err := nkeys.CreateAccount()
	if err != nil {
		return user{}, fmt.Errorf("create signing key: %w", err)
	}
	signer, err := seedOf(kp)
	if err != nil {
		return user{}, err
	}
	return user{name: name, signer: signer, created: dated(now)}, nil
}

// issue gives the user a key, the one it brought or a new one, and a token for
// it. It forgets the key that the user had.
func (a *account) issue(u *user, brought string, claims *jwt.AccountClaims, now time.Time) error {
	u.public, u.seed, u.own, u.handedOut = brought, Secret{}, brought != "", time.Time{}
	if !u.own {
		kp, err := nkeys.CreateUser()
		if err != nil {
			return fmt.Errorf("create key: %w", err)
		}
		if u.seed, err = seedOf(kp); err != nil {
			return err
		}
		if u.public, err = kp.PublicKey(); err != nil {
			return fmt.Errorf("read key: %w", err)
		}
	}
	token := jwt.NewUserClaims(u.public)
	token.Name = u.name
	token.IssuerAccount = a.public
	token.SetScoped(true)
	// A key that comes back, such as that of a user that was taken out of the file
	// for a while: its new token must be later than what revoked the old one.
	token.IssuedAt = claims.Revocations[u.public]
	var err error
	if u.token, err = sign(token, u.signer, now); err != nil {
		return fmt.Errorf("sign token: %w", err)
	}
	if _, ok := a.barred[u.public]; ok {
		return u.revokeKeys(claims, now)
	}
	return nil
}

// revokeKeys puts an end to all tokens that the user has, and to the overlap of
// the retiring ones. Dates of tokens may be ahead of the clock, and a revocation
// reaches only tokens that are not younger.
func (u *user) revokeKeys(claims *jwt.AccountClaims, now time.Time) error {
	token, err := jwt.DecodeUserClaims(u.token)
	if err != nil {
		return fmt.Errorf("decode token: %w", err)
	}
	revoke(claims, u.public, token.IssuedAt, now)
	for _, r := range u.retiring {
		revoke(claims, r.public, r.issued, now)
	}
	u.retiring = nil
	return nil
}

func revoke(claims *jwt.AccountClaims, public string, issued int64, now time.Time) {
	claims.RevokeAt(public, time.Unix(max(now.Unix(), issued), 0))
}

// retire lets the user's key in until then.
func (u *user) retire(until time.Time) error {
	token, err := jwt.DecodeUserClaims(u.token)
	if err != nil {
		return fmt.Errorf("decode token: %w", err)
	}
	u.retiring = append(slices.Clone(u.retiring), retiring{public: u.public, issued: token.IssuedAt, until: until})
	return nil
}

// expire revokes the retiring keys whose time has come and reports whether there
// were any.
func (u *user) expire(claims *jwt.AccountClaims, now time.Time) bool {
	kept := slices.DeleteFunc(slices.Clone(u.retiring), func(r retiring) bool {
		over := !now.Before(r.until)
		if over {
			revoke(claims, r.public, r.issued, now)
		}
		return over
	})
	changed := len(kept) < len(u.retiring)
	u.retiring = kept
	return changed
}

// dated is a time as it stands in the file.
func dated(t time.Time) time.Time { return t.UTC().Truncate(time.Second) }

func day(t time.Time) string { return t.UTC().Format(time.DateTime) + " UTC" }
