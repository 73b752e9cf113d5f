// SPDX-License-Identifier: Apache-2.0

package identity_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/jwt/v2"

	"github.com/holdfast-mq/holdfast/bootstrap/identity"
)

func TestApplyRemovesAUserThatIsNotInTheFile(t *testing.T) {
	id, f, _, _ := clocked(t)
	must(t, id.Rotate("shop", "packer", time.Hour))
	packer := info(t, f, "packer")
	users := worldUsers()
	got := apply(t, id, shop(append(users[:2:2], users[3:]...)...))
	want := identity.Changes{
		Made:      []identity.Change{{Kind: identity.KindUser, Account: "shop", User: "packer", What: "removed"}},
		Unmanaged: []identity.Change{{Kind: identity.KindAccount, Account: "line", What: "not declared, kept"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
	claims := claimsOf(t, id, "shop")
	if got := len(claims.SigningKeys); got != len(users)-1 {
		t.Errorf("got %d signing keys, want %d", got, len(users)-1)
	}
	if claims.Revocations[packer.PublicKey] == 0 || claims.Revocations[packer.Retiring[0].PublicKey] == 0 {
		t.Errorf("got revocations %v, want both keys of the user", claims.Revocations)
	}
	if _, err := open(t, f).Creds("shop", "packer"); err == nil {
		t.Error("got credentials of a user that was removed, want none")
	}
	if _, err := id.Creds("line", "robot"); err != nil {
		t.Errorf("got %v, want the user of an account that is not declared to stay", err)
	}
	apply(t, id, shop(users...))
	if got := info(t, f, "packer"); got.PublicKey == packer.PublicKey || got.State != identity.StateActive {
		t.Errorf("got %+v, want a new key for a user that came back", got)
	}
	if claimsOf(t, id, "shop").Revocations[packer.PublicKey] == 0 {
		t.Error("got the old key's revocation lost, want it kept")
	}
}

func TestApplyFollowsTheNkeyInTheFile(t *testing.T) {
	id, f, _, _ := clocked(t)
	one, _ := publicUserKey(t)
	two, _ := publicUserKey(t)
	made := info(t, f, "packer").PublicKey
	users := worldUsers()
	for i, step := range []struct {
		key     string
		what    string
		state   identity.State
		revoked string
	}{
		{one, "nkey changed, the old one is revoked", identity.StateOwnKey, made},
		{two, "nkey changed, the old one is revoked", identity.StateOwnKey, one},
		{"", "nkey changed, the old one is revoked", identity.StateActive, two},
	} {
		users[2].PublicKey = step.key
		changes := apply(t, id, shop(users...), account("line", "robot"))
		want := []identity.Change{{Kind: identity.KindUser, Account: "shop", User: "packer", What: step.what}}
		if diff := cmp.Diff(want, changes.Made); diff != "" {
			t.Errorf("changes of step %d (-want +got):\n%s", i, diff)
		}
		got := info(t, f, "packer")
		if got.State != step.state || step.key != "" && got.PublicKey != step.key || got.Rotated != noon {
			t.Errorf("step %d: got %+v, want state %q with key %q", i, got, step.state, step.key)
		}
		if revs := revocations(t, id); revs[step.revoked] == 0 || revs[got.PublicKey] != 0 || len(revs) != i+1 {
			t.Errorf("step %d: got revocations %v, want %s and those before", i, revs, step.revoked)
		}
	}
}

func TestAUserMayTakeOverTheKeyThatWasMadeForIt(t *testing.T) {
	id, f, _, _ := clocked(t)
	before, token := info(t, f, "packer"), mustToken(t, id, "packer")
	users := worldUsers()
	users[2].PublicKey = before.PublicKey
	changes := apply(t, id, shop(users...))
	if len(changes.Made) != 1 || changes.Made[0].What != "nkey is the user's own now, seed removed" {
		t.Errorf("got changes %+v, want that the seed is removed", changes.Made)
	}
	if got := info(t, f, "packer"); got.State != identity.StateOwnKey || got.PublicKey != before.PublicKey || mustToken(t, id, "packer") != token {
		t.Errorf("got %+v, want the same key and token", got)
	}
	if got := revocations(t, id); len(got) != 0 {
		t.Errorf("got revocations %v, want none", got)
	}

	// A key that is already somebody's is nobody else's.
	users[1].PublicKey, users[2].PublicKey = before.PublicKey, ""
	apply(t, id, shop(users...)) // moved: this is fine
	users[1].PublicKey, users[2].PublicKey = "", ""
	users[1].PublicKey = info(t, f, "auditor").PublicKey
	if _, err := id.Apply([]identity.Account{shop(users...)}); err == nil {
		t.Error("got one key for two users, want a refusal")
	}
}

func TestARevocationReachesEveryTokenOfTheKey(t *testing.T) {
	id, f, _, clock := clocked(t)
	public, _ := publicUserKey(t)
	issued := func() int64 {
		claims, err := jwt.DecodeUserClaims(mustToken(t, id, "packer"))
		must(t, err)
		return claims.IssuedAt
	}
	users := worldUsers()
	for i, now := range []time.Time{noon, noon, time.Unix(-7, 0), noon.Add(time.Hour), noon} {
		*clock = now
		users[2].PublicKey = public
		apply(t, id, shop(users...))
		last := issued()
		if rev := revocations(t, id)[public]; rev >= last {
			t.Errorf("step %d: got a token of %d with a revocation of %d, want the user let in", i, last, rev)
		}
		users[2].PublicKey = ""
		apply(t, id, shop(users...))
		if rev := revocations(t, id)[public]; rev < last {
			t.Errorf("step %d: got a revocation of %d and a token of %d, want it out", i, rev, last)
		}
	}
	if _, ok := revocations(t, id)[jwt.All]; ok {
		t.Error("got a revocation of everybody, want none ever")
	}

	users[2].PublicKey = public
	apply(t, id, shop(users...))
	must(t, id.Revoke("shop", "packer"))
	users[2].PublicKey = ""
	apply(t, id, shop(users...))
	users[2].PublicKey = public
	apply(t, id, shop(users...))
	if got := info(t, f, "packer"); got.State != identity.StateRevoked {
		t.Errorf("got state %q of a revoked key that came back, want it revoked", got.State)
	}
	if rev, last := revocations(t, id)[public], issued(); rev < last {
		t.Errorf("got a revocation of %d and a token of %d, want it out", rev, last)
	}
}

func TestKeysTranslateToUsers(t *testing.T) {
	id, f, _, _ := clocked(t)
	old := info(t, f, "packer").PublicKey
	must(t, id.Rotate("shop", "packer", time.Hour))
	for _, tc := range []struct{ account, key, want string }{
		{"shop", old, "packer"},
		{"shop", info(t, f, "packer").PublicKey, "packer"},
		{"shop", info(t, f, "boss").PublicKey, "boss"},
		{"line", old, ""},
		{"shop", "", ""},
		{"nothing", old, ""},
	} {
		if got := id.UserName(tc.account, tc.key); got != tc.want {
			t.Errorf("got user %q of key %q in %s, want %q", got, tc.key, tc.account, tc.want)
		}
	}
}

func TestARetiringKeyIsRevokedWhateverTheClockSays(t *testing.T) {
	id, f, _, clock := clocked(t)
	old := info(t, f, "packer").PublicKey
	must(t, id.Rotate("shop", "packer", time.Hour))
	id = open(t, f)
	*clock = time.Unix(5, 0)
	must(t, id.Revoke("shop", "packer"))
	if got := revocations(t, id)[old]; got < noon.Unix() {
		t.Errorf("got a revocation of %d, want at least the token's date %d", got, noon.Unix())
	}
}
