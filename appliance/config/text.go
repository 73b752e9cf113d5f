// SPDX-License-Identifier: Apache-2.0

package config

import (
	"bytes"
	"fmt"
	"unicode/utf8"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

// notText finds the first byte that YAML can't take. The YAML library refuses it
// too, but does not say where.
func notText(text []byte, pl place) (diag.Problem, bool) {
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRune(text[i:])
		what, fix := "", ""
		switch {
		case r == utf8.RuneError && size == 1:
			what, fix = fmt.Sprintf("byte 0x%02x is not UTF-8", text[i]), "save the file as UTF-8"
		case refusedByYAML(r):
			what, fix = fmt.Sprintf("control character U+%04X", r), "remove the character"
		}
		if what != "" {
			start := bytes.LastIndexByte(text[:i], '\n') + 1
			pos := pl(bytes.Count(text[:i], []byte("\n"))+1, utf8.RuneCount(text[start:i])+1)
			return diag.Problem{Code: diag.CodeSyntax, Pos: pos, What: what, Fix: fix}, true
		}
		i += size
	}
	return diag.Problem{}, false
}

// refusedByYAML is the complement of what the library's reader takes.
func refusedByYAML(r rune) bool {
	switch {
	case r == '\t', r == '\n', r == '\r', r == 0x85:
		return false
	case r < ' ', r >= 0x7f && r < 0xa0:
		return true
	}
	return r == 0xfffe || r == 0xffff
}

// inFile is the place in a file: positions count bytes, YAML counts characters.
func inFile(file string, text []byte) place {
	lines := bytes.Split(text, []byte("\n"))
	var last struct{ line, chars, bytes int } // where the last place was: a line may be long and hold many
	return func(line, col int) diag.Pos {
		line = min(max(line, 1), len(lines))
		here := lines[line-1]
		if line != last.line || col <= last.chars {
			last.line, last.chars, last.bytes = line, 0, 0
		}
		for last.chars < col-1 && last.bytes < len(here) {
			_, size := utf8.DecodeRune(here[last.bytes:])
			last.chars, last.bytes = last.chars+1, last.bytes+size
		}
		return diag.Pos{File: file, Line: line, Col: last.bytes + 1}
	}
}
