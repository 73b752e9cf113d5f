// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/holdfast-mq/holdfast/appliance/admin"
	"github.com/holdfast-mq/holdfast/appliance/diag"
	"github.com/holdfast-mq/holdfast/appliance/loadtest"
	"github.com/holdfast-mq/holdfast/appliance/service"
)

const (
	// mostAtOnce bounds publishers and workers: each is a connection.
	mostAtOnce = 1000
	// shortestPhase lets each publisher have its turn, longestPhase keeps a run within
	// loadtest.Longest.
	shortestPhase = 100 * time.Millisecond
	longestPhase  = time.Minute
	// keptFree is the share of the volume that stays free, as one of so many parts.
	keptFree = 20
)

func retentions() []string { return []string{"workqueue", "limits"} }

func newBenchCmd(std stdio, g *globals) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure the running node, or its disk [changes state]",
		Args:  cobra.NoArgs,
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	cmd.AddCommand(newBenchQueueCmd(std, g), newBenchDiskCmd(std, g))
	return cmd
}

func newBenchQueueCmd(std stdio, g *globals) *cobra.Command {
	b := benching{std: std, g: g, isTerminal: isTerminal}
	cmd := &cobra.Command{
		Use:   "queue",
		Short: "Publish and consume against the running node, and say how fast and how safe that is [changes state, for the time of the run]",
		Long: "Publish and consume against the running node, over its client port and with all rights in\n" +
			"an account, as an application of that account would: first only publish, then only\n" +
			"consume, then both at once. What was acknowledged, stored and consumed is compared message\n" +
			"by message. At the end the publishing is repeated against a node of its own in durability\n" +
			"interval, on the same disk: that is what fsync before each acknowledgement costs here.\n\n" +
			"It uses a scratch stream of its own, HOLDFAST_BENCH_…, which counts against the limits of\n" +
			"the account, and removes it at the end, also after an error or Ctrl-C. Its messages are\n" +
			"grouped as those of a stream in the file with group_commit auto; the report says so, or\n" +
			"why not. Streams of others are not touched, but they share the disk, and are slower\n" +
			"meanwhile: with clients connected it asks first. The figures are of this program and the\n" +
			"node together, on one machine.\n\n" +
			"Exit code 1 when the counts do not agree, or when it could not be measured to the end.",
		Example: "  holdfast bench queue\n" +
			"  holdfast bench queue --account shop --publishers 64 --size 4KiB --retention limits\n" +
			"  holdfast bench queue --no-group-commit\n" +
			"  holdfast bench queue --yes --no-compare --output json",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return b.run(c.Context()) },
	}
	f := cmd.Flags()
	f.StringVar(&b.account, "account", "", "`ACCOUNT` to work in; not needed where there is one")
	f.IntVar(&b.load.Publishers, "publishers", 16, "`NUMBER` of publishers, each of which waits for an acknowledgement before its next message")
	f.IntVar(&b.load.Workers, "workers", 16, "`NUMBER` of workers, which acknowledge each message")
	f.StringVar(&b.size, "size", "256", "`SIZE` of a message, in bytes or as 4KiB")
	f.DurationVar(&b.load.For, "for", 5*time.Second, "`TIME` to publish, in each phase that does: 100ms to 1m")
	f.StringVar(&b.retention, "retention", "workqueue", "`RETENTION` of the scratch stream: "+strings.Join(retentions(), ", "))
	f.StringVar(&b.space, "space", "256MiB", "`SIZE` that the scratch stream may take; a phase that fills it ends early")
	f.BoolVar(&b.noGroup, "no-group-commit", false, "one fsync for each message, as with group_commit off")
	f.BoolVar(&b.noCompare, "no-compare", false, "don't measure what durability interval would give")
	f.StringVar(&b.compareDir, "compare-dir", "", "where the node for the comparison keeps its data for that time: a `DIR` on the same disk, instead of the data directory")
	f.StringVar(&b.tlsCert, "tlscert", "", "`FILE` with a certificate to show to a node that asks clients for one")
	f.StringVar(&b.tlsKey, "tlskey", "", "`FILE` with the key of that certificate")
	f.BoolVar(&b.yes, "yes", false, "don't ask")
	return cmd
}

