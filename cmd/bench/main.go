// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"syscall"
	"time"
)

type options struct {
	holdfast  string
	dir       string
	pairs     int
	within    time.Duration
	streams   int
	consumers int
	only      *regexp.Regexp
	json      string
	markdown  string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parse(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintf(stderr, "bench: %v\n", err)
		return 2
	}
	if err := bench(ctx, o, stdout); err != nil {
		fmt.Fprintf(stderr, "bench: %v\n", err)
		return 1
	}
	return 0
}

func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	var only string
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&o.holdfast, "holdfast", "bin/holdfast", "the binary to measure")
	f.StringVar(&o.dir, "dir", "bin/bench-data", "where the nodes keep their data while they run; a disk, not a tmpfs")
	f.IntVar(&o.pairs, "pairs", 5, "how often each side is measured, by turns")
	f.DurationVar(&o.within, "within", 8*time.Minute, "begin no further pair of a measurement that has two when the run would take longer")
	f.IntVar(&o.streams, "streams", 1000, "streams of the large node")
	f.IntVar(&o.consumers, "consumers", 2, "consumers of each of them")
	f.StringVar(&only, "only", "", "measurements whose name matches this expression")
	f.StringVar(&o.json, "json", "", "write all samples to this file")
	f.StringVar(&o.markdown, "markdown", "", "write the table to this file")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	var err error
	if o.only, err = regexp.Compile(only); err != nil {
		return o, fmt.Errorf("read -only: %w", err)
	}
	if f.NArg() > 0 || o.pairs < 1 || o.streams < 1 || o.consumers < 1 {
		return o, errors.New("-pairs, -streams and -consumers are at least 1, and there are no arguments besides flags")
	}
	// The nodes run in directories of their own.
	for _, p := range []*string{&o.holdfast, &o.dir} {
		if *p, err = filepath.Abs(*p); err != nil {
			return o, fmt.Errorf("find %q: %w", *p, err)
		}
	}
	return o, nil
}

// bench runs the chosen measurements and writes what was asked for.
func bench(ctx context.Context, o options, out io.Writer) (err error) {
	l, err := openLab(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.close()) }()
	env, err := l.environment(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s\n", env)
	rows, err := measureAll(ctx, chosen(registry(l), o.only), pace{pairs: o.pairs, within: o.within, now: time.Now}, out)
	if err != nil {
		return err
	}
	if len(rows) == 0 {
		return fmt.Errorf("measure: nothing matches -only %q", o.only)
	}
	fmt.Fprintln(out)
	writeText(out, rows)
	if o.json != "" {
		if err := writeJSON(o.json, env, rows); err != nil {
			return err
		}
	}
	if o.markdown == "" {
		return nil
	}
	if err := os.WriteFile(o.markdown, []byte(markdown(env, rows)), 0o644); err != nil {
		return fmt.Errorf("write table: %w", err)
	}
	return nil
}
