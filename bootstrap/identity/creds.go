// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"fmt"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

// Creds returns the credentials file of a user. It is a fault to ask for one
// that would not work or cannot be made: of a user that was revoked, or whose
// seed is not here.
func (id *Identity) Creds(account, user string) ([]byte, error) {
	a, u, err := id.current.Load().user(account, user)
	if err != nil {
		return nil, err
	}
	fresh := fmt.Sprintf("`holdfast creds rotate %s/%s` gives it new ones", account, user)
	what, hint := "", ""
	switch i := a.info(*u); i.State {
	case StateRevoked:
		what, hint = "they were revoked on "+day(i.Since), fresh
		if u.own {
			hint = hintNewKey
		}
	case StateOwnKey:
		what = "the user brings its own nkey, whose seed is not here"
		hint = "whoever has the seed of " + u.public + " connects with it and the user's token, which is no secret"
	case StateHandedOut:
		what, hint = "they were handed out on "+day(i.Since)+" and are not here any more", fresh+", and the old ones no longer work"
	case StateActive:
		return Login{Token: u.token, Seed: u.seed}.File()
	}
	return nil, diag.Fail(diag.CodeUnknownObject, fmt.Errorf("make credentials of user %q: %s", account+"/"+user, what), hint)
}

// Token returns the token of a user, which says who it is and proves nothing
// without the seed. A user with an nkey of its own needs it to connect.
func (id *Identity) Token(account, user string) (string, error) {
	_, u, err := id.current.Load().user(account, user)
	if err != nil {
		return "", err
	}
	return u.token, nil
}

// Forget removes the seed of a user once its credentials are handed out. Copies
// of the file that were made before still have it.
func (id *Identity) Forget(account, user string) error {
	return id.changeUser(account, user, func(t target) (bool, error) {
		if t.user.own || !t.user.handedOut.IsZero() {
			return false, nil
		}
		t.user.seed, t.user.handedOut = Secret{}, dated(t.now)
		return true, nil
	})
}