// benching is one `holdfast bench queue`.
type benching struct {
	std        stdio
	g          *globals
	isTerminal func(stream any) bool

	load                                        loadtest.Load
	account, size, space, retention, compareDir string
	tlsCert, tlsKey                             string
	noCompare, noGroup, yes                     bool
}

func (b *benching) run(ctx context.Context) error {
	if err := b.check(); err != nil {
		return err
	}
	// From here on something may be there that has to be removed.
	ctx, stop := interruptible(ctx)
	defer stop()
	node, err := b.g.client()
	if err != nil {
		return err
	}
	status, target, err := b.find(ctx, node)
	if err != nil {
		return err
	}
	if err := checkRoom(status.Storage, b.load.Space); err != nil {
		return err
	}
	if err := b.agree(status); err != nil {
		return err
	}
	report, err := b.measure(ctx, node, status, target)
	if report.complete() && b.g.json() {
		printJSON(b.std.out, report)
	} else if report.complete() {
		printBench(b.std.out, report)
	}
	if ctx.Err() != nil && !errors.Is(err, loadtest.ErrLeftOver) {
		return errors.New("stopped before the end; nothing is left behind")
	}
	return err
}

// interruptible ends with the first signal that asks for it, also that of a terminal
// that is closed. Until stop, no signal ends the process.
func interruptible(ctx context.Context) (_ context.Context, stop func()) {
	first, _, stopSignals := service.Signals(ctx)
	hangups, stopHangups := service.Hangups()
	ctx, cancel := context.WithCancel(first)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-hangups:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		cancel()
		<-ended
		stopHangups()
		stopSignals()
	}
}

// check reads the flags.
func (b *benching) check() error {
	l := &b.load
	size, badSize := humanize.ParseBytes(b.size)
	space, badSpace := humanize.ParseBytes(b.space)
	l.WorkQueue = b.retention == "workqueue"
	for _, rule := range []struct {
		broken    bool
		what, fix string
	}{
		{badSize != nil || size < loadtest.MinSize || size > 64<<20, fmt.Sprintf("--size %s is not possible", b.size), fmt.Sprintf("write a size from %d to 64MiB", loadtest.MinSize)},
		{badSpace != nil || space > 1<<40, fmt.Sprintf("--space %s is not possible", b.space), "write a size such as 256MiB"},
		{l.Publishers < 1 || l.Publishers > mostAtOnce, fmt.Sprintf("--publishers %d is not possible", l.Publishers), fmt.Sprintf("write a number from 1 to %d", mostAtOnce)},
		{l.Workers < 1 || l.Workers > mostAtOnce, fmt.Sprintf("--workers %d is not possible", l.Workers), fmt.Sprintf("write a number from 1 to %d", mostAtOnce)},
		{l.For < shortestPhase || l.For > longestPhase, fmt.Sprintf("--for %v is not possible", l.For), "write a time from 100ms to 1m"},
		{!slices.Contains(retentions(), b.retention), fmt.Sprintf("--retention %s is not possible", b.retention), "write one of: " + strings.Join(retentions(), ", ")},
		{(b.tlsCert == "") != (b.tlsKey == ""), "--tlscert and --tlskey go together", "write both, or none"},
		{badSpace == nil && badSize == nil && space < 64*(size+1024), fmt.Sprintf("--space %s is too little for messages of %s", b.space, b.size), "let at least 64 messages and 64KiB fit"},
	} {
		if rule.broken {
			return diag.Fail(diag.CodeUsage, errors.New(rule.what), rule.fix)
		}
	}
	l.Size, l.Space = int(size), int64(space)
	return nil
}

