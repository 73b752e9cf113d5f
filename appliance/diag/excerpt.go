// SPDX-License-Identifier: Apache-2.0

package diag

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// widest is how many characters of a source line are shown, the caret among them.
const widest = 160

// excerpts prints problems with their source lines. It keeps what it has split
// and hidden: many problems may stand in one file, and in one long line.
type excerpts struct {
	src    Source
	hidden map[Pos]int
	files  map[string][]string
	ready  map[Pos][]rune // lines as they may be shown
}

func (e excerpts) print(w io.Writer, p Problem) {
	fmt.Fprintf(w, "%s: %s [%s]\n", p.Severity, p, p.Code)
	if raw, ok := e.raw(p.Pos); ok {
		line, caret := window(e.shown(p, raw), caretAt(raw, p.Pos.Col))
		fmt.Fprintf(w, "  %5d | %s\n", p.Pos.Line, string(line))
		if caret >= 0 {
			fmt.Fprintf(w, "  %5s | %s\n", "", pad(line[:caret])+"^")
		}
	}
	if p.Fix != "" {
		fmt.Fprintf(w, "  fix: %s\n", p.Fix)
	}
}

// raw is the line as it stands in the file, and false when there is nothing to see.
func (e excerpts) raw(at Pos) (string, bool) {
	if e.src == nil || at.File == "" || at.Line < 1 {
		return "", false
	}
	lines, ok := e.files[at.File]
	if !ok {
		lines = strings.Split(string(e.src(at.File)), "\n")
		e.files[at.File] = lines
	}
	if at.Line > len(lines) {
		return "", false
	}
	line := strings.TrimRight(lines[at.Line-1], "\r")
	return line, strings.TrimSpace(line) != ""
}

// shown is the whole line without its secrets: it is cut only afterwards, for a
// part of it does not tell that a secret stands there.
func (e excerpts) shown(p Problem, line string) []rune {
	at := lineOf(p)
	if ready, ok := e.ready[at]; ok {
		return ready
	}
	if col := e.hidden[at]; col > 0 {
		line = hideFrom(line, col)
	}
	e.ready[at] = []rune(redact(printable(line)))
	return e.ready[at]
}

// printable keeps a configuration file from talking to the terminal: control
// characters other than tab are shown as '?', one for one.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r != '\t' && unicode.IsControl(r) {
			return '?'
		}
		return r
	}, s)
}

// caretAt turns a column in bytes into one in characters, from 0; -1 is none.
func caretAt(line string, col int) int {
	if col < 1 || col > len(line)+1 {
		return -1
	}
	return utf8.RuneCountInString(line[:col-1])
}

// window cuts a long line around the caret, and moves the caret with it.
func window(line []rune, caret int) ([]rune, int) {
	if caret > len(line) {
		caret = -1 // in what was hidden
	}
	if len(line) <= widest {
		return line, caret
	}
	from := min(max(caret-widest/2, 0), len(line)-widest)
	to := from + widest
	cut := make([]rune, 0, widest+2)
	if from > 0 { // so there is a caret, in the middle or right of it
		cut = append(cut, '…')
		caret -= from - 1
	}
	cut = append(cut, line[from:to]...)
	if to < len(line) {
		cut = append(cut, '…')
	}
	return cut, caret
}

// pad keeps tabs, so that the caret lines up whatever the tab width is.
func pad(before []rune) string {
	return strings.Map(func(r rune) rune {
		if r == '\t' {
			return '\t'
		}
		return ' '
	}, string(before))
}
