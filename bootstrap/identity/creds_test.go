// SPDX-License-Identifier: Apache-2.0

package identity_test

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/jwt/v2"

	"github.com/holdfast-mq/holdfast/appliance/diag"
	"github.com/holdfast-mq/holdfast/bootstrap/identity"
)

var noon = time.Date(2031, 5, 6, 12, 0, 0, 0, time.UTC)

// clocked makes an identity with the users of the world, a clock and a disk.
func clocked(t *testing.T) (*identity.Identity, identity.File, *disk, *time.Time) {
	t.Helper()
	f, d := newFile(t)
	clock := noon
	f.Now = func() time.Time { return clock }
	id := open(t, f)
	apply(t, id, shop(worldUsers()...), account("line", "robot"))
	return id, f, d, &clock
}

// info returns what the list says about a user of shop, after a restart.
func info(t *testing.T, f identity.File, user string) identity.Info {
	t.Helper()
	for _, i := range open(t, f).List() {
		if i.Account == "shop" && i.User == user {
			return i
		}
	}
	t.Fatalf("got no %s in the list", user)
	return identity.Info{}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func revocations(t *testing.T, id *identity.Identity) map[string]int64 {
	t.Helper()
	return claimsOf(t, id, "shop").Revocations
}

func TestListTellsTheLifeOfAUser(t *testing.T) {
	id, f, _, clock := clocked(t)
	first := info(t, f, "packer")
	want := identity.Info{Account: "shop", User: "packer", Role: identity.RoleWorker, PublicKey: first.PublicKey, Created: noon, State: identity.StateActive}
	check := func(what string) {
		t.Helper()
		if diff := cmp.Diff(want, info(t, f, "packer")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	check("created")

	*clock = noon.Add(time.Hour)
	must(t, id.Rotate("shop", "packer", 24*time.Hour))
	second := info(t, f, "packer").PublicKey
	want.Rotated, want.PublicKey = *clock, second
	want.Retiring = []identity.Retiring{{PublicKey: first.PublicKey, Until: clock.Add(24 * time.Hour)}}
	check("rotated")
	if second == first.PublicKey {
		t.Error("got the same key after a rotation, want another one")
	}

	*clock = noon.Add(2 * time.Hour)
	must(t, id.Forget("shop", "packer"))
	want.State, want.Since = identity.StateHandedOut, *clock
	check("handed out")

	*clock = noon.Add(3 * time.Hour)
	must(t, id.Revoke("shop", "packer"))
	want.State, want.Since, want.Retiring = identity.StateRevoked, *clock, nil
	check("revoked")

	*clock = noon.Add(4 * time.Hour)
	must(t, id.Rotate("shop", "packer", time.Hour))
	want.PublicKey, want.Rotated = info(t, f, "packer").PublicKey, *clock
	want.State, want.Since = identity.StateActive, time.Time{}
	check("rotated after it was revoked")

	var names []string
	for _, i := range id.List() {
		names = append(names, i.Account+"/"+i.User+" "+string(i.Role))
	}
	all := []string{
		"line/robot admin", "shop/auditor observer", "shop/boss admin", "shop/checkout producer",
		"shop/counter worker", "shop/idle producer", "shop/legacy custom", "shop/packer worker",
	}
	if diff := cmp.Diff(all, names); diff != "" {
		t.Errorf("list (-want +got):\n%s", diff)
	}
}

func TestCredsSayWhyThereAreNone(t *testing.T) {
	id, _, _, _ := clocked(t)
	if _, err := id.Creds("shop", "packer"); err != nil {
		t.Fatal(err)
	}
	must(t, id.Forget("shop", "packer"))
	_, err := id.Creds("shop", "packer")
	wantFault(t, err, diag.CodeUnknownObject, false, "they were handed out on 2031-05-06 12:00:00 UTC")
	if want := "`holdfast creds rotate shop/packer` gives it new ones"; !strings.Contains(diag.Hint(err), want) {
		t.Errorf("got hint %q, want %q in it", diag.Hint(err), want)
	}
	must(t, id.Revoke("shop", "packer"))
	_, err = id.Creds("shop", "packer")
	wantFault(t, err, diag.CodeUnknownObject, false, "they were revoked on 2031-05-06 12:00:00 UTC")
	must(t, id.Rotate("shop", "packer", 0))
	if _, err := id.Creds("shop", "packer"); err != nil {
		t.Errorf("got %v after a rotation, want credentials", err)
	}

	users := worldUsers()
	users[2].PublicKey, _ = publicUserKey(t)
	apply(t, id, shop(users...))
	_, err = id.Creds("shop", "packer")
	wantFault(t, err, diag.CodeUnknownObject, false, "brings its own nkey")
	must(t, id.Revoke("shop", "packer"))
	_, err = id.Creds("shop", "packer")
	wantFault(t, err, diag.CodeUnknownObject, false, "they were revoked")
	if want := "new nkey into the file"; !strings.Contains(diag.Hint(err), want) {
		t.Errorf("got hint %q, want %q in it", diag.Hint(err), want)
	}
}

func TestForgetLeavesNoSeedBehind(t *testing.T) {
	id, f, _, _ := clocked(t)
	creds, err := id.Creds("shop", "packer")
	must(t, err)
	pair, err := jwt.ParseDecoratedUserNKey(creds)
	must(t, err)
	secret, err := pair.Seed()
	must(t, err)
	onDisk := func() string {
		data, err := os.ReadFile(f.Path)
		must(t, err)
		return string(data)
	}
	if !strings.Contains(onDisk(), string(secret)) {
		t.Fatal("got a file without the seed before it was forgotten, want it there")
	}
	token, trust := mustToken(t, id, "packer"), id.Trust()
	must(t, id.Forget("shop", "packer"))
	wantNone(t, onDisk(), []string{string(secret)})
	if mustToken(t, id, "packer") != token || cmp.Diff(trust, id.Trust()) != "" {
		t.Error("got other tokens, want the same: the credentials still work")
	}
}

func mustToken(t *testing.T, id *identity.Identity, user string) string {
	t.Helper()
	token, err := id.Token("shop", user)
	must(t, err)
	return token
}

func TestExpireEndsOverlapsWhenTheirTimeHasCome(t *testing.T) {
	id, f, d, clock := clocked(t)
	expire := func(changed bool, next time.Time) {
		t.Helper()
		writes := d.writes
		gotChanged, gotNext, err := id.Expire()
		if gotChanged != changed || !gotNext.Equal(next) || err != nil {
			t.Errorf("got changed %v, next %s and %v at %s, want %v and %s", gotChanged, gotNext, err, *clock, changed, next)
		}
		if wrote := d.writes > writes; wrote != changed {
			t.Errorf("got a write %v, want %v", wrote, changed)
		}
	}
	expire(false, time.Time{})
	first, robot := info(t, f, "packer").PublicKey, mustToken(t, id, "packer")
	must(t, id.Rotate("shop", "packer", 2*time.Hour))
	second := info(t, f, "packer").PublicKey
	must(t, id.Rotate("shop", "packer", time.Hour))
	must(t, id.Rotate("line", "robot", 3*time.Hour))
	third := info(t, f, "packer").PublicKey
	if len(revocations(t, id)) != 0 || mustToken(t, id, "packer") == robot {
		t.Errorf("got revocations %v, want none yet", revocations(t, id))
	}

	expire(false, noon.Add(time.Hour))
	*clock = time.Unix(0, 0) // a power cut, and no battery
	expire(false, noon.Add(time.Hour))
	*clock = noon.Add(time.Hour - time.Second)
	expire(false, noon.Add(time.Hour))
	*clock = noon.Add(time.Hour)
	expire(true, noon.Add(2*time.Hour))
	if got := revocations(t, id); len(got) != 1 || got[second] != clock.Unix() {
		t.Errorf("got revocations %v, want %s only, now", got, second)
	}
	*clock = noon.Add(24 * time.Hour)
	id = open(t, f) // it was off for a while
	expire(true, time.Time{})
	if got := revocations(t, id); len(got) != 2 || got[first] == 0 || got[third] != 0 {
		t.Errorf("got revocations %v, want %s too", got, first)
	}
	expire(false, time.Time{})
}

func TestRotateWithoutOverlapEndsAllOldKeys(t *testing.T) {
	id, f, _, _ := clocked(t)
	first := info(t, f, "packer").PublicKey
	must(t, id.Rotate("shop", "packer", time.Hour))
	second := info(t, f, "packer").PublicKey
	must(t, id.Rotate("shop", "packer", 0))
	if got := revocations(t, id); len(got) != 2 || got[first] == 0 || got[second] == 0 {
		t.Errorf("got revocations %v, want %s and %s", got, first, second)
	}
	if got := info(t, f, "packer"); len(got.Retiring) != 0 {
		t.Errorf("got retiring keys %v, want none", got.Retiring)
	}
}

func TestRotateRefusesWhatItCannotDo(t *testing.T) {
	id, _, d, clock := clocked(t)
	users := worldUsers()
	users[2].PublicKey, _ = publicUserKey(t)
	apply(t, id, shop(users...))
	writes := d.writes
	wantFault(t, id.Rotate("shop", "packer", 0), diag.CodeUsage, false, "brings its own nkey")
	wantFault(t, id.Rotate("shop", "checkout", -1), diag.CodeUsage, false, "is negative")
	wantFault(t, id.Rotate("shop", "nobody", 0), diag.CodeUnknownObject, false, "no such user")
	wantFault(t, id.Revoke("nothing", "nobody"), diag.CodeUnknownObject, false, "no such account")
	wantFault(t, id.Forget("shop", "nobody"), diag.CodeUnknownObject, false, "no such user")
	_, err := id.Token("shop", "nobody")
	wantFault(t, err, diag.CodeUnknownObject, false, "no such user")
	*clock = time.Unix(100, 0)
	wantFault(t, id.Rotate("shop", "checkout", time.Hour), diag.CodeUsage, false, "the clock says 1970-01-01")
	if d.writes != writes {
		t.Errorf("got %d writes, want none", d.writes-writes)
	}
	must(t, id.Rotate("shop", "checkout", 0))
}

func TestTheSameAgainWritesNothing(t *testing.T) {
	id, _, d, _ := clocked(t)
	users := worldUsers()
	users[1].PublicKey, _ = publicUserKey(t)
	apply(t, id, shop(users...), account("line", "robot"))
	must(t, id.Revoke("shop", "packer"))
	must(t, id.Forget("shop", "auditor"))
	trust, writes := id.Trust(), d.writes
	must(t, id.Revoke("shop", "packer"))
	must(t, id.Forget("shop", "auditor"))
	must(t, id.Forget("shop", "checkout")) // its own key: there is nothing to forget
	if got := apply(t, id, shop(users...), account("line", "robot")); len(got.Made) != 0 {
		t.Errorf("got changes %+v, want none", got.Made)
	}
	if diff := cmp.Diff(trust, id.Trust()); diff != "" || d.writes != writes {
		t.Errorf("got %d writes and other tokens, want none:\n%s", d.writes-writes, diff)
	}
}

func TestNothingChangesThatCannotBeSaved(t *testing.T) {
	id, f, d, clock := clocked(t)
	must(t, id.Rotate("shop", "checkout", time.Hour))
	must(t, id.Revoke("shop", "auditor"))
	*clock = noon.Add(2 * time.Hour)
	trust, list, token := id.Trust(), id.List(), mustToken(t, id, "packer")
	onDisk, err := os.ReadFile(f.Path)
	must(t, err)
	d.fail = errors.New("input/output error")
	for name, op := range map[string]func() error{
		"rotate":              func() error { return id.Rotate("shop", "packer", 0) },
		"rotate with overlap": func() error { return id.Rotate("shop", "checkout", time.Hour) },
		"revoke":              func() error { return id.Revoke("shop", "checkout") },
		"forget":              func() error { return id.Forget("shop", "packer") },
		"expire":              func() error { _, _, err := id.Expire(); return err },
		"remove users":        func() error { _, err := id.Apply([]identity.Account{shop()}); return err },
	} {
		t.Run(name, func(t *testing.T) {
			wantFault(t, op(), diag.CodeIdentityWrite, false, "input/output error")
			if cmp.Diff(trust, id.Trust()) != "" || cmp.Diff(list, id.List()) != "" || mustToken(t, id, "packer") != token {
				t.Error("got something changed, want all as it was")
			}
			if now, err := os.ReadFile(f.Path); err != nil || string(now) != string(onDisk) {
				t.Errorf("got another file and %v, want the old one", err)
			}
		})
	}
	d.fail = nil
	must(t, id.Revoke("shop", "checkout"))
	open(t, f)
}