// find asks the node how it is and for a login.
func (b *benching) find(ctx context.Context, node *admin.Client) (admin.Status, loadtest.Target, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	status, err := node.Status(ctx)
	if err != nil {
		return status, loadtest.Target{}, err
	}
	login, err := node.Login(ctx, b.account, "", false)
	if err != nil {
		return status, loadtest.Target{}, err
	}
	b.account = login.Account
	target := targetOf(login)
	if b.tlsCert != "" {
		pair, err := tls.LoadX509KeyPair(b.tlsCert, b.tlsKey)
		if err != nil {
			return status, target, fmt.Errorf("read the certificate to show: %w", err)
		}
		target.Certificate = &pair
	}
	return status, target, nil
}

func targetOf(l admin.Login) loadtest.Target {
	return loadtest.Target{URL: l.LocalURL, Creds: l.Creds, CA: l.CA}
}

// checkRoom refuses what does not fit on the node or its disk.
func checkRoom(s admin.Storage, space int64) error {
	noRoom := func(left int64, where, fix string) error {
		return diag.Fail(diag.CodeNoRoom, fmt.Errorf("the scratch stream needs %s, and %s has %s left", sizeText(space), where, sizeText(max(left, 0))), fix)
	}
	if left := s.Limit - max(s.Reserved, s.Used); s.Limit > 0 && left < space {
		return noRoom(left, "the node", "take less with --space, raise storage.limit, or make byte limits of streams smaller")
	}
	if left := s.VolumeFree - s.VolumeTotal/keptFree; s.VolumeTotal > 0 && left < space {
		return noRoom(left, fmt.Sprintf("the disk (%d %% of it stay free)", 100/keptFree), "take less with --space, or free space on the disk")
	}
	return nil
}

// agree asks before others are slowed down.
func (b *benching) agree(s admin.Status) error {
	switch {
	case b.yes || s.Traffic.Connections == 0:
		return nil
	case b.g.json():
		return diag.Fail(diag.CodeUsage, errors.New("nothing was measured: clients are connected, and with --output json nobody is asked"), "add --yes to slow them down for that time")
	case !b.isTerminal(b.std.in):
		return diag.Fail(diag.CodeUsage, errors.New("nothing was measured: clients are connected, and there is no terminal to ask on"), "add --yes to slow them down for that time")
	}
	phases := time.Duration(4)
	if b.noCompare {
		phases = 3
	}
	fmt.Fprintf(b.std.err, "The node gets all the load it can take for about %v; %s connected to it will notice.\n",
		phases*b.load.For, count(s.Traffic.Connections, "client"))
	agreed, err := ask(b.std.in, b.std.err, "Measure?")
	if err == nil && !agreed {
		err = errors.New("nothing was measured")
	}
	return err
}

// measure puts the load on the node, and on another one to compare with.
func (b *benching) measure(ctx context.Context, node *admin.Client, s admin.Status, target loadtest.Target) (benchReport, error) {
	report := b.newReport(s)
	group := &grouped{node: node, account: b.account, refused: b.noGroup}
	result, err := b.putLoad(ctx, target, b.load, "", group)
	report.add(result)
	report.GroupCommit, report.GroupCommitOff = group.why == "", group.why
	if err != nil {
		return report, err
	}
	return report, b.compare(ctx, s, &report)
}

// observer shows how far a phase is, and in one line that stays what came of it.
func (b *benching) observer(prefix string) loadtest.Observer {
	return func(name string, length time.Duration, messages func() int) func(*loadtest.Phase) {
		if b.g.json() {
			return func(*loadtest.Phase) {}
		}
		name = prefix + name
		p := newProgress(b.std.err, b.isTerminal(b.std.err), func(took time.Duration) string { return phaseText(name, took, length, messages()) })
		return func(ended *loadtest.Phase) {
			p.stop()
			if ended != nil {
				fmt.Fprintln(b.std.err, phaseText(name, ended.Took, 0, ended.Messages))
			}
		}
	}
}

func phaseText(name string, took, length time.Duration, messages int) string {
	text := fmt.Sprintf("%s: %s messages in %.1fs", name, thousands(messages), took.Seconds())
	if length > took {
		text += fmt.Sprintf(" of %v", length)
	}
	if s := took.Seconds(); s > 0 {
		text += fmt.Sprintf(", %s/s", thousands(int(float64(messages)/s)))
	}
	return text
}
