// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"go/format"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-mq/holdfast/appliance/admin"
	"github.com/holdfast-mq/holdfast/appliance/diag"
)

// logins are what a node answers for a user of each role, and what the snippet
// has to do with it.
var logins = map[string]admin.Login{
	"orders.example.new": {User: "checkout", Role: "producer", Subjects: []string{"orders.*.new", "returns.>"}},
	"packing":            {User: "packer", Role: "worker", Consumers: []string{"ORDERS/packing", "ORDERS/audit"}},
	"stream":             {User: "auditor", Role: "observer"},
	"orders.a":           {User: "boss", Role: "admin", Subjects: []string{"orders.a"}},
	"returns.example":    {User: "legacy", Role: "custom", Subjects: []string{"returns.>"}},
	"-":                  {User: "mute", Role: "custom"},
}

func rendered(t *testing.T, language string, l admin.Login, ca string) string {
	t.Helper()
	l.Account, l.URL, l.LocalURL, l.InboxPrefix = "shop", "nats://queue.example:4222", "nats://127.0.0.1:4222", "_inbox."+l.User
	l.Creds, l.CA = "the secret of "+l.User, ca
	var out bytes.Buffer
	if err := writeSnippet(&out, language, l); err != nil {
		t.Fatalf("%s, %s: %v", language, l.Role, err)
	}
	return out.String()
}

func TestEverySnippetDoesWhatTheRoleIsForAndShowsRefusals(t *testing.T) {
	handler := map[string]string{
		"go": "nats.ErrorHandler", "node": "nc.status()", "python": "error_cb=", "java": "errorOccurred", "dotnet": "LoggerFactory",
		"c": "natsOptions_SetErrorHandler", "cli": "nats ", // the tool prints them by itself
	}
	for _, language := range snippetLanguages() {
		for does, l := range logins {
			for _, ca := range []string{"", "-----BEGIN CERTIFICATE-----"} {
				text := rendered(t, language, l, ca)
				want := []string{"shop/" + l.User, l.User + ".creds", "nats://queue.example:4222", "_inbox." + l.User, handler[language]}
				if does != "-" {
					want = append(want, does)
				}
				for _, w := range want {
					if !strings.Contains(text, w) {
						t.Errorf("%s, %s: got no %q in the snippet, want it\n%s", language, l.Role, w, text)
					}
				}
				if got := strings.Contains(text, "ca.crt"); got != (ca != "") {
					t.Errorf("%s, %s: got a CA file %t, want %t", language, l.Role, got, ca != "")
				}
				for _, bad := range []string{"the secret", "BEGIN CERT", "<no value>", "{{", "127.0.0.1", "*", ">."} {
					if bad == "*" && language != "cli" { // pointers and comments
						continue
					}
					if strings.Contains(text, bad) {
						t.Errorf("%s, %s: got %q in the snippet, want none\n%s", language, l.Role, bad, text)
					}
				}
			}
		}
	}
	err := writeSnippet(&bytes.Buffer{}, "cobol", admin.Login{})
	if diag.CodeOf(err) != diag.CodeUsage || !strings.Contains(diag.Hint(err), "go, node, python, java, dotnet, c, cli") {
		t.Errorf("got %v, hint %q, want the languages", err, diag.Hint(err))
	}
}

func TestGoSnippetIsFormatted(t *testing.T) {
	for _, l := range logins {
		for _, ca := range []string{"", "x"} {
			text := rendered(t, "go", l, ca)
			if got, err := format.Source([]byte(text)); err != nil || string(got) != text {
				t.Errorf("%s: got %v or other text from gofmt, want the same\n%s", l.Role, err, text)
			}
		}
	}
}

// TestScriptSnippetsParse has each language's own parser read the snippets, as
// far as it is installed.
func TestScriptSnippetsParse(t *testing.T) {
	for language, check := range map[string][]string{
		"python": {"python3", "-m", "py_compile"},
		"node":   {"node", "--check"},
		"cli":    {"sh", "-n"},
	} {
		t.Run(language, func(t *testing.T) {
			if _, err := exec.LookPath(check[0]); err != nil {
				t.Skipf("skipping: needs %s", check[0])
			}
			file := filepath.Join(t.TempDir(), "example.mjs")
			for _, l := range logins {
				if err := os.WriteFile(file, []byte(rendered(t, language, l, "x")), 0o600); err != nil {
					t.Fatal(err)
				}
				if out, err := exec.Command(check[0], append(check[1:], file)...).CombinedOutput(); err != nil {
					t.Errorf("%s: got %v, want no complaint\n%s", l.Role, err, out)
				}
			}
		})
	}
}

func TestUserIsAnAccountAndAName(t *testing.T) {
	account, user, err := splitUser("shop/packer")
	if account != "shop" || user != "packer" || err != nil {
		t.Errorf("got %q, %q, %v, want shop and packer", account, user, err)
	}
	for _, arg := range []string{"", "/", "shop", "shop/", "/packer", "a/b/c"} {
		if _, _, err := splitUser(arg); diag.CodeOf(err) != diag.CodeUsage || !strings.Contains(fmt.Sprint(err), fmt.Sprintf("%q", arg)) {
			t.Errorf("%q: got %v, want it refused by name", arg, err)
		}
	}
}
