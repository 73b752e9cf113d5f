// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/holdfast-mq/holdfast/cmd/internal/loopdisk"
)

// insideVerb is this program in its own mount namespace.
const insideVerb = "inside"

// terminate asks a process to end in good order.
const terminate = syscall.SIGTERM

// goodbye is how long the inner program may take to end in good order.
const goodbye = 30 * time.Second

type options struct {
	modes    []mode
	cuts     []int // for each mode
	kinds    []string
	seed     uint64
	keep     bool
	holdfast string
	dir      string
	size     int64 // MiB
	timeout  time.Duration
	optional bool
}

func main() {
	// Children end with the thread that started them.
	runtime.LockOSThread()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var err error
	switch {
	case len(args) > 0 && args[0] == stockVerb:
		err = serveStock(args[1:])
	case len(args) > 1 && args[0] == insideVerb:
		err = inside(ctx, args[1], args[2:], stdout, stderr)
	case len(args) > 0 && args[0] == clusterVerb:
		err = clusterOutside(ctx, args[1:], stdout, stderr)
	case len(args) > 1 && args[0] == clusterInsideVerb:
		err = clusterInside(ctx, args[1], args[2:], stdout, stderr)
	default:
		var o options
		if o, err = parse(args, stderr); err != nil {
			err = usageError{err}
			break
		}
		err = outside(ctx, o, args, stdout, stderr)
	}
	_, usage := errors.AsType[usageError](err)
	exit, inner := errors.AsType[*exec.ExitError](err)
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
		return 0
	case usage:
		fmt.Fprintf(stderr, "torture: %v\n", err)
		return 2
	case inner && exit.ExitCode() == 1: // it has said why
	default:
		fmt.Fprintf(stderr, "torture: %v\n", err)
	}
	return 1
}

func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	var names, kinds, cuts string
	f := flag.NewFlagSet("torture", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&names, "mode", "strict", "strict, strict-alone (without group commit), encrypted (with a new key at each start), interval (Holdfast), stock, stock-always (nats-server); a list with commas")
	f.StringVar(&kinds, "fs", "ext4,xfs", "file systems")
	f.StringVar(&cuts, "cuts", "10", "cuts of each mode, spread over the file systems; or a list, one number for each mode")
	f.Uint64Var(&o.seed, "seed", rand.Uint64N(1<<32), "what is chosen at random follows from it, as far as time lets it")
	f.BoolVar(&o.keep, "keep", false, "keep the image of a failing cut as the cut left it, and the node's log, in -dir")
	f.StringVar(&o.holdfast, "holdfast", "bin/holdfast", "the binary that is cut")
	f.StringVar(&o.dir, "dir", "bin/torture-data", "where the images are while it runs")
	f.Int64Var(&o.size, "size", 384, "MiB of an image; XFS needs 300")
	f.DurationVar(&o.timeout, "timeout", 15*time.Minute, "give up, and fail, after this time")
	f.BoolVar(&o.optional, "optional", false, "succeed where power can't be cut")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	var err error
	if o.modes, err = modesNamed(names); err != nil {
		return o, err
	}
	for k := range strings.SplitSeq(kinds, ",") {
		if k != "ext4" && k != "xfs" {
			return o, fmt.Errorf("read -fs: %q is neither ext4 nor xfs", k)
		}
		o.kinds = append(o.kinds, k)
	}
	for n := range strings.SplitSeq(cuts, ",") {
		i, err := strconv.Atoi(n)
		if err != nil || i < len(o.kinds) {
			return o, fmt.Errorf("read -cuts: %q is no number, or less than one cut on each file system", n)
		}
		o.cuts = append(o.cuts, i)
	}
	if len(o.cuts) == 1 {
		o.cuts = slices.Repeat(o.cuts, len(o.modes))
	}
	if len(o.cuts) != len(o.modes) || o.size < 300 || f.NArg() > 0 {
		return o, errors.New("-cuts is one number or one for each mode, -size is at least 300, and there are no arguments besides flags")
	}
	// The nodes run in directories of their own.
	for _, p := range []*string{&o.holdfast, &o.dir} {
		if *p, err = filepath.Abs(*p); err != nil {
			return o, fmt.Errorf("find %q: %w", *p, err)
		}
	}
	return o, nil
}

// outside runs the campaigns where their mounts end with them.
func outside(ctx context.Context, o options, args []string, stdout, stderr io.Writer) error {
	if missing := loopdisk.Missing(o.kinds); len(missing) > 0 && o.optional {
		fmt.Fprintln(stdout, "skipping: power cuts (need root, loop devices and xfsprogs)")
		return nil
	} else if len(missing) > 0 {
		return fmt.Errorf("power can't be cut here: missing: %s", strings.Join(missing, ", "))
	}
	if slices.ContainsFunc(o.modes, func(m mode) bool { return !strings.HasPrefix(m.name, "stock") }) {
		if _, err := exec.LookPath(o.holdfast); err != nil {
			return fmt.Errorf("find the binary to cut (`make build` makes it): %w", err)
		}
	}
	return apart(ctx, o.dir, insideVerb, args, o.seed, func(*exec.Cmd) {}, stdout, stderr)
}

// inside makes all campaigns, one after the other.
func inside(ctx context.Context, dir string, args []string, stdout, stderr io.Writer) error {
	o, err := parse(args, stderr)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, o.timeout, fmt.Errorf("time is up: -timeout %s", o.timeout))
	defer cancel()
	if err := loopdisk.MountMemory(ctx, memoryDir); err != nil {
		return err
	}
	fmt.Fprintf(stdout, "seed %d\n", o.seed)
	var tallies []*tally
	var wrong []string
	for i, m := range o.modes {
		for j, on := range o.kinds {
			cuts := (o.cuts[i] + len(o.kinds) - 1 - j) / len(o.kinds)
			t := &tally{mode: m, fs: on, asked: cuts, found: map[kind]int{}}
			tallies = append(tallies, t)
			c := &campaign{tally: t, o: o, dir: dir, out: stdout}
			if err = c.run(ctx, cuts); errors.Is(err, ctx.Err()) {
				err = context.Cause(ctx)
			}
			if why := t.failure(); why != "" {
				wrong = append(wrong, fmt.Sprintf("%s on %s: %s", m.name, on, why))
			}
			if err != nil {
				table(stdout, tallies)
				return err
			}
		}
	}
	table(stdout, tallies)
	if len(wrong) > 0 {
		return fmt.Errorf("judge: %s", strings.Join(wrong, "; "))
	}
	return nil
}
