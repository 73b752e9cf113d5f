// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"
)

// measurement is one procedure that both sides go through by turns. It yields
// one sample per figure; a figure that the machine can't give may be left out.
type measurement struct {
	name    string
	figures []figure
	ours    side
	peer    side
}

// figure is one line of the result.
type figure struct {
	key  string // in a sample
	what string
	unit string // s, MiB
}

// side is who is measured, and how.
type side struct {
	name string
	run  func(context.Context) (sample, error)
}

type sample map[string]float64

// row is a figure with all its samples, pair by pair.
type row struct {
	What     string    `json:"what"`
	Unit     string    `json:"unit"`
	Peer     string    `json:"peer"`
	Holdfast []float64 `json:"holdfast"`
	Theirs   []float64 `json:"theirs"`
}

func (r row) summary() summary { return summarise(r.Holdfast, r.Theirs) }

// pace says how many pairs there are, and when a slow disk makes them fewer.
type pace struct {
	pairs  int
	within time.Duration
	now    func() time.Time
}

// fewest pairs are measured however long they take: one has no spread.
const fewest = 2

func chosen(all []measurement, only *regexp.Regexp) []measurement {
	var out []measurement
	for _, m := range all {
		if only.MatchString(m.name) {
			out = append(out, m)
		}
	}
	return out
}

func measureAll(ctx context.Context, all []measurement, p pace, out io.Writer) ([]row, error) {
	end := p.now().Add(p.within)
	var rows []row
	for _, m := range all {
		own := make([]row, len(m.figures))
		for i, f := range m.figures {
			own[i] = row{What: f.what, Unit: f.unit, Peer: m.peer.name}
		}
		for pair := range p.pairs {
			begun := p.now()
			if err := measurePair(ctx, m, pair, own, fmt.Sprintf("%s, pair %d of %d", m.name, pair+1, p.pairs), out); err != nil {
				return nil, fmt.Errorf("measure %s: %w", m.name, err)
			}
			now := p.now()
			if pair+1 >= fewest && pair+1 < p.pairs && now.Add(now.Sub(begun)).After(end) {
				fmt.Fprintf(out, "%s: stopped after %d pairs: the next would exceed -within %s\n", m.name, pair+1, p.within)
				break
			}
		}
		for _, r := range own {
			if len(r.Holdfast) > 0 && len(r.Theirs) > 0 {
				rows = append(rows, r)
			}
		}
	}
	return rows, nil
}

// measurePair measures each side once. Every other pair begins with the peer:
// who comes second finds the disk as the first one left it.
func measurePair(ctx context.Context, m measurement, pair int, rows []row, label string, out io.Writer) error {
	turns := []bool{true, false}
	if pair%2 == 1 {
		turns[0], turns[1] = false, true
	}
	for _, ours := range turns {
		s := m.peer
		if ours {
			s = m.ours
		}
		got, err := s.run(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		var told []string
		for i, f := range m.figures {
			v, ok := got[f.key]
			if !ok {
				continue
			}
			if ours {
				rows[i].Holdfast = append(rows[i].Holdfast, v)
			} else {
				rows[i].Theirs = append(rows[i].Theirs, v)
			}
			told = append(told, f.key+" "+quantity(v, f.unit))
		}
		fmt.Fprintf(out, "%s: %s: %s\n", label, s.name, strings.Join(told, ", "))
	}
	return nil
}
