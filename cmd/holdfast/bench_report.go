// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/holdfast-mq/holdfast/appliance/admin"
	"github.com/holdfast-mq/holdfast/appliance/loadtest"
)

// benchReport is what `holdfast bench queue --output json` prints. Its keys are
// documented in testdata/docs/verbs/bench-queue.md.
type benchReport struct {
	Node           string       `json:"node"`
	Account        string       `json:"account"`
	Durability     string       `json:"durability"`
	GroupCommit    bool         `json:"group_commit"`
	GroupCommitOff string       `json:"group_commit_off,omitempty"` // why
	Retention      string       `json:"retention"`
	Publishers     int          `json:"publishers"`
	Workers        int          `json:"workers"`
	Size           int          `json:"message_bytes"`
	ForSeconds     float64      `json:"for_seconds"`
	Phases         []benchPhase `json:"phases"`

	Acknowledged int `json:"acknowledged"`
	Stored       int `json:"stored"`
	Consumed     int `json:"consumed"`
	Redelivered  int `json:"redelivered"`

	Comparison        *comparison `json:"comparison,omitempty"`
	ComparisonSkipped string      `json:"comparison_skipped,omitempty"`
}

type benchPhase struct {
	Name              string        `json:"name"`
	Messages          int           `json:"messages"`
	Seconds           float64       `json:"seconds"`
	MessagesPerSecond float64       `json:"messages_per_second"`
	BytesPerSecond    float64       `json:"bytes_per_second"`
	Full              bool          `json:"full"`
	Ack               *benchLatency `json:"ack,omitempty"`
	Delivery          *benchLatency `json:"delivery,omitempty"`
}

type benchLatency struct {
	P50 float64 `json:"p50_seconds"`
	P99 float64 `json:"p99_seconds"`
	Max float64 `json:"max_seconds"`
}

type comparison struct {
	Durability          string     `json:"durability"`
	SyncIntervalSeconds float64    `json:"sync_interval_seconds"`
	Publish             benchPhase `json:"publish"`
	TimesFaster         float64    `json:"times_faster"`
}

func (b *benching) newReport(s admin.Status) benchReport {
	return benchReport{
		Node: s.Node.Name, Account: b.account, Durability: s.Durability.Mode, Retention: b.retention,
		Publishers: b.load.Publishers, Workers: b.load.Workers, Size: b.load.Size, ForSeconds: b.load.For.Seconds(), Phases: []benchPhase{},
	}
}

// complete is true when all phases came to their end, whatever was counted.
func (r *benchReport) complete() bool { return len(r.Phases) == 3 }

func (r *benchReport) add(res loadtest.Result) {
	for _, p := range res.Phases {
		r.Phases = append(r.Phases, phaseOf(p, r.Size))
	}
	c := res.Counts
	r.Acknowledged, r.Stored, r.Consumed, r.Redelivered = c.Acknowledged, c.Stored, c.Consumed, c.Redelivered
}

func phaseOf(p loadtest.Phase, size int) benchPhase {
	latency := func(l *loadtest.Latency) *benchLatency {
		if l == nil {
			return nil
		}
		return &benchLatency{P50: l.P50.Seconds(), P99: l.P99.Seconds(), Max: l.Max.Seconds()}
	}
	return benchPhase{
		Name: p.Name, Messages: p.Messages, Seconds: p.Took.Seconds(), MessagesPerSecond: p.Rate(), BytesPerSecond: p.Rate() * float64(size),
		Full: p.Full, Ack: latency(p.Ack), Delivery: latency(p.Delivery),
	}
}

func printBench(w io.Writer, r benchReport) {
	group := "on"
	if !r.GroupCommit {
		group = "off: " + r.GroupCommitOff
	}
	fmt.Fprintf(w, "Node  %s, account %s, durability %s\n      group commit: %s\n", r.Node, r.Account, r.Durability, group)
	fmt.Fprintf(w, "Load  %s, %s, messages of %s, retention %s\n\n", count(r.Publishers, "publisher"), count(r.Workers, "worker"), sizeText(int64(r.Size)), r.Retention)
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(t, "PHASE\tMESSAGES\tMSGS/S\tMB/S\tACK P50\tP99\tMAX\tDELIVERY P50\tP99\tMAX")
	full := false
	for _, p := range r.Phases {
		name := p.Name
		if p.Full {
			name, full = name+" *", true
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%.2f\t%s\t%s\n", name, thousands(p.Messages), thousands(int(p.MessagesPerSecond)), p.BytesPerSecond/1e6,
			latencyText(p.Ack), latencyText(p.Delivery))
	}
	t.Flush()
	if full {
		fmt.Fprintln(w, "* ended early: the scratch stream was full; let it have more with --space")
	}
	fmt.Fprintf(w, "\nCounted: %s acknowledged, %s stored, %s consumed", thousands(r.Acknowledged), thousands(r.Stored), thousands(r.Consumed))
	if r.Redelivered > 0 {
		fmt.Fprintf(w, "; %s delivered again", thousands(r.Redelivered))
	}
	fmt.Fprintln(w)
	printComparison(w, r)
}

func printComparison(w io.Writer, r benchReport) {
	c := r.Comparison
	switch {
	case c != nil:
		fmt.Fprintf(w, "Interval mode on this disk: %s (publish %s/s, ack p50 %s), and would lose up to %v of acknowledged messages at a power cut\n",
			fasterText(c.TimesFaster), thousands(int(c.Publish.MessagesPerSecond)), shortTime(c.Publish.Ack.P50), seconds(c.SyncIntervalSeconds))
	case r.ComparisonSkipped != "":
		fmt.Fprintf(w, "Interval mode was not measured: %s\n", r.ComparisonSkipped)
	}
}

// fasterText does not make a difference of what is none: two runs of the same differ
// by as much.
func fasterText(times float64) string {
	if times < 1.2 {
		return "not faster"
	}
	return fmt.Sprintf("about %.1f x faster", times)
}

func latencyText(l *benchLatency) string {
	if l == nil {
		return "-\t-\t-"
	}
	return shortTime(l.P50) + "\t" + shortTime(l.P99) + "\t" + shortTime(l.Max)
}

// shortTime has three digits that count, and always a unit.
func shortTime(s float64) string {
	switch {
	case s < 1e-3:
		return strconv.FormatFloat(s*1e6, 'f', 0, 64) + "µs"
	case s < 10e-3:
		return strconv.FormatFloat(s*1e3, 'f', 2, 64) + "ms"
	case s < 1:
		return strconv.FormatFloat(s*1e3, 'f', 0, 64) + "ms"
	}
	return strconv.FormatFloat(s, 'f', 1, 64) + "s"
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
