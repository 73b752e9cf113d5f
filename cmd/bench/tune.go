// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/holdfast-mq/holdfast/appliance/tune"
)

// tuneVerb measures settings of the kernel, of mounts and of streams.
const tuneVerb = "tune"

type tuneOptions struct {
	options
	each time.Duration
}

// candidate is a setting in two states that are compared.
type candidate struct {
	group string // what -only goes by
	what  string
	from  string
	to    string
	// open makes the trial, and what takes it away again. A machine that does not have
	// the setting says why.
	open func(context.Context, *tuneLab) (t tune.Trial, end func() error, lacks string, err error)
}

// tuneLab is where candidates are compared.
type tuneLab struct {
	*lab
	each  time.Duration
	pairs int
}

// tuned is what came of a candidate.
type tuned struct {
	candidate
	got   []tune.Comparison
	lacks string
}

func tuneSettings(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	o, err := parseTune(args, stderr)
	if err != nil {
		return usageError{err}
	}
	l, err := openLab(ctx, o.options)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.close()) }()
	env, err := l.environment(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintln(stdout, env)
	lab := &tuneLab{lab: l, each: o.each, pairs: o.pairs}
	var all []tuned
	for _, c := range candidates(lab.dir) {
		if !o.only.MatchString(c.group) {
			continue
		}
		r, err := lab.compare(ctx, c)
		if err != nil {
			return fmt.Errorf("%s, %s and %s: %w", c.what, c.from, c.to, err)
		}
		all = append(all, r)
		fmt.Fprint(stdout, r.text())
	}
	if len(all) == 0 {
		return fmt.Errorf("measure: nothing matches -only %q", o.only)
	}
	if o.markdown == "" {
		return nil
	}
	if err := os.WriteFile(o.markdown, []byte(tuneTable(env, o, all)), 0o644); err != nil {
		return fmt.Errorf("write table: %w", err)
	}
	return nil
}

func parseTune(args []string, stderr io.Writer) (tuneOptions, error) {
	var o tuneOptions
	var only string
	f := flag.NewFlagSet("bench tune", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&o.holdfast, "holdfast", "bin/holdfast", "the binary to measure")
	f.StringVar(&o.dir, "dir", "bin/bench-data", "a directory on the disk to measure; not a tmpfs")
	f.IntVar(&o.pairs, "pairs", 12, "how often each state is measured, by turns; from 8")
	f.DurationVar(&o.each, "for", time.Second, "how long each half of a pair takes")
	f.StringVar(&only, "only", "", "settings whose name matches this expression")
	f.StringVar(&o.markdown, "markdown", "", "write the table to this file")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	var err error
	if o.only, err = regexp.Compile(only); err != nil {
		return o, fmt.Errorf("read -only: %w", err)
	}
	if f.NArg() > 0 || o.pairs < tune.EnoughPairs || o.each < 10*time.Millisecond {
		return o, errors.New("-pairs is at least 8, -for at least 10ms, and there are no arguments besides flags")
	}
	return o, o.absolute()
}

func (l *tuneLab) compare(ctx context.Context, c candidate) (_ tuned, err error) {
	out := tuned{candidate: c}
	t, end, lacks, err := c.open(ctx, l)
	if err != nil {
		return out, err
	}
	if lacks != "" {
		out.lacks = lacks
		return out, nil
	}
	defer func() { err = errors.Join(err, end()) }()
	t.Pairs = l.pairs
	if t.Each == 0 {
		t.Each = l.each
	}
	if t.Space == 0 {
		t.Space = 256 << 20
	}
	out.got, err = t.Run(ctx)
	return out, err
}

func (r tuned) text() string {
	head := fmt.Sprintf("%s: %s: %s → %s\n", r.group, r.what, r.from, r.to)
	if r.lacks != "" {
		return head + "    not here: " + r.lacks + "\n"
	}
	var b strings.Builder
	b.WriteString(head)
	for _, c := range r.got {
		fmt.Fprintf(&b, "    %-9s %s: %s → %s, ×%.2f (%.2f–%.2f)\n", c.Verdict, c.Figure, tuneQuantity(c.Before, c.Unit), tuneQuantity(c.After, c.Unit), c.Ratio, c.Low, c.High)
	}
	return b.String()
}

func tuneTable(env environment, o tuneOptions, all []tuned) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n%d pairs of %v each, by turns; the ratio is the median of the pairs' ratios, with an interval of at least 99 %%.\n\n", env, o.pairs, o.each)
	b.WriteString("| setting | from → to | measured | from | to | ratio | |\n|---|---|---|---:|---:|---:|---|\n")
	for _, r := range all {
		if r.lacks != "" {
			fmt.Fprintf(&b, "| %s | %s → %s | | | | | not here: %s |\n", r.what, r.from, r.to, r.lacks)
		}
		for _, c := range r.got {
			fmt.Fprintf(&b, "| %s | %s → %s | %s | %s | %s | %.2f (%.2f–%.2f) | %s |\n", r.what, r.from, r.to, c.Figure,
				tuneQuantity(c.Before, c.Unit), tuneQuantity(c.After, c.Unit), c.Ratio, c.Low, c.High, c.Verdict)
		}
	}
	return b.String()
}

func tuneQuantity(v float64, unit string) string {
	switch unit {
	case "s":
		return time.Duration(v * float64(time.Second)).Round(time.Microsecond).String()
	case "B/s":
		return fmt.Sprintf("%.0f MiB/s", v/(1<<20))
	}
	return fmt.Sprintf("%.0f %s", v, unit)
}

// scratch is a directory of a candidate's own.
func (l *tuneLab) scratch(name string) (dir string, remove func() error, err error) {
	dir = filepath.Join(l.dir, name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", nil, fmt.Errorf("make directory: %w", err)
	}
	return dir, func() error { return os.RemoveAll(dir) }, nil
}
