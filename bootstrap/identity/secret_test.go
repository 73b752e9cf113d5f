// SPDX-License-Identifier: Apache-2.0

package identity_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/holdfast-mq/holdfast/bootstrap/identity"
)

var seed = regexp.MustCompile(`"S[OAU][A-Z2-7]{56}"`)

// seedsIn returns every seed in an identity file.
func seedsIn(t *testing.T, path string) []string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var seeds []string
	for _, s := range seed.FindAllString(string(data), -1) {
		seeds = append(seeds, strings.Trim(s, `"`))
	}
	if len(seeds) < 3 {
		t.Fatalf("got %d seeds in %s, want at least 3", len(seeds), path)
	}
	return seeds
}

func wantNone(t *testing.T, text string, secrets []string) {
	t.Helper()
	for i, s := range secrets {
		for _, form := range []string{s, fmt.Sprintf("%x", s), fmt.Sprintf("%v", []byte(s))} {
			if strings.Contains(text, form) {
				t.Errorf("got secret %d in a text of %d bytes, want none", i, len(text))
			}
		}
	}
}

func TestNothingPrintsASecret(t *testing.T) {
	f := twoAccounts(t)
	id := open(t, f)
	login, err := id.InternalLogin("shop")
	if err != nil {
		t.Fatal(err)
	}
	secrets := append(seedsIn(t, f.Path), login.Seed.Reveal())

	// Copied out of the identity, as a mistake would: the inner types have to
	// keep the secret by themselves.
	hidden := struct{ login identity.Login }{login}
	changes := apply(t, id, account("new", "u"))
	secrets = append(secrets, seedsIn(t, f.Path)...)

	var out bytes.Buffer
	for _, v := range []any{id, id.Trust(), login, &login, login.Seed, &login.Seed, hidden, changes, f} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			fmt.Fprintf(&out, verb+"\n", v)
		}
		slog.New(slog.NewTextHandler(&out, nil)).Info("printed", "value", v)
		slog.New(slog.NewJSONHandler(&out, nil)).Info("printed", "value", v)
		// A File has functions in it and does not marshal at all.
		if data, err := json.Marshal(v); err == nil {
			out.Write(data)
		}
	}
	wantNone(t, out.String(), secrets)
	if !strings.Contains(out.String(), "[redacted]") {
		t.Error("got no [redacted], want it in place of secrets")
	}
	if got := (identity.Secret{}).Reveal(); got != "" {
		t.Errorf("got %q of no secret, want nothing", got)
	}
}
