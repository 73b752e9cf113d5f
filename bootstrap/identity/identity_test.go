// SPDX-License-Identifier: Apache-2.0

package identity_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"github.com/holdfast-mq/holdfast/appliance/diag"
	"github.com/holdfast-mq/holdfast/bootstrap/identity"
)

// disk writes files, counts the writes, and fails those it is told to.
type disk struct {
	writes int
	fail   error
}

func (d *disk) write(path string, data []byte, perm fs.FileMode) error {
	d.writes++
	if d.fail != nil {
		return d.fail
	}
	if err := os.WriteFile(path+".new", data, perm); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

func newFile(t *testing.T) (identity.File, *disk) {
	t.Helper()
	d := &disk{}
	return identity.File{Path: filepath.Join(t.TempDir(), "identity.json"), Write: d.write, Now: time.Now}, d
}

func open(t *testing.T, f identity.File, stored ...string) *identity.Identity {
	t.Helper()
	id, err := identity.Open(f, stored)
	if err != nil {
		t.Fatalf("open identity: %v", err)
	}
	return id
}

func apply(t *testing.T, id *identity.Identity, want ...identity.Account) identity.Changes {
	t.Helper()
	changes, err := id.Apply(want)
	if err != nil {
		t.Fatalf("apply: %v", err)
	}
	return changes
}

func account(name string, users ...string) identity.Account {
	a := identity.Account{Name: name, Limits: identity.Unlimited()}
	for _, u := range users {
		a.Users = append(a.Users, identity.User{Name: u, Role: identity.RoleAdmin})
	}
	return a
}

func wantFault(t *testing.T, err error, code diag.Code, permanent bool, text string) {
	t.Helper()
	if err == nil {
		t.Fatalf("got no error, want code %s", code)
	}
	if got := diag.CodeOf(err); got != code {
		t.Errorf("got code %q of %v, want %q", got, err, code)
	}
	if got := diag.Permanent(err); got != permanent {
		t.Errorf("got permanent %v of %v, want %v", got, err, permanent)
	}
	if diag.Hint(err) == "" {
		t.Errorf("got no hint with %v, want one", err)
	}
	if !strings.Contains(err.Error(), text) {
		t.Errorf("got %v, want text %q", err, text)
	}
}

func TestOpenSavesANewIdentityBeforeItIsUsed(t *testing.T) {
	f, d := newFile(t)
	first := open(t, f)
	if d.writes != 1 {
		t.Errorf("got %d writes, want 1", d.writes)
	}
	info, err := os.Stat(f.Path)
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Mode().Perm(); got != 0o600 {
		t.Errorf("got mode %o, want 600", got)
	}
	if diff := cmp.Diff(first.Trust(), open(t, f).Trust()); diff != "" {
		t.Errorf("the second open trusts somebody else:\n%s", diff)
	}
	if d.writes != 1 {
		t.Errorf("got %d writes after the second open, want 1", d.writes)
	}
}

func TestOpenSaysThatANewIdentityCouldNotBeSaved(t *testing.T) {
	f, d := newFile(t)
	d.fail = errors.New("no space left on device")
	_, err := identity.Open(f, nil)
	wantFault(t, err, diag.CodeIdentityWrite, false, "no space left")
}

func TestSavePassesOnAFaultThatKnowsMore(t *testing.T) {
	f, d := newFile(t)
	d.fail = diag.Fail(diag.CodeDiskFull, errors.New("no space left on device"), "make room")
	_, err := identity.Open(f, nil)
	wantFault(t, err, diag.CodeDiskFull, false, "save identity")
}

func TestOpenNeverMakesANewIdentityOverAStore(t *testing.T) {
	f, d := newFile(t)
	_, err := identity.Open(f, []string{"ABC"})
	wantFault(t, err, diag.CodeIdentityGone, true, "is gone")
	if d.writes != 0 {
		t.Errorf("got %d writes, want 0", d.writes)
	}
}

func TestOpenRefusesAStoreOfAnAccountItDoesNotKnow(t *testing.T) {
	f, _ := newFile(t)
	id := open(t, f)
	old, err := os.ReadFile(f.Path)
	if err != nil {
		t.Fatal(err)
	}
	apply(t, id, account("shop"))
	shop, _ := id.PublicKey("shop")
	internal, _ := id.PublicKey(identity.InternalName)
	open(t, f, internal, shop, "not-an-account")

	if err := os.WriteFile(f.Path, old, 0o600); err != nil {
		t.Fatal(err)
	}
	open(t, f, internal)
	_, err = identity.Open(f, []string{internal, shop})
	wantFault(t, err, diag.CodeIdentityGone, true, shop)
}

func TestNamesAndKeysTranslateBothWays(t *testing.T) {
	f, _ := newFile(t)
	id := open(t, f)
	apply(t, id, account("shop"), account("line"))
	if diff := cmp.Diff([]string{"line", "shop"}, id.Accounts()); diff != "" {
		t.Errorf("accounts (-want +got):\n%s", diff)
	}
	trust := id.Trust()
	for _, name := range []string{"line", "shop", identity.SystemName, identity.InternalName} {
		public, ok := id.PublicKey(name)
		if !ok || !nkeys.IsValidPublicAccountKey(public) {
			t.Errorf("got key %q of %q, want an account key", public, name)
		}
		if got, _ := id.AccountName(public); got != name {
			t.Errorf("got name %q of %s, want %q", got, public, name)
		}
		if trust.Preload[public] == "" {
			t.Errorf("got no token of %q to preload, want one", name)
		}
	}
	if got, _ := id.PublicKey(identity.SystemName); got != trust.SystemAccount {
		t.Errorf("got system account %s, want %s", trust.SystemAccount, got)
	}
	if len(trust.Preload) != 4 {
		t.Errorf("got %d tokens to preload, want 4", len(trust.Preload))
	}
	if got, ok := id.PublicKey("nobody"); ok {
		t.Errorf("got key %q of an unknown account, want none", got)
	}
	if got, ok := id.AccountName("nobody"); ok {
		t.Errorf("got name %q of an unknown key, want none", got)
	}
}

func TestCredsOfAnUnknownNameSayWhichThereAre(t *testing.T) {
	f, _ := newFile(t)
	id := open(t, f)
	_, err := id.Creds("shop", "packer")
	wantFault(t, err, diag.CodeUnknownObject, false, `account "shop"`)
	apply(t, id, account("shop", "packer", "auditor"))
	_, err = id.Creds("shop", "pucker")
	wantFault(t, err, diag.CodeUnknownObject, false, `user "shop/pucker"`)
	if got, want := diag.Hint(err), "there are: auditor, packer"; got != want {
		t.Errorf("got hint %q, want %q", got, want)
	}
	_, err = id.InternalLogin("line")
	wantFault(t, err, diag.CodeUnknownObject, false, `account "line"`)
	for _, own := range []string{identity.SystemName, identity.InternalName} {
		if _, err := id.Creds(own, "holdfast"); err == nil {
			t.Errorf("got credentials for %s, want none", own)
		}
	}
}

func TestEveryLoginIsAnotherUser(t *testing.T) {
	f, d := newFile(t)
	id := open(t, f)
	a, err := id.SystemLogin()
	if err != nil {
		t.Fatal(err)
	}
	b, err := id.SystemLogin()
	if err != nil {
		t.Fatal(err)
	}
	if a.Token == b.Token || a.Seed.Reveal() == b.Seed.Reveal() {
		t.Error("got the same login twice, want two")
	}
	if d.writes != 1 {
		t.Errorf("got %d writes, want 1: logins are not saved", d.writes)
	}
	creds, err := a.File()
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(creds, []byte(a.Seed.Reveal())) {
		t.Error("got a credentials file without the seed, want it in")
	}
}

func TestTokensHaveNoEnd(t *testing.T) {
	f, _ := newFile(t)
	f.Now = func() time.Time { return time.Unix(-30, 0) }
	id := open(t, f)
	apply(t, id, account("shop", "packer"))
	creds, err := id.Creds("shop", "packer")
	if err != nil {
		t.Fatal(err)
	}
	packer, err := jwt.ParseDecoratedJWT(creds)
	if err != nil {
		t.Fatal(err)
	}
	login, err := id.InternalLogin("shop")
	if err != nil {
		t.Fatal(err)
	}
	tokens := []string{packer, login.Token, id.Trust().OperatorJWT}
	for _, token := range id.Trust().Preload {
		tokens = append(tokens, token)
	}
	for _, token := range tokens {
		claims, err := jwt.Decode(token)
		if err != nil {
			t.Fatal(err)
		}
		data := claims.Claims()
		if data.Expires != 0 || data.NotBefore != 0 || data.IssuedAt < 1 || data.IssuedAt > 10 {
			t.Errorf("got exp %d nbf %d iat %d of %s, want 0, 0 and just after 1970", data.Expires, data.NotBefore, data.IssuedAt, data.Name)
		}
	}
	open(t, f)
}

func TestIdentityIsSafeForConcurrentUse(t *testing.T) {
	f, _ := newFile(t)
	id := open(t, f)
	var group sync.WaitGroup
	for i := range 4 {
		name := fmt.Sprintf("a%d", i)
		group.Go(func() {
			if _, err := id.Apply([]identity.Account{account(name, "u")}); err != nil {
				t.Errorf("apply %s: %v", name, err)
			}
			if _, err := id.Creds(name, "u"); err != nil {
				t.Errorf("creds %s: %v", name, err)
			}
		})
	}
	group.Wait()
	if diff := cmp.Diff([]string{"a0", "a1", "a2", "a3"}, open(t, f).Accounts()); diff != "" {
		t.Errorf("accounts on disk (-want +got):\n%s", diff)
	}
}
