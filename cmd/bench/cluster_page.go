// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strings"
)

// clusterPage is what was measured of three nodes.
type clusterPage struct {
	environment
	Versions []string       `json:"peers"`
	Seed     uint64         `json:"seed"`
	Gaps     []*gap         `json:"gaps"`
	Rates    []*queueResult `json:"rates"`
	Growths  []growth       `json:"grows"`

	peers []queuePeer
}

// sections of the page, in order; what was not measured writes nothing.
func (p *clusterPage) sections() []func(*strings.Builder) {
	return []func(*strings.Builder){p.gapsSection, p.growsSection, p.ratesSection}
}

// markdown is the page that the documentation includes.
func (p *clusterPage) markdown() string {
	var b strings.Builder
	b.WriteString("<!-- Made by `make bench-cluster`; README.md beside it says how to read it. -->\n\n")
	fmt.Fprintf(&b, "%s", p.environment)
	for _, v := range p.Versions {
		fmt.Fprintf(&b, " · %s", v)
	}
	fmt.Fprintf(&b, " · seed %d\n", p.Seed)
	for _, section := range p.sections() {
		section(&b)
	}
	return b.String()
}

func (p *clusterPage) gapsSection(b *strings.Builder) {
	if len(p.Gaps) == 0 {
		return
	}
	b.WriteString("\n## Nothing is acknowledged, while a stream changes its leader\n\n")
	b.WriteString("| Fault | Holdfast, median (max) | stock strict, median (max) | Times |\n|---|---|---|---|\n")
	for i := 0; i+1 < len(p.Gaps); i += 2 {
		fmt.Fprintf(b, "| %s | %s | %s | %d |\n", p.Gaps[i].Fault, p.Gaps[i], p.Gaps[i+1], len(p.Gaps[i].Took))
	}
}

func (p *clusterPage) growsSection(b *strings.Builder) {
	if len(p.Growths) == 0 {
		return
	}
	b.WriteString("\n## A single node with a million messages of 256 B grows to three\n\n")
	b.WriteString("Somebody publishes meanwhile. The limit is writing as much twice to the same volume, with an fsync at the end; the three nodes share that volume.\n\n")
	b.WriteString("| Until all have three copies | ÷ the limit | Nothing acknowledged for | On disk |\n|---|---|---|---|\n")
	for _, g := range p.Growths {
		fmt.Fprintf(b, "| %s | %.1f | %s | %s |\n", quantity(g.Copied, seconds), g.Copied/g.Limit, quantity(g.Cut, seconds), fmt.Sprintf("%d MiB", g.Bytes>>20))
	}
}

// String is the median and the worst.
func (g *gap) String() string {
	if len(g.Took) == 0 {
		return "–"
	}
	return fmt.Sprintf("%s (%s)", quantity(median(g.Took), seconds), quantity(slices.Max(g.Took), seconds))
}

func (p *clusterPage) ratesSection(b *strings.Builder) {
	if len(p.Rates) == 0 {
		return
	}
	fmt.Fprintf(b, "\n## Three copies, messages of %s\n\n", byteSize(p.Rates[0].Bytes))
	b.WriteString("| Holdfast | ÷ stock strict | ÷ the same with encrypted routes | ÷ stock without fsync | ÷ RabbitMQ | Pairs |\n|---|---|---|---|---|---|\n")
	for _, r := range p.Rates {
		pairs := 0
		fmt.Fprintf(b, "| %s |", r.cell.what)
		for _, beneath := range []string{stock, stockTLS, stockNoFsync, rabbitPeer} {
			got := r.compare(ours, beneath, perSecond)
			pairs = max(pairs, got.Pairs)
			fmt.Fprintf(b, " %s |", got)
		}
		fmt.Fprintf(b, " %d |\n", pairs)
	}
	b.WriteString("\nMedians, as context: messages per second, p50 / p99 in milliseconds.\n\n")
	contextTable(b, p.peers, p.Rates)
}
