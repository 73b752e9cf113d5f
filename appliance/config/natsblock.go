// SPDX-License-Identifier: Apache-2.0

package config

import (
	"slices"
	"strings"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

// natsKey is the key of the block.
const natsKey = "nats"

// NATSKey is one nats-server setting of the nats block. Value is what YAML
// holds: string, int64, float64, bool, or a map or list of these; sizes such as
// 8MB stay text.
type NATSKey struct {
	Name  string
	Value any
	Pos   diag.Pos
}

// NATSKeys returns the settings of the nats block that may be set, by name.
func (c *Config) NATSKeys() []NATSKey { return slices.Clone(c.natsKeys) }

// natsBlock reads the nats key: YAML inside YAML, with positions of its own.
func (c *checker) natsBlock(allow func(string) (string, bool)) {
	p := path{natsKey}
	if c.cfg.NATS == "" {
		return
	}
	s := parse([]byte(c.cfg.NATS), c.insideBlock(p), p, c.list)
	if s == nil {
		return
	}
	for _, name := range keysOfMap(s.values) {
		v, at := s.values[name], p.with(name)
		report := func(code diag.Code, what, fix string) {
			*c.list = append(*c.list, diag.Problem{Code: code, Pos: s.keyPos(at), Path: at.String(), What: what, Fix: fix})
		}
		if allow != nil {
			if reason, ok := allow(name); !ok {
				report(diag.CodeNATSKey, reason, "remove the key from nats")
				continue
			}
		}
		if v == nil {
			report(diag.CodeType, "the key has no value", "write a value, or remove the line")
			continue
		}
		c.cfg.natsKeys = append(c.cfg.natsKeys, NATSKey{Name: name, Value: v, Pos: s.valuePos(at)})
	}
}

// insideBlock is the place of YAML that stands inside a block scalar (nats: |):
// its own line in the file. Of other kinds of text only the start is known.
func (c *checker) insideBlock(p path) place {
	start := c.pos(p)
	lines := strings.Split(string(c.cfg.Source(start.File)), "\n")
	text := strings.Split(c.cfg.NATS, "\n")
	literal := start.Line > 0 && start.Line <= len(lines) && strings.HasPrefix(lines[start.Line-1][min(start.Col-1, len(lines[start.Line-1])):], "|")
	return func(line, col int) diag.Pos {
		inFileLine := start.Line + line
		if !literal || line < 1 || line > len(text) || inFileLine > len(lines) {
			return start
		}
		pos := inFile(start.File, []byte(c.cfg.NATS))(line, col)
		indent := len(strings.TrimRight(lines[inFileLine-1], "\r")) - len(text[line-1])
		return diag.Pos{File: start.File, Line: inFileLine, Col: max(pos.Col+indent, 1)}
	}
}
