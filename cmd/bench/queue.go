// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/holdfast-mq/holdfast/cmd/bench/load"
	"github.com/holdfast-mq/holdfast/cmd/internal/loopdisk"
)

// Verbs of this program: the table of messages, the same in a mount namespace of its
// own, and the load generator, which is a process of its own.
const (
	queueVerb  = "queue"
	insideVerb = "queue-inside"
	loadVerb   = "load"
)

// goodbye is how long the inner program may take to end in good order.
const goodbye = 30 * time.Second

// onDirectory is the file system that -dir is on.
const onDirectory = "dir"

type queueOptions struct {
	options
	cells, peers *regexp.Regexp
	bytes        []int
	kinds        []string
	size         int64 // MiB
	warm, take   time.Duration
	seed         uint64
}

func parseQueue(args []string, stderr io.Writer) (queueOptions, error) {
	var o queueOptions
	var cells, peers, sizes, kinds string
	f := flag.NewFlagSet("bench "+queueVerb, flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&o.holdfast, "holdfast", "bin/holdfast", "the binary to measure")
	f.StringVar(&o.dir, "dir", "bin/bench-data", "where images and data are while it runs; a disk, not a tmpfs")
	f.StringVar(&kinds, "fs", "ext4,xfs", "file systems made in image files (root only), or dir: the one that -dir is on")
	f.Int64Var(&o.size, "size", 6144, "MiB of an image; it is sparse")
	f.IntVar(&o.pairs, "pairs", 15, "how often each peer is measured in each cell; a bound needs six")
	f.DurationVar(&o.within, "within", 5*time.Hour, "measure no further cell after this time")
	f.StringVar(&cells, "cells", "", "cells whose name matches this expression, such as ^sync-64$")
	f.StringVar(&peers, "peers", "", "peers whose name matches this expression; Holdfast and stock strict are always there")
	f.StringVar(&sizes, "bytes", "256,4096", "bytes of a message")
	f.DurationVar(&o.warm, "warm", 300*time.Millisecond, "load before the measurement")
	f.DurationVar(&o.take, "take", 1500*time.Millisecond, "length of a measurement")
	f.Uint64Var(&o.seed, "seed", rand.Uint64N(1<<32), "the order follows from it")
	f.StringVar(&o.json, "json", "", "write all samples to this file")
	f.StringVar(&o.markdown, "markdown", "", "write the tables to this file")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	var err error
	if o.cells, err = regexp.Compile(cells); err != nil {
		return o, fmt.Errorf("read -cells: %w", err)
	}
	if o.peers, err = regexp.Compile(peers); err != nil {
		return o, fmt.Errorf("read -peers: %w", err)
	}
	for s := range strings.SplitSeq(sizes, ",") {
		n, err := strconv.Atoi(s)
		if err != nil || n < 8 || n > 1<<20 {
			return o, fmt.Errorf("read -bytes: %q is no number from 8 to 1048576", s)
		}
		o.bytes = append(o.bytes, n)
	}
	for k := range strings.SplitSeq(kinds, ",") {
		if k != "ext4" && k != "xfs" && k != onDirectory {
			return o, fmt.Errorf("read -fs: %q is neither ext4 nor xfs nor %s", k, onDirectory)
		}
		o.kinds = append(o.kinds, k)
	}
	if f.NArg() > 0 || o.pairs < 1 || o.size < 1024 || o.take <= 0 || o.warm < 0 {
		return o, errors.New("-pairs is at least 1, -size at least 1024, -take above 0, and there are no arguments besides flags")
	}
	return o, o.absolute()
}

// queueOutside runs the verb where its mounts end with it, if there are to be any.
func queueOutside(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o, err := parseQueue(args, stderr)
	if err != nil {
		return usageError{err}
	}
	args = append(args, "-seed", strconv.FormatUint(o.seed, 10))
	images := slices.DeleteFunc(slices.Clone(o.kinds), func(k string) bool { return k == onDirectory })
	if missing := loopdisk.Missing(images); len(images) > 0 && len(missing) > 0 {
		fmt.Fprintf(stdout, "measuring on the file system of -dir: no images, missing: %s\n", strings.Join(missing, ", "))
		images, args = nil, append(args, "-fs", onDirectory)
	}
	if len(images) == 0 {
		return queueInside(ctx, args, stdout, stderr)
	}
	return apart(ctx, append([]string{insideVerb}, args...), func(*exec.Cmd) {}, stdout, stderr)
}

// apart runs this program where its mounts, and what more says, end with it.
func apart(ctx context.Context, args []string, more func(*exec.Cmd), stdout, stderr io.Writer) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = stdout, stderr, goodbye
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	loopdisk.Apart(cmd)
	more(cmd)
	return cmd.Run()
}

// usageError is a mistake on the command line.
type usageError struct{ error }

// Unwrap returns the mistake.
func (e usageError) Unwrap() error { return e.error }

// queueInside measures and writes what was asked for, also when it is interrupted:
// hours of measuring are not thrown away.
func queueInside(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	o, err := parseQueue(args, stderr)
	if err != nil {
		return err
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
	q := &queueRun{lab: l, o: o, out: stdout, rng: rand.New(rand.NewPCG(o.seed, 0)), now: time.Now}
	var versions []string
	if q.peers, versions, err = l.queuePeers(ctx, o.peers, stdout); err != nil {
		return err
	}
	if q.places, err = q.makePlaces(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, q.leavePlaces(ctx)) }()
	env.FileSystem = q.fileSystems()
	head := queueHead{environment: env, Peers: versions, Seed: o.seed, Warm: o.warm.Seconds(), Take: o.take.Seconds()}
	fmt.Fprintln(stdout, head)
	measured := q.measureAll(ctx)
	return errors.Join(measured, q.write(head))
}

// serveLoad is the load generator: a specification in, a result out.
func serveLoad(ctx context.Context, in io.Reader, out io.Writer) error {
	var s load.Spec
	if err := json.NewDecoder(in).Decode(&s); err != nil {
		return fmt.Errorf("read specification: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, s.Warm+s.Measure+loadLimit)
	defer cancel()
	res, err := s.Run(ctx)
	if err != nil {
		return err
	}
	if err := json.NewEncoder(out).Encode(res); err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	return nil
}
