// SPDX-License-Identifier: Apache-2.0

package identity_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/jwt/v2"

	"github.com/holdfast-mq/holdfast/bootstrap/identity"
)

func claimsOf(t *testing.T, id *identity.Identity, account string) *jwt.AccountClaims {
	t.Helper()
	public, _ := id.PublicKey(account)
	claims, err := jwt.DecodeAccountClaims(id.Trust().Preload[public])
	if err != nil {
		t.Fatalf("decode token of %q: %v", account, err)
	}
	return claims
}

func TestApplyTellsWhatItDid(t *testing.T) {
	f, _ := newFile(t)
	id := open(t, f)
	got := apply(t, id, account("shop", "packer", "auditor"), account("line"))
	want := identity.Changes{Made: []identity.Change{
		{Kind: identity.KindAccount, Account: "line", What: "created"},
		{Kind: identity.KindAccount, Account: "shop", What: "created"},
		{Kind: identity.KindUser, Account: "shop", User: "auditor", What: "created"},
		{Kind: identity.KindUser, Account: "shop", User: "packer", What: "created"},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("first apply (-want +got):\n%s", diff)
	}

	shop := account("shop", "packer", "new")
	shop.Limits.Streams, shop.Limits.DiskBytes = 5, 1000
	got = apply(t, id, shop)
	want = identity.Changes{
		Made: []identity.Change{
			{Kind: identity.KindLimits, Account: "shop", What: "disk_bytes: no limit -> 1000"},
			{Kind: identity.KindLimits, Account: "shop", What: "streams: no limit -> 5"},
			{Kind: identity.KindUser, Account: "shop", User: "auditor", What: "removed"},
			{Kind: identity.KindUser, Account: "shop", User: "new", What: "created"},
		},
		Unmanaged: []identity.Change{
			{Kind: identity.KindAccount, Account: "line", What: "not declared, kept"},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("second apply (-want +got):\n%s", diff)
	}
}

func TestPlanIsWhatApplyDoesAndChangesNothing(t *testing.T) {
	f, d := newFile(t)
	id := open(t, f)
	apply(t, id, account("shop", "packer", "leaver"), account("line", "a"))
	trust, writes := id.Trust(), d.writes
	want := []identity.Account{account("shop", "packer", "newcomer"), account("yard", "b")}
	want[0].Limits = identity.Limits{1, 0, 2, 3, 4, 5, 6}
	planned, err := id.Plan(want)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(trust, id.Trust()); diff != "" || d.writes != writes {
		t.Errorf("after a plan: got %d writes, want %d and the tokens as they were:\n%s", d.writes, writes, diff)
	}
	if diff := cmp.Diff(planned, apply(t, id, want...)); diff != "" || len(planned.Made) < 4 || len(planned.Unmanaged) != 1 {
		t.Errorf("plan and apply (-plan +apply):\n%s\n%+v", diff, planned)
	}
	if _, err := id.Plan([]identity.Account{account("shop", "a.b")}); err == nil {
		t.Error("got a plan with a name that no token may hold, want an error")
	}
}

func TestApplyTwiceChangesNothing(t *testing.T) {
	f, d := newFile(t)
	id := open(t, f)
	want := []identity.Account{account("shop", "packer"), account("line", "a", "b")}
	want[0].Limits = identity.Limits{1, 0, 2, 3, 4, 5, 6}
	apply(t, id, want...)
	trust, writes := id.Trust(), d.writes
	for range 2 {
		if got := apply(t, id, want...); len(got.Made)+len(got.Unmanaged) != 0 {
			t.Errorf("got %+v, want no changes", got)
		}
		if diff := cmp.Diff(trust, id.Trust()); diff != "" {
			t.Errorf("tokens changed:\n%s", diff)
		}
		if d.writes != writes {
			t.Errorf("got %d writes, want %d", d.writes, writes)
		}
		id = open(t, f)
	}
}

func TestApplyLeavesTokensOfOtherAccountsAlone(t *testing.T) {
	f, _ := newFile(t)
	id := open(t, f)
	apply(t, id, account("shop", "packer"), account("line", "a"))
	line, _ := id.PublicKey("line")
	before := id.Trust().Preload[line]
	apply(t, id, account("shop", "packer", "more"), account("line", "a"))
	if id.Trust().Preload[line] != before {
		t.Error("got a new token of an account that did not change, want the old one")
	}
}

func TestApplyKeepsCredentialsOfUsersThatStay(t *testing.T) {
	f, _ := newFile(t)
	id := open(t, f)
	apply(t, id, account("shop", "packer"))
	before, err := id.Creds("shop", "packer")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range [][]identity.Account{{account("shop", "packer", "other")}, nil, {account("line")}, {account("shop", "packer")}} {
		apply(t, id, want...)
		after, err := id.Creds("shop", "packer")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(before), string(after)); diff != "" {
			t.Errorf("credentials changed after %+v", want)
		}
	}
}

func TestApplyChangesNothingWhenItCannotSave(t *testing.T) {
	f, d := newFile(t)
	id := open(t, f)
	apply(t, id, account("shop", "packer", "q", "r")) // "late" sorts before them
	trust := id.Trust()
	onDisk, err := os.ReadFile(f.Path)
	if err != nil {
		t.Fatal(err)
	}

	limited := account("shop", "packer", "q", "r", "late")
	limited.Limits.Streams = 7
	d.fail = errors.New("input/output error")
	if got, err := id.Apply([]identity.Account{limited, account("line")}); err == nil || len(got.Made) > 0 {
		t.Fatalf("got changes %+v and error %v, want an error only", got, err)
	}
	if diff := cmp.Diff(trust, id.Trust()); diff != "" {
		t.Errorf("tokens changed although nothing was saved:\n%s", diff)
	}
	if _, err := id.Creds("shop", "late"); err == nil {
		t.Error("got credentials of a user that was not saved, want none")
	}
	if _, err := id.Creds("shop", "r"); err != nil {
		t.Errorf("got %v, want the credentials of a user that was there", err)
	}
	now, err := os.ReadFile(f.Path)
	if err != nil {
		t.Fatal(err)
	}
	if string(now) != string(onDisk) {
		t.Error("got another file, want the old one")
	}

	d.fail = nil
	if got := apply(t, id, limited, account("line")); len(got.Made) != 3 {
		t.Errorf("got %+v after the disk healed, want three changes", got.Made)
	}
}

// A token with a date of ours must differ from the library's in nothing else.
func TestTokensAreAsTheLibraryMakesThem(t *testing.T) {
	for {
		f, _ := newFile(t)
		id := open(t, f)
		apply(t, id, account("shop"))
		public, _ := id.PublicKey("shop")
		got := id.Trust().Preload[public]
		claims := claimsOf(t, id, "shop")
		dated := claims.IssuedAt
		want, err := claims.Encode(operatorIn(t, f.Path))
		if err != nil {
			t.Fatal(err)
		}
		if claims.IssuedAt != dated {
			continue // the second ended in between
		}
		if got != want {
			t.Errorf("got token %s, want %s", got, want)
		}
		return
	}
}

func TestTokensAreDatedForwardWhateverTheClockSays(t *testing.T) {
	f, _ := newFile(t)
	clock := time.Date(2031, 5, 6, 7, 8, 9, 0, time.UTC)
	f.Now = func() time.Time { return clock }
	id := open(t, f)
	apply(t, id, account("shop"))
	before := claimsOf(t, id, "shop")
	if got, want := before.IssuedAt, clock.Unix(); got != want {
		t.Errorf("got date %d, want the clock's %d", got, want)
	}
	for i, now := range []time.Time{clock, clock.Add(-24 * time.Hour), time.Unix(0, 0)} {
		clock = now
		apply(t, id, account("shop", "u", fmt.Sprint("u", i)))
		after := claimsOf(t, id, "shop")
		if after.IssuedAt <= before.IssuedAt || after.ID == before.ID {
			t.Errorf("got date %d and id %s with the clock at %s, want later than %d and not %s", after.IssuedAt, after.ID, now, before.IssuedAt, before.ID)
		}
		before = after
	}
}

func TestApplyKeepsWhatTheTokenHoldsBesides(t *testing.T) {
	f, _ := newFile(t)
	id := open(t, f)
	apply(t, id, account("shop", "packer"))
	// Stands for what a later part of Holdfast puts there: a revocation that got
	// lost would let its user in again.
	editAccount(t, f.Path, "shop", func(c *jwt.AccountClaims) { c.RevokeAt(c.Subject, time.Unix(1000, 0)) })
	id = open(t, f)
	if got := apply(t, id, account("shop", "packer")); len(got.Made) != 0 {
		t.Errorf("got %+v, want no changes", got.Made)
	}
	apply(t, id, account("shop", "packer", "late"))
	if got := claimsOf(t, id, "shop").Revocations; len(got) != 1 {
		t.Errorf("got revocations %v, want the one that was there", got)
	}
}

func TestApplyRestoresPermissions(t *testing.T) {
	f, _ := newFile(t)
	id := open(t, f)
	apply(t, id, account("shop", "packer"))
	editAccount(t, f.Path, "shop", func(c *jwt.AccountClaims) {
		for _, scope := range c.SigningKeys {
			scope.(*jwt.UserScope).Template.Pub.Allow.Add("only.this")
		}
	})
	want := []identity.Change{{Kind: identity.KindUser, Account: "shop", User: "packer", What: "permissions updated"}}
	if diff := cmp.Diff(want, apply(t, open(t, f), account("shop", "packer")).Made); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
}

func TestApplyRefusesWhatATokenMustNotHold(t *testing.T) {
	f, d := newFile(t)
	id := open(t, f)
	zero, negative := account("shop"), account("shop")
	zero.Limits.DiskBytes = 0
	negative.Limits.MemoryBytes = -2
	for name, tc := range map[string]struct {
		want []identity.Account
		text string
	}{
		"own name":         {[]identity.Account{account("HOLDFAST")}, "name is taken"},
		"system name":      {[]identity.Account{account("SYS")}, "name is taken"},
		"account twice":    {[]identity.Account{account("a"), account("a")}, "name is taken"},
		"user twice":       {[]identity.Account{account("a", "u", "u")}, "name is taken"},
		"no name":          {[]identity.Account{account("a", "")}, "name is empty"},
		"two tokens":       {[]identity.Account{account("a", "b.c")}, "control character"},
		"wildcard":         {[]identity.Account{account("a*")}, "control character"},
		"newline":          {[]identity.Account{account("a\nb")}, "control character"},
		"zero limit":       {[]identity.Account{zero}, "disk_bytes is 0"},
		"negative limit":   {[]identity.Account{negative}, "memory_bytes is -2"},
		"forgotten limits": {[]identity.Account{{Name: "a"}}, "is 0"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := id.Apply(tc.want)
			if err == nil || !strings.Contains(err.Error(), tc.text) {
				t.Errorf("got %v, want text %q", err, tc.text)
			}
		})
	}
	if d.writes != 1 || len(id.Accounts()) != 0 {
		t.Errorf("got %d writes and accounts %v, want 1 and none", d.writes, id.Accounts())
	}
}

func TestApplyRefusesMoreThanATokenHolds(t *testing.T) {
	f, d := newFile(t)
	id := open(t, f)
	big := account("big")
	for i := range 4 {
		big.Users = append(big.Users, identity.User{Role: identity.RoleAdmin, Name: strings.Repeat("u", 200_000+i)})
	}
	if _, err := id.Apply([]identity.Account{big}); err == nil || !strings.Contains(err.Error(), "token size") {
		t.Errorf("got %v, want a refusal because of the token's size", err)
	}
	if d.writes != 1 {
		t.Errorf("got %d writes, want 1", d.writes)
	}
	open(t, f)
}
