// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"strings"
	"testing"
)

// TestATokenAmongTheArgumentsIsNotRepeated gives it where it must not be.
func TestATokenAmongTheArgumentsIsNotRepeated(t *testing.T) {
	const token = "hfjoin1-AAAAAGkr7sECAwQFBgcICQoLDA0ODw"
	for _, args := range [][]string{
		{"cluster", "join", token}, {"cluster", "join", "--yes", "--config", "absent.yaml", token + ","}, {"cluster", "join", token[8:]},
		{"cluster", token}, {token}, {"cluster", "invite", token}, {"cluster", "join", "--token-file", token, "--config", "absent.yaml"},
		{"cluster", "join", "--yes=" + token}, {"cluster", "join", "--" + token}, {"status", "-o", token},
	} {
		var out, errs strings.Builder
		code := run(args, stdio{in: os.Stdin, out: &out, err: &errs})
		text := out.String() + errs.String()
		if code != exitUsage || strings.Contains(text, token[8:]) {
			t.Errorf("%q: got exit code %d and %q, want 2 and nothing of the token", args, code, text)
		}
		for _, want := range []string{"not given as an argument", "history", "hint: ", "make a new one", "--token-file"} {
			if !strings.Contains(text, want) {
				t.Errorf("%q: got %q, want %q in it", args, text, want)
			}
		}
	}
}
