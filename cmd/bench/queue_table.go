// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"
)

// queueHead is what the tables were measured on, and how.
type queueHead struct {
	environment
	Peers []string `json:"peers"`
	Seed  uint64   `json:"seed"`
	Warm  float64  `json:"warm_seconds"`
	Take  float64  `json:"measured_seconds"`
}

// String is one line.
func (h queueHead) String() string {
	text := h.environment.String()
	for _, p := range h.Peers {
		text += " · " + p
	}
	return fmt.Sprintf("%s · %.1f s after %.1f s of warm-up · seed %d", text, h.Take, h.Warm, h.Seed)
}

// comparison is what a column of ratios divides.
type comparison struct {
	head           string
	above, beneath string
}

func comparisons() []comparison {
	return []comparison{
		{"÷ stock strict", ours, stock},
		{"÷ stock without fsync", ours, stockNoFsync},
		{"÷ RabbitMQ", ours, rabbitPeer},
		{"÷ Redis", ours, redisPeer},
		{"interval ÷ stock interval", oursInterval, stockInterv},
	}
}

// bounded is a ratio of two peers in one cell.
type bounded struct {
	FileSystem string  `json:"file_system"`
	Bytes      int     `json:"bytes"`
	Cell       string  `json:"cell"`
	Above      string  `json:"above"`
	Beneath    string  `json:"beneath"`
	Ratio      float64 `json:"ratio"`
	// AtLeast is the lower end of the 95 % interval of the median, 0 with too few pairs.
	AtLeast float64 `json:"at_least"`
	Pairs   int     `json:"pairs"`
}

func (r *queueResult) compare(above, beneath string, value func(*queueSample) float64) bounded {
	var a, b []float64
	for i, s := range r.Samples[above] {
		if theirs := r.Samples[beneath]; s != nil && i < len(theirs) && theirs[i] != nil {
			a, b = append(a, value(s)), append(b, value(theirs[i]))
		}
	}
	all := ratios(a, b)
	return bounded{r.FileSystem, r.Bytes, r.Cell, above, beneath, median(all), lowerBound(all), len(all)}
}

func perSecond(s *queueSample) float64 { return s.PerSecond }

func (b bounded) String() string {
	switch {
	case b.Pairs == 0:
		return "–"
	case b.AtLeast == 0:
		return fmt.Sprintf("%.2f", b.Ratio)
	}
	return fmt.Sprintf("%.2f (≥ %.2f)", b.Ratio, b.AtLeast)
}

// write prints the tables and writes the files that were asked for.
func (q *queueRun) write(head queueHead) error {
	page := queueMarkdown(head, q.peers, q.results)
	fmt.Fprintf(q.out, "\n%s", page)
	if q.o.json != "" {
		if err := writeQueueJSON(q.o.json, head, q.results); err != nil {
			return err
		}
	}
	if q.o.markdown == "" {
		return nil
	}
	if err := os.WriteFile(q.o.markdown, []byte(page), 0o644); err != nil {
		return fmt.Errorf("write tables: %w", err)
	}
	return nil
}

func writeQueueJSON(path string, head queueHead, results []*queueResult) error {
	doc := struct {
		Environment queueHead      `json:"environment"`
		Ratios      []bounded      `json:"ratios"`
		Results     []*queueResult `json:"results"`
	}{Environment: head, Results: results}
	for _, r := range results {
		for _, c := range comparisons() {
			if b := r.compare(c.above, c.beneath, perSecond); b.Pairs > 0 {
				doc.Ratios = append(doc.Ratios, b)
			}
		}
	}
	text, err := json.MarshalIndent(doc, "", " ")
	if err != nil {
		return fmt.Errorf("encode samples: %w", err)
	}
	if err := os.WriteFile(path, append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("write samples: %w", err)
	}
	return nil
}

// queueMarkdown is the page that the documentation includes.
func queueMarkdown(head queueHead, peers []queuePeer, results []*queueResult) string {
	var b strings.Builder
	b.WriteString("<!-- Made by `make bench`; README.md beside it says how to read it. -->\n\n")
	fmt.Fprintf(&b, "%s\n", head)
	for _, section := range sections(results) {
		fmt.Fprintf(&b, "\n## %s, messages of %s\n\n", section[0].FileSystem, byteSize(section[0].Bytes))
		ratioTable(&b, section)
		b.WriteString("\nMedians, as context: messages per second, p50 / p99 in milliseconds.\n\n")
		contextTable(&b, peers, section)
		memoryTable(&b, section)
	}
	return b.String()
}

