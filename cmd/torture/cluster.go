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
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-mq/holdfast/cmd/internal/loopdisk"
	"github.com/holdfast-mq/holdfast/cmd/internal/netlab"
)

// Verbs for three nodes: from outside, and in namespaces of their own.
const (
	clusterVerb       = "cluster"
	clusterInsideVerb = "cluster-inside"
)

// clusterMode is what all three nodes promise.
type clusterMode struct {
	name string
	weak bool // loses acknowledged messages with the power of all three, and has to show it
	sync string
}

func clusterModes() []clusterMode {
	return []clusterMode{
		{name: "strict", sync: "durability: strict"},
		{name: "interval", weak: true, sync: "durability: interval, sync_interval: 1s"},
		{name: "stock", weak: true},
		{name: "stock-always", sync: "always"},
	}
}

func (m clusterMode) stock() bool { return strings.HasPrefix(m.name, "stock") }

// forgives is as with one node.
func (m clusterMode) forgives(k kind) bool { return mode{weak: m.weak}.forgives(k) }

type clusterOptions struct {
	modes    []clusterMode
	rounds   []int // for each mode
	faults   []string
	kinds    []string
	seed     uint64
	holdfast string
	dir      string
	timeout  time.Duration
	optional bool
}

func parseCluster(args []string, stderr io.Writer) (clusterOptions, error) {
	var o clusterOptions
	var names, rounds, faults, kinds string
	f := flag.NewFlagSet("torture "+clusterVerb, flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&names, "mode", "strict", "strict, interval (Holdfast), stock, stock-always (nats-server); a list with commas")
	f.StringVar(&rounds, "rounds", "1", "three fresh nodes, and each of the faults once, so many times; or a list, one number for each mode")
	f.StringVar(&faults, "faults", strings.Join(faultNames(), ","), "what happens to the nodes, in this order; weak modes only lose the power of all three")
	f.StringVar(&kinds, "fs", "xfs,ext4", "file systems, by turns")
	f.Uint64Var(&o.seed, "seed", rand.Uint64N(1<<32), "what is chosen at random follows from it, as far as time lets it")
	f.StringVar(&o.holdfast, "holdfast", "bin/holdfast", "the binary under test")
	f.StringVar(&o.dir, "dir", "bin/torture-data", "where the images are while it runs, and the logs of a round that failed")
	f.DurationVar(&o.timeout, "timeout", 15*time.Minute, "give up, and fail, after this time")
	f.BoolVar(&o.optional, "optional", false, "succeed where there can be no three nodes")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	for name := range strings.SplitSeq(names, ",") {
		i := slices.IndexFunc(clusterModes(), func(m clusterMode) bool { return m.name == name })
		if i < 0 {
			return o, fmt.Errorf("read -mode: %q is none of strict, interval, stock, stock-always", name)
		}
		o.modes = append(o.modes, clusterModes()[i])
	}
	for n := range strings.SplitSeq(rounds, ",") {
		i, err := strconv.Atoi(n)
		if err != nil || i < 1 {
			return o, fmt.Errorf("read -rounds: %q is no number above 0", n)
		}
		o.rounds = append(o.rounds, i)
	}
	if len(o.rounds) == 1 {
		o.rounds = slices.Repeat(o.rounds, len(o.modes))
	}
	for name := range strings.SplitSeq(faults, ",") {
		if !slices.Contains(faultNames(), name) {
			return o, fmt.Errorf("read -faults: %q is none of %s", name, strings.Join(faultNames(), ", "))
		}
		o.faults = append(o.faults, name)
	}
	for k := range strings.SplitSeq(kinds, ",") {
		if k != "ext4" && k != "xfs" {
			return o, fmt.Errorf("read -fs: %q is neither ext4 nor xfs", k)
		}
		o.kinds = append(o.kinds, k)
	}
	if len(o.rounds) != len(o.modes) || f.NArg() > 0 {
		return o, errors.New("-rounds is one number or one for each mode, and there are no arguments besides flags")
	}
	for _, p := range []*string{&o.holdfast, &o.dir} {
		var err error
		if *p, err = filepath.Abs(*p); err != nil {
			return o, fmt.Errorf("find %q: %w", *p, err)
		}
	}
	return o, nil
}

// clusterOutside runs the rounds where their mounts and networks end with them.
func clusterOutside(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o, err := parseCluster(args, stderr)
	if err != nil {
		return usageError{err}
	}
	missing := append(loopdisk.Missing(o.kinds), netlab.Missing()...)
	slices.Sort(missing)
	missing = slices.Compact(missing)
	if len(missing) > 0 && o.optional {
		fmt.Fprintf(stdout, "skipping: three nodes in networks of their own (missing: %s)\n", strings.Join(missing, ", "))
		return nil
	} else if len(missing) > 0 {
		return fmt.Errorf("there can be no three nodes here: missing: %s", strings.Join(missing, ", "))
	}
	if slices.ContainsFunc(o.modes, func(m clusterMode) bool { return !m.stock() }) {
		if _, err := exec.LookPath(o.holdfast); err != nil {
			return fmt.Errorf("find the binary to test (`make build` makes it): %w", err)
		}
	}
	return apart(ctx, o.dir, clusterInsideVerb, args, o.seed, netlab.Apart, stdout, stderr)
}

// clusterInside makes all rounds, one after the other.
func clusterInside(ctx context.Context, dir string, args []string, stdout, stderr io.Writer) error {
	o, err := parseCluster(args, stderr)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, o.timeout, fmt.Errorf("time is up: -timeout %s", o.timeout))
	defer cancel()
	hosts, err := netlab.New(ctx, 3)
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "seed %d\n", o.seed)
	var scores []*score
	for i, m := range o.modes {
		s := newScore(m, o.rounds[i])
		scores = append(scores, s)
		for round := 1; round <= o.rounds[i]; round++ {
			r := &trial{score: s, o: o, hosts: hosts, dir: filepath.Join(dir, fmt.Sprintf("%s-%d", m.name, round)), fs: o.kinds[(round-1)%len(o.kinds)], round: round, out: stdout}
			if err := r.run(ctx); err != nil {
				if errors.Is(err, ctx.Err()) {
					err = context.Cause(ctx)
				}
				clusterTable(stdout, scores)
				return fmt.Errorf("%s, round %d: %w", m.name, round, err)
			}
		}
	}
	clusterTable(stdout, scores)
	var wrong []string
	for _, s := range scores {
		if why := s.failure(); why != "" {
			wrong = append(wrong, s.mode.name+": "+why)
		}
	}
	if len(wrong) > 0 {
		return fmt.Errorf("judge: %s", strings.Join(wrong, "; "))
	}
	return nil
}

// apart runs a verb of this program where its mounts end with it, and owns its directory:
// it removes it however the program ends.
func apart(ctx context.Context, parent, verb string, args []string, seed uint64, more func(*exec.Cmd), stdout, stderr io.Writer) (err error) {
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	dir, err := os.MkdirTemp(parent, "run-")
	if err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	defer func() {
		err = errors.Join(err, os.RemoveAll(dir))
		_ = os.Remove(parent) // stays if something was kept
	}()
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	// Its own choice of a seed is handed on.
	args = append([]string{verb, dir}, append(args, "-seed", strconv.FormatUint(seed, 10))...)
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = stdout, stderr, goodbye
	cmd.Cancel = func() error { return cmd.Process.Signal(terminate) }
	loopdisk.Apart(cmd)
	more(cmd)
	return cmd.Run()
}

// usageError is a mistake on the command line.
type usageError struct{ error }

// Unwrap returns the mistake.
func (e usageError) Unwrap() error { return e.error }
