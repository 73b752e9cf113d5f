// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-mq/holdfast/appliance"
	"github.com/holdfast-mq/holdfast/appliance/admin"
	"github.com/holdfast-mq/holdfast/appliance/doctor"
)

// doctorAsks bounds the question to the node: one that does not answer is a finding.
const doctorAsks = 10 * time.Second

func newDoctorCmd(std stdio, g *globals) *cobra.Command {
	var list bool
	cmd := &cobra.Command{
		Use:   "doctor [CHECK…]",
		Short: "Look for what is wrong with this machine and its node [read-only]",
		Long: "Look at the node, its configuration and the machine, and show what is wrong, why it\n" +
			"matters and the command that fixes it. Works with the node running, stopped or broken,\n" +
			"and as any user; root sees most. Exit code 3 when a check failed, 0 with warnings only.",
		Example: "  holdfast doctor\n  holdfast doctor ports clock\n  holdfast doctor --output json",
		RunE: func(c *cobra.Command, names []string) error {
			if list {
				return listChecks(std, g)
			}
			return runDoctor(c.Context(), std, g, names)
		},
	}
	for _, about := range doctor.List() {
		cmd.ValidArgs = append(cmd.ValidArgs, about.Name+"\t"+about.Title)
	}
	cmd.Flags().BoolVar(&list, "list", false, "list the checks and do nothing")
	return cmd
}

func listChecks(std stdio, g *globals) error {
	if g.json() {
		printJSON(std.out, doctor.List())
		return nil
	}
	t := tabwriter.NewWriter(std.out, 0, 4, 2, ' ', 0)
	for _, about := range doctor.List() {
		fmt.Fprintf(t, "%s\t%s\n", about.Name, about.Title)
	}
	return t.Flush()
}

func runDoctor(ctx context.Context, std stdio, g *globals, names []string) error {
	var now atomic.Value
	now.Store("config")
	told := newProgress(std.err, isTerminal(std.err), func(took time.Duration) string {
		return fmt.Sprintf("looking at %v, %v", now.Load(), took.Round(time.Second))
	})
	in := g.patient()
	results, err := doctor.Run(ctx, in, names, func(name string) { now.Store(name) })
	told.stop()
	if err != nil {
		return err
	}
	if g.json() {
		printJSON(std.out, map[string]any{"ok": !doctor.Failed(results), "checks": results})
	} else {
		printDoctor(std.out, in, results)
	}
	if doctor.Failed(results) {
		return exitError(exitNotReady)
	}
	return nil
}

// patient is what the doctor looks at: unlike for other verbs a configuration that
// is broken, or can't be read, is a finding and no end.
func (g *globals) patient() doctor.Input {
	file := g.nodeFile()
	cfg, problems := g.load(file)
	if g.dataDir != "" && file == "" {
		problems = nil // another node's directory; its file is not named
	}
	socket := appliance.FindSocket(cfg.Node.DataDir)
	client := admin.NewClient(socket)
	return doctor.Input{
		File: file, Config: cfg, Problems: problems, Socket: socket, Version: version, Program: ownName(), Service: serviceConfig(),
		Ask: func(ctx context.Context) (doctor.Node, error) {
			ctx, cancel := context.WithTimeout(ctx, doctorAsks)
			defer cancel()
			s, err := client.Status(ctx)
			return answers(s), err
		},
	}
}

// answers is what of a node's status the doctor goes by.
func answers(s admin.Status) doctor.Node {
	n := doctor.Node{
		PID: s.Node.PID, Ready: s.Ready, Phase: string(s.Phase), Missing: s.Missing, Version: s.Node.Version,
		Uptime:      time.Duration(s.Node.UptimeSeconds * float64(time.Second)),
		Connections: s.Traffic.Connections, StoreUsed: s.Storage.Used, MemoryLimit: s.Node.MemoryLimit,
		Flush: time.Duration(s.Storage.FlushSeconds * float64(time.Second)), Problems: len(s.Problems), NeedRestart: s.NeedRestart,
	}
	if c := s.Cluster; c != nil && s.Phase == admin.PhaseRunning {
		for _, m := range c.Nodes {
			if m.Problem != "" && !m.Self {
				n.Others = append(n.Others, doctor.Trouble{What: m.Address + ": " + m.Problem, Fix: m.Fix})
			}
		}
	}
	for _, a := range s.Accounts {
		n.Streams += len(a.Streams)
		for _, st := range a.Streams {
			n.Consumers += len(st.Consumers)
		}
	}
	return n
}

// printDoctor prints a line for each check, and below what has to be done.
func printDoctor(w io.Writer, in doctor.Input, results []doctor.Result) {
	counts := map[doctor.Verdict]int{}
	var unseen []string
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	for _, r := range results {
		counts[r.Verdict]++
		line := r.Evidence
		switch {
		case r.Verdict == doctor.Unknown:
			unseen = append(unseen, r.Name)
			line = r.Findings[0].Evidence
		case len(r.Findings) == 1:
			line = "see below"
		case len(r.Findings) > 1:
			line = fmt.Sprintf("%d findings, see below", len(r.Findings))
		}
		fmt.Fprintf(t, "%s\t%s\t%s\n", mark(r.Verdict), r.Name, line)
	}
	t.Flush()
	for _, r := range results {
		for _, f := range r.Findings {
			if r.Verdict == doctor.Unknown && !strings.Contains(f.Fix, "\n") {
				continue // one command for all of them is below
			}
			fmt.Fprintf(w, "\n%s %s: %s\n  why: %s\n", mark(f.Verdict), r.Name, f.Evidence, f.Consequence)
			printFix(w, f.Fix)
		}
	}
	if len(unseen) > 0 {
		fmt.Fprintf(w, "\nTo see what is unknown: %s\n", in.Again(unseen...))
	}
	fmt.Fprintf(w, "\n%s", count(len(results), "check"))
	sep := ": "
	for _, v := range []doctor.Verdict{doctor.Fail, doctor.Warn, doctor.Unknown, doctor.Skipped, doctor.OK} {
		if counts[v] > 0 {
			fmt.Fprintf(w, "%s%d %s", sep, counts[v], v)
			sep = ", "
		}
	}
	fmt.Fprintln(w)
}

// mark makes what failed stand out.
func mark(v doctor.Verdict) string {
	if v == doctor.Fail {
		return "FAIL"
	}
	return string(v)
}

func printFix(w io.Writer, fix string) {
	if !strings.Contains(fix, "\n") {
		fmt.Fprintf(w, "  fix: %s\n", fix)
		return
	}
	fmt.Fprintln(w, "  fix:")
	for line := range strings.Lines(fix) {
		fmt.Fprintf(w, "    %s\n", strings.TrimSuffix(line, "\n"))
	}
}
