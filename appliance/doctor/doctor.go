// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-mq/holdfast/appliance/config"
	"github.com/holdfast-mq/holdfast/appliance/diag"
)

// Verdict is what a check comes to.
type Verdict string

// The verdicts, from the worst.
const (
	Fail    Verdict = "fail"    // it does not work, or messages are in danger
	Warn    Verdict = "warn"    // it will hurt later
	Unknown Verdict = "unknown" // this user can't see enough
	OK      Verdict = "ok"
	Skipped Verdict = "skipped" // does not apply here
)

// Finding is one thing that is not as it should be.
type Finding struct {
	Verdict     Verdict `json:"verdict"`
	Evidence    string  `json:"evidence"`    // what was measured, and where
	Consequence string  `json:"consequence"` // why it matters
	// Fix can be pasted into a shell as it is. Where only a person can decide, it
	// is a comment that says what to do.
	Fix string `json:"fix"`
}

// Result is what a check came to.
type Result struct {
	Name     string    `json:"name"`
	Title    string    `json:"title"`
	Verdict  Verdict   `json:"verdict"`  // the worst of the findings
	Evidence string    `json:"evidence"` // what was measured, in one line
	Findings []Finding `json:"findings"`
}

// Node is what a running node says of itself.
type Node struct {
	PID         int
	Ready       bool
	Phase       string
	Missing     []string // what readiness waits for
	Version     string
	Uptime      time.Duration
	Streams     int
	Consumers   int
	Connections int
	StoreUsed   int64         // bytes
	MemoryLimit int64         // bytes; of the Go runtime
	Flush       time.Duration // of the volume, measured at the node's start
	Problems    int           // warnings that stand
	// Others is what is wrong with the other nodes of its cluster, as this one sees them.
	Others []Trouble
	// NeedRestart is what of the file is in force only after a restart.
	NeedRestart []string
}

// Trouble is what is wrong with another node.
type Trouble struct{ What, Fix string }

// Input is what is known before the checks begin.
type Input struct {
	File     string         // the configuration file; empty is the built-in starter
	Config   *config.Config // as far as it could be read
	Problems diag.List      // what is wrong with it
	Socket   string         // the admin socket
	// Ask asks the running node. Its errors have the codes of the admin client.
	Ask     func(context.Context) (Node, error)
	Version string // of this program
	Program string // how this program is called, for the fixes
	// Service is the configuration of the service of Windows; empty elsewhere, where the
	// unit says it, and where there is none.
	Service string
	// Root stands for / wherever the checks look at the system and not at what the
	// configuration names; tests put recorded files there.
	Root string
}

// check is one thing to look at.
type check struct {
	name, title string
	look        func(context.Context, *machine) report
	// blindly is set for what can be judged without the configuration.
	blindly bool
}

// checkTime bounds a check: nobody waits for a name server that is gone.
const checkTime = 15 * time.Second

// checks is every check, in the order in which they are run and shown.
func checks() []check {
	return []check{
		{"config", "the configuration", lookAtConfig, true},
		{"node", "the node itself", lookAtNode, true},
		{"version", "program, kernel and platform", lookAtVersion, true},
		{"unit", "the systemd unit", lookAtUnit, true},
		{"access", "user and permissions", lookAtAccess, false},
		{"store", "what is in the data directory", lookAtStore, false},
		{"lock", "who uses the data directory", lookAtLock, false},
		{"ports", "addresses the node listens on", lookAtPorts, false},
		{"names", "names and addresses of this and other machines", lookAtNames, false},
		{"certificates", "when certificates end", lookAtCertificates, false},
		{"clock", "the clock", lookAtClock, true},
		{"descriptors", "file descriptors", lookAtDescriptors, false},
		{"memory", "memory", lookAtMemory, true},
		{"swap", "memory of the node in swap", lookAtSwap, true},
		{"huge-pages", "transparent huge pages", lookAtHugePages, true},
		{"file-system", "file system and mount options", lookAtFileSystem, false},
		{"space", "space and inodes of the volume", lookAtSpace, false},
		{"write-cache", "write cache of the disk", lookAtWriteCache, false},
		{"antivirus", "scanners that read the data", lookAtAntivirus, false},
		{"power", "sleep of the machine", lookAtPower, true},
	}
}

// About is the name of a check and what it looks at.
type About struct {
	Name  string `json:"name"`
	Title string `json:"title"`
}

// List is every check, in the order in which they are run.
func List() []About {
	var all []About
	for _, c := range checks() {
		all = append(all, About{c.name, c.title})
	}
	return all
}

// Run runs the named checks, or all without a name, and tells begun of each before
// it begins. It fails when there is no check of a name.
func Run(ctx context.Context, in Input, names []string, begun func(name string)) ([]Result, error) {
	all := checks()
	for _, n := range names {
		if !slices.ContainsFunc(all, func(c check) bool { return c.name == n }) {
			return nil, diag.Fail(diag.CodeUsage, fmt.Errorf("there is no check %q", n), "`holdfast doctor --list` shows all checks")
		}
	}
	m := newMachine(in)
	var out []Result
	for _, c := range all {
		if len(names) > 0 && !slices.Contains(names, c.name) {
			continue
		}
		begun(c.name)
		m.check = c.name
		out = append(out, c.run(ctx, m))
	}
	return out, nil
}

func (c check) run(ctx context.Context, m *machine) Result {
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	var r report
	if m.hidden() && !c.blindly {
		r.blind(m, "can't read "+m.in.File)
	} else {
		r = c.look(m.readsBelow(ctx), m)
	}
	out := Result{Name: c.name, Title: c.title, Verdict: OK, Evidence: r.evidence, Findings: r.findings}
	if r.skipped {
		out.Verdict = Skipped
	}
	for _, v := range []Verdict{Unknown, Warn, Fail} {
		if slices.ContainsFunc(r.findings, func(f Finding) bool { return f.Verdict == v }) {
			out.Verdict = v
		}
	}
	if out.Findings == nil {
		out.Findings = []Finding{}
	}
	if out.Evidence == "" && len(r.findings) > 0 {
		out.Evidence = r.findings[0].Evidence
	}
	return out
}

// Failed reports whether a check failed; warnings are none.
func Failed(results []Result) bool {
	return slices.ContainsFunc(results, func(r Result) bool { return r.Verdict == Fail })
}
