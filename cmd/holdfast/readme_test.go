// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestReadmeExampleIsRight checks the first file that a newcomer copies.
func TestReadmeExampleIsRight(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindSubmatch(readme)
	if m == nil {
		t.Fatal("README.md has no YAML example")
	}
	if n := strings.Count(string(m[1]), "\n"); n > 12 {
		t.Errorf("got %d lines in the example, want at most 12: it has to fit the first screen", n)
	}
	file := filepath.Join(t.TempDir(), "holdfast.yaml")
	if err := os.WriteFile(file, m[1], 0o600); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	if code := run([]string{"check", file}, stdio{in: os.Stdin, out: &out, err: &errs}); code != exitOK || errs.Len() > 0 {
		t.Errorf("got exit code %d and %q, want the example to pass without a warning", code, errs.String())
	}
	const want = ": ok: accounts 1, users 0, streams 1, consumers 1\n"
	if !strings.HasSuffix(out.String(), want) || !strings.Contains(string(readme), strings.TrimSpace(want)) {
		t.Errorf("got %q, want what README.md shows (%q)", out.String(), want)
	}
}
