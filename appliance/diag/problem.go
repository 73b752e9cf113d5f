// SPDX-License-Identifier: Apache-2.0

package diag

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Severity says whether a problem stops the program.
type Severity int

const (
	// Error stops: the configuration is refused.
	Error Severity = iota
	// Warning is printed and logged; the program goes on.
	Warning
)

func (s Severity) String() string {
	if s == Warning {
		return "warning"
	}
	return "error"
}

// Pos is where a value came from: a place in a file, or the name of an
// environment variable or a flag. The zero Pos is unknown.
type Pos struct {
	File string `json:"file,omitempty"`   // path as the user gave it; empty when Origin says it all
	Line int    `json:"line,omitempty"`   // 1-based; 0 when unknown
	Col  int    `json:"column,omitempty"` // 1-based, in bytes
	// Origin names a source that is not a file: "$HOLDFAST_LISTEN__CLIENT",
	// "--data-dir", "default".
	Origin string `json:"origin,omitempty"`
}

// String prints file:line:col, or the origin.
func (p Pos) String() string {
	switch {
	case p.Origin != "":
		return p.Origin
	case p.File == "":
		return ""
	case p.Line == 0:
		return p.File
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Col)
}

// Problem is one thing that is wrong: what, where and how to fix it.
type Problem struct {
	Severity Severity
	Code     Code
	Pos      Pos
	Path     string // the key, dotted: accounts.shop.streams.ORDERS.max_bytes
	What     string // lower case, no full stop
	Fix      string // one sentence or a command
	// Sensitive is set when a secret may stand at Pos: the printer shows the
	// source line only up to there.
	Sensitive bool
}

// String prints the problem on one line, without its source.
func (p Problem) String() string {
	var parts []string
	if at := p.Pos.String(); at != "" {
		parts = append(parts, at)
	}
	if p.Path != "" {
		parts = append(parts, p.Path)
	}
	return strings.Join(append(parts, p.What), ": ")
}

// List is every problem found in one pass. It is an error when it holds at
// least one problem of severity Error; see Err.
type List []Problem

// Errors counts the problems that stop the program.
func (l List) Errors() int {
	n := 0
	for _, p := range l {
		if p.Severity == Error {
			n++
		}
	}
	return n
}

// Err returns the list as an error, or nil when it holds warnings only.
func (l List) Err() error {
	if l.Errors() == 0 {
		return nil
	}
	return l
}

// Error summarises the list: its first error and how many follow.
func (l List) Error() string {
	i := slices.IndexFunc(l, func(p Problem) bool { return p.Severity == Error })
	if i < 0 {
		return "no error"
	}
	s := l[i].String()
	if n := l.Errors(); n > 1 {
		s += fmt.Sprintf(" (and %d more)", n-1)
	}
	return s
}

// Permanent reports that a wrong configuration does not heal by itself.
func (l List) Permanent() bool { return true }

// Sort orders by file, line and column; equal places keep their order.
// Problems without a line come first within their source.
func (l List) Sort() {
	slices.SortStableFunc(l, func(a, b Problem) int {
		return cmp.Or(
			cmp.Compare(a.Pos.Origin, b.Pos.Origin),
			cmp.Compare(a.Pos.File, b.Pos.File),
			cmp.Compare(a.Pos.Line, b.Pos.Line),
			cmp.Compare(a.Pos.Col, b.Pos.Col),
		)
	})
}
