// SPDX-License-Identifier: Apache-2.0

package diag_test

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

func TestPrintStopsAfterAHundredProblems(t *testing.T) {
	var l diag.List
	for i := range 60000 {
		l = append(l, at(i+1, 1))
	}
	got := printed(l, strings.Repeat("a: b\n", 60000))
	if n := strings.Count(got, "error: "); n != 100 {
		t.Errorf("got %d problems, want 100", n)
	}
	if want := "\n… and 59,900 more\n"; !strings.HasSuffix(got, want) {
		t.Errorf("got %q at the end, want %q", got[max(0, len(got)-60):], want)
	}
	if got := printed(l[:100], "a: b\n"); strings.Contains(got, "more") {
		t.Errorf("got %q at the end, want nothing left out of 100", got[len(got)-60:])
	}
}

func TestPrintLeavesWarningsOutBeforeErrors(t *testing.T) {
	var l diag.List
	for i := range 300 {
		w := at(i+1, 1)
		w.Severity = diag.Warning
		l = append(l, w)
	}
	l = append(l, at(301, 1))
	got := printed(l, "")
	if strings.Count(got, "warning: ") != 99 || !strings.Contains(got, "error: f.yaml:301:1") || !strings.HasSuffix(got, "… and 201 more\n") {
		t.Errorf("got %d warnings and %q at the end, want 99, the error and the rest counted", strings.Count(got, "warning: "), got[max(0, len(got)-200):])
	}
}

func TestPrintReadsAFileOnce(t *testing.T) {
	reads := 0
	var out bytes.Buffer
	diag.Print(&out, diag.List{at(1, 1), at(2, 1), at(2, 3)}, func(string) []byte {
		reads++
		return []byte("a: b\nc: d\n")
	})
	if reads != 1 {
		t.Errorf("got %d reads, want 1", reads)
	}
}

// excerpt is the source line and the caret's line of a printed problem.
func excerpt(t *testing.T, printed string) (line, caret string) {
	t.Helper()
	lines := strings.Split(printed, "\n")
	if len(lines) < 3 {
		t.Fatalf("got %q, want a source line and a caret", printed)
	}
	_, line, _ = strings.Cut(lines[1], " | ")
	_, caret, _ = strings.Cut(lines[2], " | ")
	return line, caret
}

func TestPrintCutsLongLinesAroundTheCaret(t *testing.T) {
	for name, c := range map[string]struct {
		before, after string
		cutStart      bool
		cutEnd        bool
	}{
		"middle":            {strings.Repeat("x", 1<<20), strings.Repeat("y", 1<<20), true, true},
		"start":             {"", strings.Repeat("y", 400), false, true},
		"near the start":    {strings.Repeat("x", 70), strings.Repeat("y", 400), false, true},
		"end":               {strings.Repeat("x", 400), "", true, false},
		"letters of 2 byte": {strings.Repeat("ö", 300), strings.Repeat("ä", 300), true, true},
		"short":             {strings.Repeat("x", 100), strings.Repeat("y", 59), false, false},
	} {
		line, caret := excerpt(t, printed(diag.List{at(1, len(c.before)+1)}, c.before+"^"+c.after))
		if n := utf8.RuneCountInString(line); n > 162 {
			t.Errorf("%s: got %d columns, want about 160", name, n)
		}
		if strings.HasPrefix(line, "…") != c.cutStart || strings.HasSuffix(line, "…") != c.cutEnd {
			t.Errorf("%s: got %q, want cut at the start %t, at the end %t", name, line, c.cutStart, c.cutEnd)
		}
		if got, want := utf8.RuneCountInString(caret), utf8.RuneCountInString(line[:strings.Index(line, "^")])+1; got != want {
			t.Errorf("%s: got the caret in column %d of\n%s\n%s\nwant %d", name, got, line, caret, want)
		}
	}
}

func TestPrintCutsALineOnlyAfterHidingItsSecrets(t *testing.T) {
	text := "http_token: " + strings.Repeat("canary ", 100) + "x"
	if got := printed(diag.List{at(1, 400)}, text); strings.Contains(got, "canary") {
		t.Errorf("got %q, want the secret hidden though its key is cut off", got)
	}
}

func TestPrintKeepsControlCharactersOfTwoBytesFromTheTerminal(t *testing.T) {
	line, caret := excerpt(t, printed(diag.List{at(1, 8)}, "a: \u009b\u009bx"))
	if strings.Contains(line, "\u009b") || caret != "     ^" {
		t.Errorf("got %q and %q, want no control characters and the caret under x", line, caret)
	}
}

func BenchmarkPrintOneLongLine(b *testing.B) {
	text := []byte(strings.Repeat("key: {a: b}, ", 160000))
	var l diag.List
	for i := range 20000 {
		l = append(l, at(1, i*13+1))
	}
	for b.Loop() {
		var out bytes.Buffer
		diag.Print(&out, l, func(string) []byte { return text })
		if out.Len() > 64<<10 {
			b.Fatalf("got %d bytes, want less", out.Len())
		}
	}
}
