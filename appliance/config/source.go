// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

// delimiter joins paths inside koanf. Names of accounts, users, streams and
// consumers can't contain it.
const delimiter = "/"

// path is a place in the tree of keys, from the root.
type path []string

func (p path) with(step string) path { return append(p[:len(p):len(p)], step) }
func (p path) id() string            { return strings.Join(p, delimiter) }
func (p path) String() string        { return strings.Join(p, ".") }

// origins remembers where each value came from, and the text of the files.
type origins struct {
	at    map[string]diag.Pos // of the value that counts
	keyAt map[string]diag.Pos // of the key, where it stands first
	texts map[string][]byte
	files []string
	// refused are keys whose value does not fit: what counts in its place, such
	// as a default, is nobody's wish.
	refused map[string]bool
}

func newOrigins() *origins {
	return &origins{at: map[string]diag.Pos{}, keyAt: map[string]diag.Pos{}, texts: map[string][]byte{}, refused: map[string]bool{}}
}

// add takes over the positions of a source that is merged on top.
func (o *origins) add(s *source) {
	for id, pos := range s.at {
		if pos.Origin == "" {
			continue
		}
		// A variable replaces a list as a whole: the places of its old items
		// would be named for the new ones.
		maps.DeleteFunc(o.at, func(old string, _ diag.Pos) bool { return strings.HasPrefix(old, id+delimiter) })
	}
	maps.Copy(o.at, s.at)
	for id, pos := range s.keyAt {
		if _, ok := o.keyAt[id]; !ok {
			o.keyAt[id] = pos
		}
	}
}

// source is one configuration file: its values and their positions.
type source struct {
	values map[string]any
	at     map[string]diag.Pos
	keyAt  map[string]diag.Pos // of the key itself, for errors about the key
	keysAt map[string]diag.Pos // of a value that is a set of keys: at has its name
	place  place
}

// place turns a place in a YAML text (from 1, the column in characters) into a position.
type place func(line, col int) diag.Pos

func newSource(pl place) *source {
	return &source{values: map[string]any{}, at: map[string]diag.Pos{}, keyAt: map[string]diag.Pos{}, keysAt: map[string]diag.Pos{}, place: pl}
}

// parse reads YAML into values and positions, below the path base. It reports
// everything that YAML allows and a configuration file should not have. It
// returns nil when nothing could be read.
func parse(text []byte, pl place, base path, l *diag.List) *source {
	if p, bad := notText(text, pl); bad {
		*l = append(*l, p)
		return nil
	}
	s := newSource(pl)
	dec := yaml.NewDecoder(strings.NewReader(string(text)))
	var doc yaml.Node
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return s // an empty file sets nothing
	case err != nil:
		*l = append(*l, syntaxProblem(text, pl, err))
		return nil
	}
	var second yaml.Node
	if err := dec.Decode(&second); err == nil {
		s.add(l, &second, base, diag.CodeSyntax, "a second YAML document", "remove the line ---; parts of the configuration go into files of their own in the .d directory")
	} else if !errors.Is(err, io.EOF) {
		*l = append(*l, syntaxProblem(text, pl, err))
	}
	if len(doc.Content) == 0 || isNull(doc.Content[0]) {
		return s
	}
	root := doc.Content[0]
	if root.Kind != yaml.MappingNode {
		s.add(l, root, base, diag.CodeSyntax, "not a set of keys", "write keys, each with a colon after it; `holdfast init` writes an example")
		return nil
	}
	if root.Style&yaml.TaggedStyle != 0 {
		s.tagged(l, root, base)
	}
	s.values = s.object(root, base, l)
	return s
}

// tagged refuses a YAML tag: it would change what a value is, or say something
// that nobody reads.
func (s *source) tagged(l *diag.List, n *yaml.Node, p path) {
	s.add(l, n, p, diag.CodeSyntax, "tag "+n.Tag, "remove the tag; text that looks like something else goes in quotes")
}

func (s *source) pos(n *yaml.Node) diag.Pos { return s.place(n.Line, n.Column) }

func (s *source) add(l *diag.List, n *yaml.Node, p path, code diag.Code, what, fix string) {
	*l = append(*l, diag.Problem{Code: code, Pos: s.pos(n), Path: p.String(), What: what, Fix: fix})
}

