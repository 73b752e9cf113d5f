// SPDX-License-Identifier: Apache-2.0

package diag

import (
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Source returns the text of a file that a problem points into, or nil.
type Source func(file string) []byte

// Print writes every problem in the list with its source line, a caret under
// the column and the fix.
func Print(w io.Writer, l List, src Source) {
	hidden := hiddenFrom(l)
	for i, p := range l {
		if i > 0 {
			fmt.Fprintln(w)
		}
		printOne(w, p, src, hidden[lineOf(p)])
	}
}

// hiddenFrom is the column from which each line is hidden: another problem in
// the same line must not show the secret either.
func hiddenFrom(l List) map[Pos]int {
	cols := map[Pos]int{}
	for _, p := range l {
		if at := lineOf(p); p.Sensitive && (cols[at] == 0 || p.Pos.Col < cols[at]) {
			cols[at] = p.Pos.Col
		}
	}
	return cols
}

func lineOf(p Problem) Pos { return Pos{File: p.Pos.File, Line: p.Pos.Line} }

func printOne(w io.Writer, p Problem, src Source, hiddenFrom int) {
	fmt.Fprintf(w, "%s: %s [%s]\n", p.Severity, p, p.Code)
	if line, ok := sourceLine(p.Pos, src, hiddenFrom); ok {
		no := strconv.Itoa(p.Pos.Line)
		fmt.Fprintf(w, "  %5s | %s\n", no, line)
		if caret, ok := caretUnder(line, p.Pos.Col); ok {
			fmt.Fprintf(w, "  %5s | %s\n", "", caret)
		}
	}
	if p.Fix != "" {
		fmt.Fprintf(w, "  fix: %s\n", p.Fix)
	}
}

func sourceLine(at Pos, src Source, hiddenFrom int) (string, bool) {
	if src == nil || at.File == "" || at.Line < 1 {
		return "", false
	}
	lines := strings.Split(string(src(at.File)), "\n")
	if at.Line > len(lines) {
		return "", false
	}
	line := strings.TrimRight(lines[at.Line-1], "\r")
	if strings.TrimSpace(line) == "" {
		return "", false
	}
	if hiddenFrom > 0 {
		line = hideFrom(line, hiddenFrom)
	}
	return redact(printable(line)), true
}

// printable keeps a configuration file from talking to the terminal: control
// characters other than tab are shown as '?'.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r != '\t' && (r < ' ' || r == 0x7f) {
			return '?'
		}
		return r
	}, s)
}

// caretUnder keeps tabs, so that the caret lines up whatever the tab width is.
func caretUnder(line string, col int) (string, bool) {
	if col < 1 || col > len(line)+1 {
		return "", false
	}
	pad := strings.Map(func(r rune) rune {
		if r == '\t' {
			return '\t'
		}
		return ' '
	}, line[:col-1])
	return pad + "^", true
}
