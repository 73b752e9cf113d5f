// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"text/tabwriter"
)

// quantity writes a value with three digits that mean something.
func quantity(v float64, unit string) string {
	if unit == seconds && v < 1 {
		v, unit = v*1000, "ms"
	}
	digits := 0
	if a := math.Abs(v); a > 0 && a < 100 {
		digits = 2 - int(math.Floor(math.Log10(a)))
	}
	return fmt.Sprintf("%.*f %s", min(digits, 3), v, unit)
}

// cells are a row as text: both medians, the ratio with its spread, the pairs.
func (r row) cells() []string {
	s := r.summary()
	return []string{
		r.What, quantity(s.Holdfast, r.Unit), r.Peer + " " + quantity(s.Peer, r.Unit),
		fmt.Sprintf("%.2f (%.2f–%.2f)", s.Ratio, s.Min, s.Max), fmt.Sprint(min(len(r.Holdfast), len(r.Theirs))),
	}
}

func writeText(out io.Writer, rows []row) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "measured\tHoldfast\tbeside it\tratio (min–max)\tpairs")
	for _, r := range rows {
		fmt.Fprintln(w, strings.Join(r.cells(), "\t"))
	}
	w.Flush()
}

// markdown is the page that the documentation includes.
func markdown(env environment, rows []row) string {
	var b strings.Builder
	b.WriteString("<!-- Made by `make bench`; README.md beside it says how to read it. -->\n\n")
	fmt.Fprintf(&b, "%s\n\n", env)
	b.WriteString("| Measured | Holdfast | Beside it | Ratio (min–max) | Pairs |\n|---|---|---|---|---|\n")
	for _, r := range rows {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(r.cells(), " | "))
	}
	return b.String()
}

// writeJSON writes every sample, for whoever wants to calculate differently.
func writeJSON(path string, env environment, rows []row) error {
	type full struct {
		row
		summary `json:"median"`
	}
	doc := struct {
		Environment environment `json:"environment"`
		Rows        []full      `json:"rows"`
	}{Environment: env}
	for _, r := range rows {
		doc.Rows = append(doc.Rows, full{r, r.summary()})
	}
	text, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		return fmt.Errorf("encode samples: %w", err)
	}
	if err := os.WriteFile(path, append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("write samples: %w", err)
	}
	return nil
}
