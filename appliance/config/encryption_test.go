// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

// What the nodes of a cluster keep of each other has keys, too.
func TestNodesOfAClusterAreNotEncrypted(t *testing.T) {
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte("nUh6mD8ZkqYQ1mW0mZ0pGx3l0b6m1S8k6fX2tq9vJrA="), 0o600); err != nil {
		t.Fatal(err)
	}
	_, l := load(t, "storage: {encryption: {key: file:"+key+"}}\ncluster: {name: c, listen: 0.0.0.0:6222, peers: [n1:6222, n2:6222, n3:6222], secret: file:"+key+"}\n")
	for _, p := range l {
		if p.Code == diag.CodeConflict && strings.Contains(p.What, "a node of a cluster") {
			return
		}
	}
	t.Errorf("got %v, want encryption refused", l)
}

func TestKeysForStoredMessages(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return "file:" + path
	}
	good, other := file("good", "nUh6mD8ZkqYQ1mW0mZ0pGx3l0b6m1S8k6fX2tq9vJrA=\n"), file("other", strings.Repeat("0123456789abcdef", 4))
	short, same := file("short", "nUh6mD8ZkqYQ1mW0mZ0pGx3l0b6m1S8"), file("same", strings.Repeat("abab", 20))
	for name, c := range map[string]struct {
		enc  string
		code diag.Code // "": nothing to say
		what string
	}{
		"a key":                    {"key: " + good, "", ""},
		"a key in hex":             {"key: " + other + ", cipher: chacha", "", ""},
		"a change of keys":         {"key: " + good + ", previous_key: " + other, "", ""},
		"a weak key before":        {"key: " + good + ", previous_key: " + short, "", ""},
		"a short key":              {"key: " + short, diag.CodeSecretFile, "is shorter than 32 characters"},
		"a key that repeats":       {"key: " + same, diag.CodeSecretFile, "has only 2 different characters"},
		"no such file":             {"key: file:" + dir + "/none", diag.CodeSecretFile, "no such file"},
		"one file for both":        {"key: " + good + ", previous_key: " + good, diag.CodeConflict, "the same file"},
		"decryption":               {"previous_key: " + good, diag.CodeDecrypts, "decrypted at the next start"},
		"a cipher and nothing":     {"cipher: aes", diag.CodeRequired, "without a key"},
		"a cipher nobody knows":    {"cipher: rot13, key: " + good, diag.CodeValue, "rot13"},
		"the key itself, not file": {"key: " + strings.Repeat("secret", 8), diag.CodeValue, "can't stand in the configuration"},
	} {
		t.Run(name, func(t *testing.T) {
			_, l := load(t, "storage: {encryption: {"+c.enc+"}}\n")
			if c.code == "" {
				if len(l) > 0 {
					t.Errorf("got %v, want nothing", l)
				}
				return
			}
			if len(l) != 1 || l[0].Code != c.code || !strings.Contains(l[0].What, c.what) || l[0].Fix == "" {
				t.Errorf("got %v, want one problem with %s and %q", l, c.code, c.what)
			}
			for _, p := range l {
				if strings.Contains(p.What+p.Fix, "nUh6mD8Z") || strings.Contains(p.What+p.Fix, "abab") {
					t.Errorf("got %v, with the key in it", p)
				}
			}
		})
	}
}