// sections are the results of one file system and size each.
func sections(results []*queueResult) [][]*queueResult {
	var out [][]*queueResult
	for i, r := range results {
		if i == 0 || r.FileSystem != results[i-1].FileSystem || r.Bytes != results[i-1].Bytes {
			out = append(out, nil)
		}
		out[len(out)-1] = append(out[len(out)-1], r)
	}
	return out
}

func ratioTable(b *strings.Builder, section []*queueResult) {
	b.WriteString("| Holdfast |")
	for _, c := range comparisons() {
		fmt.Fprintf(b, " %s |", c.head)
	}
	fmt.Fprintf(b, " Pairs |\n|---|%s---|\n", strings.Repeat("---|", len(comparisons())))
	for _, r := range section {
		if r.cell.memory {
			continue
		}
		fmt.Fprintf(b, "| %s |", r.cell.what)
		pairs := 0
		for _, c := range comparisons() {
			got := r.compare(c.above, c.beneath, perSecond)
			pairs = max(pairs, got.Pairs)
			fmt.Fprintf(b, " %s |", got)
		}
		fmt.Fprintf(b, " %d |\n", pairs)
	}
}

func contextTable(b *strings.Builder, peers []queuePeer, section []*queueResult) {
	b.WriteString("| |")
	for _, p := range peers {
		fmt.Fprintf(b, " %s |", p.label)
	}
	fmt.Fprintf(b, "\n|---|%s\n", strings.Repeat("---|", len(peers)))
	for _, r := range section {
		if r.cell.memory {
			continue
		}
		fmt.Fprintf(b, "| %s |", r.cell.what)
		for _, p := range peers {
			fmt.Fprintf(b, " %s |", r.context(p.name))
		}
		b.WriteString("\n")
	}
}

func (r *queueResult) context(peer string) string {
	of := func(value func(*queueSample) float64) (all []float64) {
		for _, s := range r.Samples[peer] {
			if s != nil {
				all = append(all, value(s))
			}
		}
		return all
	}
	rates := of(perSecond)
	if len(rates) == 0 {
		return "–"
	}
	p50 := median(of(func(s *queueSample) float64 { return float64(s.P50) }))
	p99 := median(of(func(s *queueSample) float64 { return float64(s.P99) }))
	return fmt.Sprintf("%.0f, %s / %s", median(rates), milliseconds(time.Duration(p50)), milliseconds(time.Duration(p99)))
}

func memoryTable(b *strings.Builder, section []*queueResult) {
	for _, r := range section {
		if !r.cell.memory {
			continue
		}
		fmt.Fprintf(b, "\nMemory (RSS) of the server: %s.\n\n| Measured | Holdfast | Beside it | Ratio (min–max) | Pairs |\n|---|---|---|---|---|\n", r.cell.what)
		for _, m := range []struct {
			what  string
			value func(*queueSample) int64
		}{
			{"idle, before", func(s *queueSample) int64 { return s.Idle }},
			{"most under load", func(s *queueSample) int64 { return s.Peak }},
			{"idle, after", func(s *queueSample) int64 { return s.After }},
		} {
			line := row{What: m.what, Unit: mib, Peer: "stock strict"}
			for i, s := range r.Samples[ours] {
				if theirs := r.Samples[stock][i]; s != nil && theirs != nil {
					line.Holdfast = append(line.Holdfast, float64(m.value(s))/(1<<20))
					line.Theirs = append(line.Theirs, float64(m.value(theirs))/(1<<20))
				}
			}
			fmt.Fprintf(b, "| %s |\n", strings.Join(line.cells(), " | "))
		}
	}
}

func byteSize(n int) string {
	if n >= 1024 && n%1024 == 0 {
		return fmt.Sprintf("%d KiB", n/1024)
	}
	return fmt.Sprintf("%d B", n)
}

// milliseconds has three digits that mean something, without the unit.
func milliseconds(d time.Duration) string {
	return strings.TrimSuffix(quantity(d.Seconds()*1000, ""), " ")
}