// object converts a mapping. A key that can't be used is reported and left out.
func (s *source) object(n *yaml.Node, p path, l *diag.List) map[string]any {
	m := make(map[string]any, len(n.Content)/2)
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		if k.Kind != yaml.ScalarNode || k.Tag == "!!merge" {
			s.add(l, k, p, diag.CodeSyntax, "a key has to be plain text", "write the keys out; << and keys made of lists or maps are not supported")
			continue
		}
		at := p.with(k.Value)
		if k.Style&yaml.TaggedStyle != 0 {
			s.tagged(l, k, at)
			continue
		}
		if line, dup := seen[k.Value]; dup {
			s.add(l, k, at, diag.CodeDuplicate, fmt.Sprintf("key %q stands here a second time, first in line %d", k.Value, line), "keep one of the two")
			continue
		}
		name, content := s.pos(k), s.pos(v) // in this order: place only goes forward fast
		seen[k.Value] = name.Line
		s.keyAt[at.id()], s.at[at.id()] = name, content
		if v.Kind == yaml.MappingNode {
			s.at[at.id()] = name // it says more than the first key below it
			s.keysAt[at.id()] = content
		}
		if v, ok := s.value(v, at, l); ok {
			m[k.Value] = v
		}
	}
	return m
}

// value converts one node; false when it was reported and has to be left out.
// Null is kept as nil: what it means depends on the key.
func (s *source) value(n *yaml.Node, p path, l *diag.List) (any, bool) {
	if n.Style&yaml.TaggedStyle != 0 {
		s.tagged(l, n, p)
		return nil, false
	}
	switch n.Kind {
	case yaml.MappingNode:
		return s.object(n, p, l), true
	case yaml.SequenceNode:
		list, whole := make([]any, len(n.Content)), true
		for i, c := range n.Content {
			at := p.with(item(i))
			pos := s.pos(c)
			s.at[at.id()], s.keyAt[at.id()] = pos, pos
			v, ok := s.value(c, at, l)
			list[i], whole = v, whole && ok
		}
		return list, whole
	case yaml.AliasNode:
		// One file tells the truth: whoever reads a stream sees all of it there.
		s.add(l, n, p, diag.CodeSyntax, fmt.Sprintf("alias *%s", n.Value), "write the value out; anchors and aliases are not supported")
		return nil, false
	}
	return scalar(n), true
}

func scalar(n *yaml.Node) any {
	switch n.Tag {
	case "!!null":
		return nil
	case "!!int", "!!float", "!!bool":
		var v any
		if err := n.Decode(&v); err != nil {
			return n.Value
		}
		switch v := v.(type) {
		case int:
			return int64(v)
		case uint64: // above what an int64 holds
			return v
		default:
			return v
		}
	}
	return n.Value // times stay text too: they are parsed where a key wants one
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

var (
	yamlLine      = regexp.MustCompile(`line (\d+): `)
	fromParser    = regexp.MustCompile(`^did not find expected (node content|key|'-' indicator|',' or|<)`)
	unknownAnchor = regexp.MustCompile(`^unknown anchor '(.+)' referenced`)
)

// syntaxProblem turns an error of the YAML library, which has a line but no
// column, into a problem.
func syntaxProblem(text []byte, pl place, err error) diag.Problem {
	msg := strings.TrimPrefix(err.Error(), "yaml: ")
	no := 1
	if m := yamlLine.FindStringSubmatchIndex(msg); m != nil {
		no, _ = strconv.Atoi(msg[m[2]:m[3]])
		msg = msg[:m[0]] + msg[m[1]:]
	}
	lines := strings.Split(string(text), "\n")
	if fromParser.MatchString(msg) {
		no++ // the parser counts from 0, the scanner from 1
	}
	if m := unknownAnchor.FindStringSubmatch(msg); m != nil {
		no = max(slices.IndexFunc(lines, func(l string) bool { return strings.Contains(l, "*"+m[1]) }), 0) + 1
	}
	no = min(max(no, 1), len(lines))
	line := lines[no-1]
	pos := pl(no, len(line)-len(strings.TrimLeft(line, " \t"))+1)
	fix := "correct the YAML in this line or the one before: spaces for indentation, a space after each colon, quotes around text with : or *"
	if strings.HasPrefix(strings.TrimLeft(line, " "), "\t") {
		fix = "indent with spaces: YAML does not take tabs"
	}
	return diag.Problem{Code: diag.CodeSyntax, Pos: pos, What: "not valid YAML: " + msg, Fix: fix}
}
