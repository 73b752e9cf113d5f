// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"regexp"
	"strings"
)

// roff is a manual page in the making. It takes text, and the part of Markdown
// that the documentation is written in: paragraphs, lists, tables, blocks of
// four spaces, `code`, **bold** and [links](…).
type roff struct{ strings.Builder }

func newRoff(name, section string) *roff {
	r := &roff{}
	// No date and no version: a page changes when what it says does. Names that
	// are broken at the end of a line can't be pasted, hence .nh.
	r.WriteString(".\\\" Made of the commands, the key table and cmd/holdfast/testdata/docs: make golden\n")
	fmt.Fprintf(r, ".TH %s %s \"\" Holdfast \"Holdfast manual\"\n.nh\n.ad l\n", roffText(strings.ToUpper(name)), section)
	return r
}

func (r *roff) section(title string) { fmt.Fprintf(r, ".SH %s\n", roffText(strings.ToUpper(title))) }

func (r *roff) subsection(title string) { fmt.Fprintf(r, ".SS %s\n", roffText(title)) }

// term writes what is explained, in roff, and its explanation, in lines of text.
func (r *roff) term(term string, lines ...string) {
	fmt.Fprintf(r, ".TP\n%s\n", term)
	for _, l := range lines {
		r.text(l)
	}
}

// text writes one line of Markdown; what looks like a request is none.
func (r *roff) text(line string) {
	line = roffInline(line)
	if strings.HasPrefix(line, ".") {
		line = `\&` + line
	}
	r.WriteString(line + "\n")
}

var (
	listItem  = regexp.MustCompile(`^(-|\d+\.) +`)
	mdComment = regexp.MustCompile(`(?s)<!--.*?-->\n`)
)

// markdown writes blocks of Markdown. A heading starts a section.
func (r *roff) markdown(text string) {
	text = mdComment.ReplaceAllString(text, "")
	first := true
	for block := range strings.SplitSeq(strings.Trim(text, "\n"), "\n\n") {
		block = strings.Trim(block, "\n")
		if block == "" {
			continue
		}
		if title, ok := strings.CutPrefix(block, "## "); ok {
			r.section(title)
			first = true
			continue
		}
		r.block(block, first)
		first = false
	}
}

func (r *roff) block(block string, first bool) {
	switch {
	case strings.HasPrefix(block, "    "):
		r.example(block, first)
	case strings.HasPrefix(block, "|"):
		r.table(block)
	case listItem.MatchString(block):
		r.list(block)
	default:
		if !first {
			r.WriteString(".PP\n")
		}
		r.text(strings.Join(strings.Fields(block), " "))
	}
}

func (r *roff) example(block string, first bool) {
	if !first {
		r.WriteString(".PP\n")
	}
	r.WriteString(".RS 4\n.nf\n")
	for line := range strings.SplitSeq(block, "\n") {
		fmt.Fprintf(r, "\\&%s\n", roffText(strings.TrimPrefix(line, "    ")))
	}
	r.WriteString(".fi\n.RE\n")
}

// table writes each row as a term and what the other columns say of it; from
// the third one on that needs the column's head.
func (r *roff) table(block string) {
	rows := strings.Split(block, "\n")
	head := tableCells(rows[0])
	for _, row := range rows[2:] { // below the head there is a line of dashes
		cells := tableCells(row)
		lines := []string{sentence(cells[1])}
		for i := 2; i < len(cells); i++ {
			if cells[i] != "" {
				lines = append(lines, upperFirst(head[i])+": "+sentence(cells[i]))
			}
		}
		term := roffInline(cells[0])
		if !strings.Contains(term, `\fB`) {
			term = bold(cells[0])
		}
		r.term(term, lines...)
	}
}

func (r *roff) list(block string) {
	var items []string
	for line := range strings.SplitSeq(block, "\n") {
		if mark := listItem.FindString(line); mark != "" {
			items = append(items, line)
		} else {
			items[len(items)-1] += " " + strings.TrimSpace(line)
		}
	}
	for _, item := range items {
		mark := listItem.FindString(item)
		sign := strings.TrimSpace(mark)
		if sign == "-" {
			sign = `\(bu`
		}
		fmt.Fprintf(r, ".IP %s 4\n", sign)
		r.text(strings.TrimPrefix(item, mark))
	}
}

// tableCells splits a row of a Markdown table.
func tableCells(row string) []string {
	const bar = "\x00"
	row = strings.ReplaceAll(strings.TrimSpace(row), `\|`, bar)
	cells := strings.Split(strings.TrimSuffix(strings.TrimPrefix(row, "|"), "|"), "|")
	for i, c := range cells {
		cells[i] = strings.ReplaceAll(strings.TrimSpace(c), bar, `|`)
	}
	return cells
}

func upperFirst(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

func sentence(s string) string {
	if strings.HasSuffix(s, ".") {
		return s
	}
	return s + "."
}

var mdInline = regexp.MustCompile("`[^`]+`|\\*\\*[^*]+\\*\\*|\\[[^]`]+\\]\\([^)]+\\)|\\\\[<|*_]")

// roffInline turns what stands within a line of Markdown into roff.
func roffInline(s string) string {
	var b strings.Builder
	at := 0
	for _, m := range mdInline.FindAllStringIndex(s, -1) {
		b.WriteString(roffText(s[at:m[0]]))
		switch found := s[m[0]:m[1]]; found[0] {
		case '`':
			b.WriteString(bold(strings.Trim(found, "`")))
		case '*':
			b.WriteString(bold(strings.Trim(found, "*")))
		case '[':
			name, _, _ := strings.Cut(found[1:], "](")
			b.WriteString(roffText(name))
		default:
			b.WriteString(roffText(found[1:]))
		}
		at = m[1]
	}
	b.WriteString(roffText(s[at:]))
	return b.String()
}

func bold(s string) string { return `\fB` + roffText(s) + `\fR` }

func italic(s string) string { return `\fI` + roffText(s) + `\fR` }

// roffText is text as it is: what roff would take for markup, or replace by a
// typographic sign that nobody can paste, is escaped.
func roffText(s string) string {
	var b strings.Builder
	for _, c := range s {
		switch {
		case c == '\\':
			b.WriteString(`\e`)
		case c == '-':
			b.WriteString(`\-`)
		case c == '\'':
			b.WriteString(`\(aq`)
		case c == '`':
			b.WriteString(`\(ga`)
		case c == '^':
			b.WriteString(`\(ha`)
		case c == '~':
			b.WriteString(`\(ti`)
		case c == '"':
			b.WriteString(`\(dq`)
		case c > 0x7e:
			fmt.Fprintf(&b, `\[u%04X]`, c)
		default:
			b.WriteRune(c)
		}
	}
	return b.String()
}
