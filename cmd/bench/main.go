// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
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
	store     int64 // MiB
	only      *regexp.Regexp
	json      string
	markdown  string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// Nodes end with the thread that started them.
	runtime.LockOSThread()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	err := verb(ctx, args, stdout, stderr)
	_, usage := errors.AsType[usageError](err)
	exit, inner := errors.AsType[*exec.ExitError](err)
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
		return 0
	case inner && len(args) > 0 && (args[0] == queueVerb || args[0] == clusterVerb) && exit.ExitCode() == 1: // it has said why
		return 1
	}
	fmt.Fprintf(stderr, "bench: %v\n", err)
	if usage {
		return 2
	}
	return 1
}

// verb is what the first argument says; without one, the start of nodes is measured.
func verb(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) > 0 {
		switch args[0] {
		case queueVerb:
			return queueOutside(ctx, args[1:], stdout, stderr)
		case insideVerb:
			return queueInside(ctx, args[1:], stdout, stderr)
		case clusterVerb:
			return clusterOutside(ctx, args[1:], stdout, stderr)
		case clusterInsideVerb:
			return clusterInside(ctx, args[1:], stdout, stderr)
		case tuneVerb:
			return tuneSettings(ctx, args[1:], stdout, stderr)
		case loadVerb:
			return serveLoad(ctx, os.Stdin, stdout)
		}
	}
	o, err := parse(args, stderr)
	if err != nil {
		return usageError{err}
	}
	return bench(ctx, o, stdout)
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
	f.Int64Var(&o.store, "store", 0, "MiB of messages of a store to recover after a kill -9; 0: don't measure it. Twice of it is needed on the disk")
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
	if f.NArg() > 0 || o.pairs < 1 || o.streams < 1 || o.consumers < 1 || o.store < 0 {
		return o, errors.New("-pairs, -streams and -consumers are at least 1, -store is not negative, and there are no arguments besides flags")
	}
	return o, o.absolute()
}

// absolute is for nodes, which run in directories of their own.
func (o *options) absolute() (err error) {
	for _, p := range []*string{&o.holdfast, &o.dir} {
		if *p, err = filepath.Abs(*p); err != nil {
			return fmt.Errorf("find %q: %w", *p, err)
		}
	}
	return nil
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
	l.told = out
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
