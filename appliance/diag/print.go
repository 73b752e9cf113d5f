// SPDX-License-Identifier: Apache-2.0

package diag

import (
	"fmt"
	"io"
	"strconv"
)

// mostShown is how many problems Print writes out: who corrects a hundred checks again.
const mostShown = 100

// Source returns the text of a file that a problem points into, or nil.
type Source func(file string) []byte

// Print writes the problems in the list with their source lines, a caret under
// the column and the fix. Of a long list it counts what it leaves out.
func Print(w io.Writer, l List, src Source) {
	shown := mostUrgent(l)
	lines := excerpts{src: src, hidden: hiddenFrom(l), files: map[string][]string{}, ready: map[Pos][]rune{}}
	for i, p := range shown {
		if i > 0 {
			fmt.Fprintln(w)
		}
		lines.print(w, p)
	}
	if n := len(l) - len(shown); n > 0 {
		fmt.Fprintf(w, "\n… and %s more\n", thousands(n))
	}
}

// mostUrgent bounds the list and keeps its order: warnings give way to errors.
func mostUrgent(l List) List {
	if len(l) <= mostShown {
		return l
	}
	warnings := max(mostShown-l.Errors(), 0)
	shown := make(List, 0, mostShown)
	for _, p := range l {
		if len(shown) == mostShown {
			break
		}
		if p.Severity == Warning {
			if warnings == 0 {
				continue
			}
			warnings--
		}
		shown = append(shown, p)
	}
	return shown
}

func thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
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
