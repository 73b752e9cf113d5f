// SPDX-License-Identifier: Apache-2.0

package identity_test

import (
	"errors"
	"os"
	"testing"

	"github.com/holdfast-mq/holdfast/appliance/diag"
	"github.com/holdfast-mq/holdfast/bootstrap/identity"
)

// shelf is where the identities of these tests are shared.
type shelf struct {
	data []byte
	at   uint64
	fail error
}

func (s *shelf) Load() ([]byte, uint64, error) { return s.data, s.at, s.fail }

var errFaster = errors.New("somebody was faster")

func (s *shelf) Store(data []byte, after uint64) (uint64, error) {
	if s.fail != nil || after != s.at {
		return 0, errors.Join(s.fail, errFaster)
	}
	s.data, s.at = data, s.at+1
	return s.at, nil
}

// two returns nodes of one cluster, the second with a copy of the first one's identity.
func two(t *testing.T, s *shelf) (a, b *identity.Identity, bFile identity.File, taken *int) {
	t.Helper()
	aFile, _ := newFile(t)
	a = open(t, aFile)
	bFile, _ = newFile(t)
	data, err := os.ReadFile(aFile.Path)
	if err == nil {
		err = os.WriteFile(bFile.Path, data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	b = open(t, bFile)
	taken = new(int)
	a.Share(s, func() {})
	b.Share(s, func() { *taken++ })
	return a, b, bFile, taken
}

func TestWhatOneNodeChangesTheOthersHave(t *testing.T) {
	t.Parallel()
	a, b, bFile, taken := two(t, &shelf{})
	shop := identity.Account{Name: "shop", Limits: identity.Unlimited(), Users: []identity.User{{Name: "admin", Role: identity.RoleAdmin}}}
	apply(t, a, shop)
	if err := b.CatchUp(); err != nil || *taken != 1 {
		t.Fatalf("got %v and taken %d times, want once", err, *taken)
	}
	want, err := a.Creds("shop", "admin")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := b.Creds("shop", "admin"); err != nil || string(got) != string(want) {
		t.Errorf("got other credentials, %v, want those of the other node", err)
	}
	// A copy is in the file, for a start without the others.
	if got, err := open(t, bFile).Creds("shop", "admin"); err != nil || string(got) != string(want) {
		t.Errorf("got other credentials from the file, %v", err)
	}
	// Both change in turn; each has what the other did.
	if err := b.Rotate("shop", "admin", 0); err != nil {
		t.Fatal(err)
	}
	shop.Users = append(shop.Users, identity.User{Name: "auditor", Role: identity.RoleObserver})
	apply(t, a, shop)
	if err := b.CatchUp(); err != nil {
		t.Fatal(err)
	}
	rotated, err := a.Creds("shop", "admin")
	if err != nil || string(rotated) == string(want) {
		t.Errorf("got the old credentials, %v, want those that the other node made", err)
	}
	if _, err := b.Creds("shop", "auditor"); err != nil {
		t.Error(err)
	}
	if changes := apply(t, b, shop); len(changes.Made) > 0 {
		t.Errorf("got %v, want nothing left to do", changes.Made)
	}
}

func TestAChangeThatIsNotSharedIsNotMade(t *testing.T) {
	t.Parallel()
	s := &shelf{}
	a, _, _, _ := two(t, s)
	apply(t, a, identity.Account{Name: "shop", Limits: identity.Unlimited()})
	s.fail = errors.New("no leader")
	if _, err := a.Apply([]identity.Account{{Name: "lab", Limits: identity.Unlimited()}}); !errors.Is(err, s.fail) {
		t.Fatalf("got %v, want %v", err, s.fail)
	}
	if names := a.Accounts(); len(names) != 1 {
		t.Errorf("got accounts %q, want those of before", names)
	}
}

// TestAChangeThatOnlyTheClusterHasIsTakenLater has a full disk on the node that made it.
func TestAChangeThatOnlyTheClusterHasIsTakenLater(t *testing.T) {
	t.Parallel()
	f, d := newFile(t)
	id := open(t, f)
	id.Share(&shelf{}, func() {})
	d.fail = errors.New("no space left")
	if _, err := id.Apply([]identity.Account{{Name: "shop", Limits: identity.Unlimited()}}); !errors.Is(err, d.fail) {
		t.Fatalf("got %v, want %v", err, d.fail)
	}
	d.fail = nil
	if err := id.CatchUp(); err != nil || len(id.Accounts()) != 1 {
		t.Errorf("got accounts %q and %v, want what the others have", id.Accounts(), err)
	}
}

func TestIdentityOfAnotherClusterIsNotTaken(t *testing.T) {
	t.Parallel()
	s := &shelf{}
	a, _, _, _ := two(t, s)
	apply(t, a, identity.Account{Name: "shop", Limits: identity.Unlimited()})
	f, _ := newFile(t)
	stranger := open(t, f)
	stranger.Share(s, func() { t.Error("took the identity of another cluster") })
	if err := stranger.CatchUp(); diag.CodeOf(err) != diag.CodeClusterJoin || !diag.Permanent(err) {
		t.Errorf("got %v, want %s for good", err, diag.CodeClusterJoin)
	}
	if names := stranger.Accounts(); len(names) > 0 {
		t.Errorf("got accounts %q, want none", names)
	}
}
