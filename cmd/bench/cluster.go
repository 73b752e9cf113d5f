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
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-mq/holdfast/cmd/internal/loopdisk"
	"github.com/holdfast-mq/holdfast/cmd/internal/netlab"
)

// Verbs of this program: three nodes, and the same in namespaces of its own.
const (
	clusterVerb       = "cluster"
	clusterInsideVerb = "cluster-inside"
)

type clusterOptions struct {
	queueOptions
	times int
	grows int
	parts *regexp.Regexp
}

// Parts of the page, by name.
const (
	gapsPart  = "gaps"
	ratesPart = "rates"
	growsPart = "grows"
)

func parseCluster(args []string, stderr io.Writer) (clusterOptions, error) {
	var o clusterOptions
	var peers, parts, kind string
	f := flag.NewFlagSet("bench "+clusterVerb, flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&o.holdfast, "holdfast", "bin/holdfast", "the binary to measure")
	f.StringVar(&o.dir, "dir", "bin/bench-data", "where images and data are while it runs; a disk, not a tmpfs")
	f.StringVar(&parts, "parts", "", "gaps (a node is killed, or cut off), rates (messages per second), grows (a single node with a million messages), as an expression")
	f.IntVar(&o.times, "times", 15, "how often each fault is measured on each side, by turns")
	f.IntVar(&o.grows, "grows", 3, "how often a single node grows")
	f.StringVar(&kind, "fs", "ext4", "file system of the rates, made in an image file: ext4 or xfs")
	f.Int64Var(&o.size, "size", 6144, "MiB of the image; it is sparse")
	f.IntVar(&o.pairs, "pairs", 15, "how often each peer is measured in each cell of the rates; a bound needs six")
	f.DurationVar(&o.within, "within", 3*time.Hour, "measure no further cell after this time")
	f.StringVar(&peers, "peers", "", "peers of the rates whose name matches this expression: stock-encrypted, stock-nofsync, rabbitmq; Holdfast and stock strict are always there")
	f.DurationVar(&o.warm, "warm", time.Second, "load before a measurement of a rate")
	f.DurationVar(&o.take, "take", 3*time.Second, "length of it")
	f.Uint64Var(&o.seed, "seed", rand.Uint64N(1<<32), "the order follows from it")
	f.StringVar(&o.json, "json", "", "write all samples to this file")
	f.StringVar(&o.markdown, "markdown", "", "write the page to this file")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	var err error
	if o.parts, err = regexp.Compile(parts); err != nil {
		return o, fmt.Errorf("read -parts: %w", err)
	}
	if o.peers, err = regexp.Compile(peers); err != nil {
		return o, fmt.Errorf("read -peers: %w", err)
	}
	if kind != "ext4" && kind != "xfs" {
		return o, fmt.Errorf("read -fs: %q is neither ext4 nor xfs", kind)
	}
	o.kinds, o.bytes, o.cells = []string{kind}, []int{256}, regexp.MustCompile("^sync-(1|64)$")
	if f.NArg() > 0 || o.pairs < 1 || o.times < 1 || o.size < 1024 || o.take <= 0 || o.warm < 0 {
		return o, errors.New("-pairs and -times are at least 1, -size at least 1024, -take above 0, and there are no arguments besides flags")
	}
	return o, o.absolute()
}

// clusterOutside runs the verb where its mounts and networks end with it.
func clusterOutside(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o, err := parseCluster(args, stderr)
	if err != nil {
		return usageError{err}
	}
	if missing := append(loopdisk.Missing(o.kinds), netlab.Missing()...); len(missing) > 0 {
		return fmt.Errorf("there can be no three nodes here: missing: %s", strings.Join(missing, ", "))
	}
	// Built here: the namespace inside has no way to a module proxy.
	l, err := openLab(ctx, o.options)
	if err != nil {
		return err
	}
	args = append([]string{clusterInsideVerb, l.stock}, append(args, "-seed", strconv.FormatUint(o.seed, 10))...)
	return errors.Join(apart(ctx, args, netlab.Apart, stdout, stderr), l.close())
}

// clusterInside measures and writes what was asked for, also when it is interrupted.
func clusterInside(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	if len(args) == 0 {
		return usageError{errors.New("this verb is called by " + clusterVerb)}
	}
	o, err := parseCluster(args[1:], stderr)
	if err != nil {
		return err
	}
	l, err := openLabWith(o.options, args[0])
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.close()) }()
	env, err := l.environment(ctx)
	if err != nil {
		return err
	}
	hosts, err := netlab.New(ctx, 3)
	if err != nil {
		return err
	}
	page := &clusterPage{Seed: o.seed}
	env.FileSystem = o.kinds[0] + " in an image file on " + env.FileSystem
	q := &queueRun{lab: l, o: o.queueOptions, out: stdout, rng: rand.New(rand.NewPCG(o.seed, 0)), now: time.Now}
	if q.places, err = q.makePlaces(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, q.leavePlaces(ctx)) }()
	page.environment = env
	var measured error
	if o.parts.MatchString(gapsPart) {
		g := &gapRun{lab: l, place: q.places[0], hosts: hosts, times: o.times, out: stdout}
		measured = g.measureAll(ctx)
		page.Gaps = g.gaps
	}
	if ctx.Err() == nil && o.parts.MatchString(growsPart) {
		g := &gapRun{lab: l, place: q.places[0], hosts: hosts, out: stdout}
		growths, err := g.measureGrowth(ctx, o.grows)
		page.Growths, measured = growths, errors.Join(measured, err)
	}
	if ctx.Err() == nil && o.parts.MatchString(ratesPart) {
		q.peers, page.Versions = l.clusterPeers(o.peers, stdout)
		measured = errors.Join(measured, q.measureAll(ctx))
		page.Rates, page.peers = q.results, q.peers
	}
	return errors.Join(measured, page.write(stdout, o.options))
}

// write prints the page and writes the files that were asked for.
func (p *clusterPage) write(out io.Writer, o options) error {
	text := p.markdown()
	fmt.Fprintf(out, "\n%s", text)
	if o.json != "" {
		samples, err := json.MarshalIndent(p, "", " ")
		if err != nil {
			return fmt.Errorf("encode samples: %w", err)
		}
		if err := os.WriteFile(o.json, append(samples, '\n'), 0o644); err != nil {
			return fmt.Errorf("write samples: %w", err)
		}
	}
	if o.markdown == "" {
		return nil
	}
	if err := os.WriteFile(o.markdown, []byte(text), 0o644); err != nil {
		return fmt.Errorf("write page: %w", err)
	}
	return nil
}
