// SPDX-License-Identifier: Apache-2.0

package diag_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

func printed(l diag.List, text string) string {
	var out bytes.Buffer
	diag.Print(&out, l, func(string) []byte { return []byte(text) })
	return out.String()
}

func at(line, col int) diag.Problem {
	return diag.Problem{Code: diag.CodeValue, Pos: diag.Pos{File: "f.yaml", Line: line, Col: col}, Path: "a.b", What: "wrong", Fix: "do it"}
}

func TestPrintShowsTheLineAndACaretUnderTheColumn(t *testing.T) {
	warning := at(2, 2)
	warning.Severity = diag.Warning
	got := printed(diag.List{at(1, 4), warning}, "a: b\r\n\t\tc: d\n")
	want := "error: f.yaml:1:4: a.b: wrong [HF1006]\n" +
		"      1 | a: b\n" +
		"        |    ^\n" +
		"  fix: do it\n\n" +
		"warning: f.yaml:2:2: a.b: wrong [HF1006]\n" +
		"      2 | \t\tc: d\n" +
		"        | \t^\n" +
		"  fix: do it\n"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("got another text (-want +got):\n%s", diff)
	}
}

func TestPrintCountsColumnsInBytesAndPadsInCharacters(t *testing.T) {
	got := printed(diag.List{at(1, 8)}, "öä: 'x'")
	if want := "        |      ^\n"; !strings.Contains(got, want) {
		t.Errorf("got %q, want it to contain %q", got, want)
	}
}

func TestPrintLeavesTheSourceOutWhenThereIsNone(t *testing.T) {
	origin := diag.Problem{Code: diag.CodeEnvironment, Pos: diag.Pos{Origin: "$HOLDFAST_X__Y"}, What: "wrong", Fix: "do it"}
	for name, p := range map[string]diag.Problem{"variable": origin, "line beyond the end": at(9, 1), "blank line": at(2, 1), "no line": at(0, 0)} {
		if got := printed(diag.List{p}, "a: b\n   \n"); strings.Contains(got, "|") {
			t.Errorf("%s: got %q, want no source line", name, got)
		}
	}
	var out bytes.Buffer
	diag.Print(&out, diag.List{at(1, 1)}, nil)
	if strings.Contains(out.String(), "|") {
		t.Errorf("got %q, want no source line without a source", out.String())
	}
}

func TestPrintKeepsControlCharactersFromTheTerminal(t *testing.T) {
	if got := printed(diag.List{at(1, 1)}, "a: \x1b[31mred\x07\x7f"); strings.ContainsAny(got, "\x1b\x07\x7f") {
		t.Errorf("got %q, want no control characters", got)
	}
}

func TestPrintHidesSecretsInSourceLines(t *testing.T) {
	hidden := []string{
		`http_token: canary`, `http_token:   canary # canary`, `  "http_token": "canary"`, `listen: {http: x, http_token: canary, mqtt: y}`,
		`listen: {http_token: 'canary', secret: file:/x}`, `secret: fizz-canary`, `secret: file-canary`, `secret: "fcanary"`, `- token: canary`, `password = canary`,
		`passphrase: canary`, `db_pwd: canary`, `APIKEY: canary`, `api_key: canary`, `key: canary`, `private-key: canary`, `seeds: [canary]`,
		`bearer: canary`, `secret: file:/etc/x, token: canary`, `a: {secret: file:/etc/x, token: canary}`, `credentials: canary`, `HOLDFAST_TOKEN=canary`,
		`webhook: https://user:canary@host/x`, `x: SUACANARYAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA`, `x: eyJcanary.canary.canary`,
		`"my secret": "canary"`,
	}
	for _, line := range hidden {
		if got := printed(diag.List{at(1, 1)}, line); strings.Contains(strings.ToLower(got), "canary") || !strings.Contains(got, "[redacted]") {
			t.Errorf("%s: got %q, want the secret hidden", line, got)
		}
	}
}

func TestPrintShowsWhatIsNoSecret(t *testing.T) {
	for _, line := range []string{
		`max_bytes: 8GiB`, `http_token: file:/etc/holdfast/token`, `http_token: "file:/etc/holdfast/my token" # rotated`, `listen: {http_token: file:t, http: 127.0.0.1:8222}`,
		`TOKENS: {max_bytes: 1GiB}`, `tokens:`, `secret: # comes later`, `monkey: banana`, `keyboard: qwerty`, `subjects: ["orders.>"]`, `url: https://host/path`, `secret: |`,
	} {
		if got := printed(diag.List{at(1, 1)}, line); !strings.Contains(got, "| "+line+"\n") {
			t.Errorf("got %q, want the whole line %q", got, line)
		}
	}
}

func TestPrintHidesASensitiveLineForAllItsProblems(t *testing.T) {
	sensitive, other := at(1, 10), at(1, 30)
	sensitive.Sensitive = true
	got := printed(diag.List{sensitive, other}, "listen: {http_tokne: canary, tsl: x}")
	if strings.Contains(got, "canary") || strings.Count(got, "{http_tokne: [redacted]\n") != 2 {
		t.Errorf("got %q, want the value hidden twice", got)
	}
	next := at(2, 3)
	next.Sensitive = true
	if got := printed(diag.List{next}, "http_token:\n  canary\n"); strings.Contains(got, "canary") {
		t.Errorf("got %q, want the value hidden", got)
	}
}

func TestListSortsByPlaceAndSummarises(t *testing.T) {
	origin := diag.Problem{Pos: diag.Pos{Origin: "$X"}, What: "from a variable"}
	warning := at(1, 1)
	warning.Severity, warning.What = diag.Warning, "careful"
	l := diag.List{origin, at(3, 1), at(1, 9), warning}
	l.Sort()
	var got []string
	for _, p := range l {
		got = append(got, p.Pos.String())
	}
	if diff := cmp.Diff([]string{"f.yaml:1:1", "f.yaml:1:9", "f.yaml:3:1", "$X"}, got); diff != "" {
		t.Errorf("got another order (-want +got):\n%s", diff)
	}
	if got, want := l.Err().Error(), "f.yaml:1:9: a.b: wrong (and 2 more)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if l.Errors() != 3 || !diag.Permanent(l.Err()) {
		t.Errorf("got %d errors, permanent %t, want 3 and true", l.Errors(), diag.Permanent(l.Err()))
	}
	if err := (diag.List{warning}).Err(); err != nil {
		t.Errorf("got %v, want no error for a warning", err)
	}
}

func TestFaultsKeepCodeHintAndCauseThroughWrapping(t *testing.T) {
	cause := errors.New("cause")
	err := fmt.Errorf("open: %w", diag.FailPermanently(diag.CodeLocked, cause, "stop the other"))
	if diag.CodeOf(err) != diag.CodeLocked || diag.Hint(err) != "stop the other" || !diag.Permanent(err) || !errors.Is(err, cause) {
		t.Errorf("got %q %q %t %t, want code, hint, permanent and cause", diag.CodeOf(err), diag.Hint(err), diag.Permanent(err), errors.Is(err, cause))
	}
	if err := diag.Fail(diag.CodeLocked, cause, ""); diag.Permanent(err) {
		t.Errorf("got permanent, want a fault that may heal")
	}
	if diag.CodeOf(cause) != "" || diag.Hint(cause) != "" || diag.Permanent(cause) {
		t.Errorf("got a code, a hint or permanent, want none for a plain error")
	}
}
