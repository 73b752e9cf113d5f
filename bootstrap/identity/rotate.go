// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"fmt"
	"maps"
	"time"

	"github.com/nats-io/jwt/v2"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

// clockSet is before every right time: a clock that says less was not set yet,
// as on a machine without a battery, and will jump when it is.
const clockSet = 1767225600 // 2026-01-01

const hintNewKey = "put the public key of a new nkey into the file and apply it"

// Rotate gives the user a new key and new credentials with the permissions it
// has. The old ones work until the overlap is over; without an overlap they, and
// those of earlier rotations, end now. A user that was revoked is let in again,
// with the new credentials only.
//
// The end of the overlap is a point in time: a clock that jumps forward past it
// ends the overlap early. One that is not set yet cannot give a point in time,
// so then only a rotation without an overlap is possible.
func (id *Identity) Rotate(account, user string, overlap time.Duration) error {
	name := account + "/" + user
	if overlap < 0 {
		return diag.Fail(diag.CodeUsage, fmt.Errorf("rotate user %q: overlap %s is negative", name, overlap), "give a time such as 24h, or 0 to end the old credentials now")
	}
	return id.changeUser(account, user, func(t target) (bool, error) {
		if t.user.own {
			return false, diag.Fail(diag.CodeUsage, fmt.Errorf("rotate user %q: it brings its own nkey", name), hintNewKey)
		}
		if overlap > 0 && t.now.Unix() < clockSet {
			return false, diag.Fail(diag.CodeUsage, fmt.Errorf("rotate user %q: the clock says %s, so the end of the overlap cannot be told", name, day(t.now)),
				"set the clock, or rotate without an overlap")
		}
		if _, revoked := t.account.barred[t.user.public]; overlap == 0 || revoked {
			if err := t.user.revokeKeys(t.claims, t.now); err != nil {
				return false, err
			}
		} else if err := t.user.retire(dated(t.now.Add(overlap))); err != nil {
			return false, err
		}
		t.user.rotated = dated(t.now)
		return true, t.account.issue(t.user, "", t.claims, t.now)
	})
}

// Revoke ends all credentials of the user now. They stay out, whatever is
// applied or restarted later; Rotate, or another nkey of its own, lets the user
// in again.
func (id *Identity) Revoke(account, user string) error {
	return id.changeUser(account, user, func(t target) (bool, error) {
		if _, revoked := t.account.barred[t.user.public]; revoked {
			return false, nil
		}
		if t.account.barred == nil {
			t.account.barred = map[string]time.Time{}
		}
		t.account.barred[t.user.public] = dated(t.now)
		return true, t.user.revokeKeys(t.claims, t.now)
	})
}

// Expire ends the overlaps that are over. It returns whether there were any, and
// when to call it again: the zero time when no overlap is left.
func (id *Identity) Expire() (changed bool, next time.Time, err error) {
	err = id.change(func(s *state, now time.Time) (bool, error) {
		for i := range s.accounts {
			over, err := s.expire(&s.accounts[i], now)
			if err != nil {
				return false, fmt.Errorf("expire keys of account %q: %w", s.accounts[i].name, err)
			}
			changed = changed || over
		}
		next = s.nextExpiry()
		return changed, nil
	})
	if err != nil {
		return false, time.Time{}, err
	}
	return changed, next, nil
}

func (s *state) expire(a *account, now time.Time) (bool, error) {
	claims, err := jwt.DecodeAccountClaims(a.token)
	if err != nil {
		return false, fmt.Errorf("decode token: %w", err)
	}
	changed := false
	for i := range a.users {
		changed = a.users[i].expire(claims, now) || changed
	}
	if !changed {
		return false, nil
	}
	return true, s.sign(a, claims, now)
}

func (s *state) nextExpiry() time.Time {
	var next time.Time
	for _, a := range s.accounts {
		for _, u := range a.users {
			for _, r := range u.retiring {
				if next.IsZero() || r.until.Before(next) {
					next = r.until
				}
			}
		}
	}
	return next
}

// target is the user that a change is about.
type target struct {
	account *account
	user    *user
	claims  *jwt.AccountClaims
	now     time.Time
}

// changeUser makes one change to one user. The account gets a new token only
// when the change revokes something: nothing else that f may do is in there.
func (id *Identity) changeUser(account, user string, f func(target) (bool, error)) error {
	return id.change(func(s *state, now time.Time) (bool, error) {
		a, u, err := s.user(account, user)
		if err != nil {
			return false, err
		}
		claims, err := jwt.DecodeAccountClaims(a.token)
		if err != nil {
			return false, fmt.Errorf("decode token of account %q: %w", account, err)
		}
		before := maps.Clone(claims.Revocations)
		changed, err := f(target{a, u, claims, now})
		if err != nil || maps.Equal(before, claims.Revocations) {
			return changed, err
		}
		return changed, s.sign(a, claims, now)
	})
}
