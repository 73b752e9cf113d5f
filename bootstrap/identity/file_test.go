// SPDX-License-Identifier: Apache-2.0

package identity_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"github.com/holdfast-mq/holdfast/appliance/diag"
	"github.com/holdfast-mq/holdfast/bootstrap/identity"
)

type object = map[string]any

// edit changes the identity in the file and gives it the right checksum.
func edit(t *testing.T, path string, change func(id object)) {
	t.Helper()
	editFile(t, path, func(file object) {
		change(file["identity"].(object))
		payload, err := json.Marshal(file["identity"])
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(payload)
		file["sha256"] = hex.EncodeToString(sum[:])
	})
}

func editFile(t *testing.T, path string, change func(file object)) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var file object
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	change(file)
	if data, err = json.MarshalIndent(file, "", "\t"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func editAccount(t *testing.T, path, name string, change func(*jwt.AccountClaims)) {
	t.Helper()
	edit(t, path, func(id object) {
		operator := keyOf(t, id["operator"].(object)["seed"])
		for _, a := range id["accounts"].([]any) {
			a := a.(object)
			if a["name"] != name {
				continue
			}
			claims, err := jwt.DecodeAccountClaims(a["token"].(string))
			if err != nil {
				t.Fatal(err)
			}
			change(claims)
			if a["token"], err = claims.Encode(operator); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func operatorIn(t *testing.T, path string) nkeys.KeyPair {
	t.Helper()
	var operator nkeys.KeyPair
	edit(t, path, func(id object) { operator = keyOf(t, id["operator"].(object)["seed"]) })
	return operator
}

func keyOf(t *testing.T, seed any) nkeys.KeyPair {
	t.Helper()
	kp, err := nkeys.FromSeed([]byte(seed.(string)))
	if err != nil {
		t.Fatal(err)
	}
	return kp
}

// twoAccounts makes a file with two accounts of two users each.
func twoAccounts(t *testing.T) identity.File {
	t.Helper()
	f, _ := newFile(t)
	apply(t, open(t, f), account("line", "a", "b"), account("shop", "c", "d"))
	return f
}

func nth(id object, account int, user int) (a, u object) {
	a = id["accounts"].([]any)[account].(object)
	return a, a["users"].([]any)[user].(object)
}

func TestOpenRefusesADamagedFile(t *testing.T) {
	swap := func(x, y object, key string) { x[key], y[key] = y[key], x[key] }
	for name, tc := range map[string]struct {
		edit func(id object)
		text string
	}{
		"operator seed of another": {func(id object) { id["operator"].(object)["seed"] = newSeed(nkeys.CreateOperator) }, "operator: its keys"},
		"system swapped":           {func(id object) { id["system"], id["internal"] = id["internal"], id["system"] }, "operator: its keys"},
		"account seeds swapped":    {func(id object) { a, _ := nth(id, 0, 0); b, _ := nth(id, 1, 0); swap(a, b, "seed") }, `account "line": its keys`},
		"account renamed":          {func(id object) { a, _ := nth(id, 0, 0); a["name"] = "lane" }, `account "lane": its keys`},
		"accounts not sorted": {func(id object) { a := id["accounts"].([]any); a[0], a[1] = a[1], a[0] },
			`account "line": it is not in its place`},
		"users not sorted":        {func(id object) { _, u := nth(id, 0, 0); u["name"] = "z" }, `user "b" is not in its place`},
		"user seeds swapped":      {func(id object) { _, a := nth(id, 0, 0); _, b := nth(id, 0, 1); swap(a, b, "seed") }, `user "a": its keys`},
		"signers swapped":         {func(id object) { _, a := nth(id, 0, 0); _, b := nth(id, 0, 1); swap(a, b, "signer") }, `user "a": its keys`},
		"users of other accounts": {func(id object) { a, _ := nth(id, 0, 0); b, _ := nth(id, 1, 0); swap(a, b, "users") }, `user "c": its keys`},
		"seed is no seed":         {func(id object) { _, u := nth(id, 0, 0); u["seed"] = "SUXX" }, `user "a": read key`},
		"token is no token":       {func(id object) { a, _ := nth(id, 1, 0); a["token"] = "x" }, `account "shop": read token`},
		"unknown field":           {func(id object) { id["roles"] = 1 }, "unknown field"},
	} {
		t.Run(name, func(t *testing.T) {
			f := twoAccounts(t)
			secrets := seedsIn(t, f.Path)
			edit(t, f.Path, tc.edit)
			_, err := identity.Open(f, nil)
			wantFault(t, err, diag.CodeIdentity, true, tc.text)
			wantFault(t, err, diag.CodeIdentity, true, f.Path)
			wantNone(t, err.Error()+diag.Hint(err), secrets)
		})
	}
	t.Run("life of a user", testOpenRefusesADamagedUser)
	t.Run("user without permissions", func(t *testing.T) {
		f := twoAccounts(t)
		editAccount(t, f.Path, "shop", func(c *jwt.AccountClaims) { c.SigningKeys.Remove(c.SigningKeys.Keys()...) })
		_, err := identity.Open(f, nil)
		wantFault(t, err, diag.CodeIdentity, true, `account "shop": user "c": its keys`)
	})
	t.Run("account of another operator", func(t *testing.T) {
		f, other := twoAccounts(t), twoAccounts(t)
		operator := operatorIn(t, other.Path)
		edit(t, f.Path, func(id object) {
			a, _ := nth(id, 1, 0)
			claims, err := jwt.DecodeAccountClaims(a["token"].(string))
			if err != nil {
				t.Fatal(err)
			}
			if a["token"], err = claims.Encode(operator); err != nil {
				t.Fatal(err)
			}
		})
		_, err := identity.Open(f, nil)
		wantFault(t, err, diag.CodeIdentity, true, `account "shop": its keys`)
	})
	t.Run("user of another account", func(t *testing.T) {
		f := twoAccounts(t)
		edit(t, f.Path, func(id object) {
			_, u := nth(id, 1, 0)
			claims, err := jwt.DecodeUserClaims(u["token"].(string))
			if err != nil {
				t.Fatal(err)
			}
			if claims.IssuerAccount, err = keyOf(t, id["system"].(object)["seed"]).PublicKey(); err != nil {
				t.Fatal(err)
			}
			if u["token"], err = claims.Encode(keyOf(t, u["signer"])); err != nil {
				t.Fatal(err)
			}
		})
		_, err := identity.Open(f, nil)
		wantFault(t, err, diag.CodeIdentity, true, `user "c": its keys`)
	})
}

func testOpenRefusesADamagedUser(t *testing.T) {
	key, _ := publicUserKey(t)
	drop := func(key string) func(a, u object) { return func(_, u object) { delete(u, key) } }
	set := func(key string, value any) func(a, u object) { return func(_, u object) { u[key] = value } }
	retiring := func(key any) []any {
		return []any{object{"key": key, "issued": 1, "until": "2031-01-01T00:00:00Z"}}
	}
	for name, tc := range map[string]struct {
		edit func(a, u object)
		text string
	}{
		"seed lost":                {drop("seed"), "read key"},
		"key of another":           {set("key", key), "its keys"},
		"seed of an own key":       {set("own", true), "its keys"},
		"seed that was handed out": {set("handed_out", "2026-01-01T00:00:00Z"), "its keys"},
		"own and handed out": {func(_, u object) {
			delete(u, "seed")
			u["own"], u["handed_out"] = true, "2026-01-01T00:00:00Z"
		}, "its keys"},
		"another's key retiring": {func(a, u object) {
			u["retiring"] = retiring(a["users"].([]any)[1].(object)["key"])
		}, "is another's too"},
		"one key retiring twice": {set("retiring", append(retiring(key), retiring(key)...)), "is another's too"},
		"retiring no key":        {set("retiring", retiring("x")), "is not a user's"},
		"revoked, but let in": {func(a, u object) {
			a["barred"] = object{u["key"].(string): "2026-01-01T00:00:00Z"}
		}, "lets it in"},
	} {
		t.Run(name, func(t *testing.T) {
			f := twoAccounts(t)
			edit(t, f.Path, func(id object) { tc.edit(nth(id, 0, 0)) })
			_, err := identity.Open(f, nil)
			wantFault(t, err, diag.CodeIdentity, true, tc.text)
		})
	}
}

func TestOpenRefusesATruncatedFile(t *testing.T) {
	f := twoAccounts(t)
	whole, err := os.ReadFile(f.Path)
	if err != nil {
		t.Fatal(err)
	}
	// The last byte is the line break, without which the file is still whole.
	for cut := 0; cut < len(whole)-1; cut += 97 {
		if err := os.WriteFile(f.Path, whole[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := identity.Open(f, nil)
		wantFault(t, err, diag.CodeIdentity, true, "truncated or damaged")
	}
}

func TestOpenNoticesAnEdit(t *testing.T) {
	f := twoAccounts(t)
	editFile(t, f.Path, func(file object) { a, _ := nth(file["identity"].(object), 0, 0); a["name"] = "lane" })
	_, err := identity.Open(f, []string{"ABC"})
	wantFault(t, err, diag.CodeIdentity, true, "was edited")
	if strings.Contains(diag.Hint(err), "remove the file") {
		t.Errorf("got hint %q with a store there, want no advice to remove the file", diag.Hint(err))
	}
}

func TestOpenReadsAFileThatWasOnlyIndented(t *testing.T) {
	f := twoAccounts(t)
	data, err := os.ReadFile(f.Path)
	if err != nil {
		t.Fatal(err)
	}
	var plain bytes.Buffer
	if err := json.Compact(&plain, data); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(f.Path, plain.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	open(t, f)
}

func TestOpenRefusesANewerFormat(t *testing.T) {
	f := twoAccounts(t)
	editFile(t, f.Path, func(file object) { file["format"] = 3 })
	_, err := identity.Open(f, nil)
	wantFault(t, err, diag.CodeIdentity, true, "a newer version wrote it")
}

func TestOpenRefusesAFileThatIsSomethingElse(t *testing.T) {
	f, _ := newFile(t)
	for text, want := range map[string]string{
		`{}`:                            "no known format number",
		`{"format": 1}`:                 "no identity in it",
		`{"format": 1, "identity": {}}`: "checksum",
		`[]`:                            "damaged",
	} {
		if err := os.WriteFile(f.Path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := identity.Open(f, nil)
		wantFault(t, err, diag.CodeIdentity, true, want)
	}
}

func TestOpenRefusesAFileThatOthersCanRead(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("skipping: no mode bits on Windows")
	}
	f := twoAccounts(t)
	for _, mode := range []os.FileMode{0o640, 0o604, 0o620} {
		if err := os.Chmod(f.Path, mode); err != nil {
			t.Fatal(err)
		}
		_, err := identity.Open(f, nil)
		wantFault(t, err, diag.CodeAccess, true, "mode 06")
		if want := "chmod 0600 " + f.Path; !strings.Contains(diag.Hint(err), want) {
			t.Errorf("got hint %q, want %q in it", diag.Hint(err), want)
		}
	}
	if err := os.Chmod(f.Path, 0o600); err != nil {
		t.Fatal(err)
	}
	open(t, f)
}

func TestTheSameIdentityIsTheSameFile(t *testing.T) {
	f := twoAccounts(t)
	before, err := os.ReadFile(f.Path)
	if err != nil {
		t.Fatal(err)
	}
	id := open(t, f)
	limited := account("line", "a", "b")
	limited.Limits.Streams = 3
	apply(t, id, limited)
	after, err := os.ReadFile(f.Path)
	if err != nil {
		t.Fatal(err)
	}
	old, now := bytes.Split(before, []byte("\n")), bytes.Split(after, []byte("\n"))
	if len(old) != len(now) {
		t.Fatalf("got %d lines, want %d", len(now), len(old))
	}
	var differ []string
	for i := range old {
		if !bytes.Equal(old[i], now[i]) {
			key, _, _ := strings.Cut(strings.TrimSpace(string(now[i])), ":")
			differ = append(differ, key)
		}
	}
	if got, want := strings.Join(differ, " "), `"sha256" "token"`; got != want {
		t.Errorf("got other lines %s, want %s: one account changed", got, want)
	}
}

func newSeed(create func() (nkeys.KeyPair, error)) string {
	kp, err := create()
	if err != nil {
		return err.Error()
	}
	seed, err := kp.Seed()
	if err != nil {
		return err.Error()
	}
	return string(seed)
}
