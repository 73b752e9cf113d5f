// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/holdfast-mq/holdfast/appliance"
	"github.com/holdfast-mq/holdfast/appliance/admin"
	"github.com/holdfast-mq/holdfast/appliance/diag"
)

func newVerifyCmd(std stdio, g *globals) *cobra.Command {
	v := verifying{std: std, g: g, isTerminal: isTerminal}
	cmd := &cobra.Command{
		Use:   "verify [ACCOUNT/STREAM…]",
		Short: "Read everything that is stored, and say what is damaged [read-only; changes state with --mend]",
		Long: "Read every block of messages of the running node, or of some of its streams, record by\n" +
			"record, and say which sequences the disk has lost. The node goes on meanwhile; --rate\n" +
			"bounds what is read. A block that is damaged is copied into the quarantine at once, for\n" +
			"the server cuts it off where it is damaged as soon as it reads it.\n\n" +
			"With --mend what is damaged is mended at the end: only the damaged messages go, and all\n" +
			"others are served. All streams of the node are closed for as long as a start takes to\n" +
			"read them, and clients try again by themselves; so it asks first. A restart does the same.\n\n" +
			"Where no node runs on the data directory, its store is read directly, and nothing is\n" +
			"changed without --mend.\n\n" +
			"Exit code 0 when everything is whole, 4 when something is damaged, 1 when not all could\n" +
			"be read.",
		Example: "  holdfast verify\n" +
			"  holdfast verify shop/ORDERS --rate 200MiB\n" +
			"  holdfast verify --mend --yes\n" +
			"  holdfast verify --data-dir /var/lib/holdfast --output json",
		RunE: func(c *cobra.Command, args []string) error { return v.run(c.Context(), args) },
	}
	f := cmd.Flags()
	f.StringVar(&v.rate, "rate", "50MiB", "`SIZE` that is read in a second at most; unlimited for no bound")
	f.BoolVar(&v.mend, "mend", false, "mend what is damaged, after a question")
	f.BoolVar(&v.yes, "yes", false, "don't ask")
	return cmd
}

// verifying is one `holdfast verify`.
type verifying struct {
	std        stdio
	g          *globals
	isTerminal func(stream any) bool
	rate       string
	mend, yes  bool
}

// verifyAnswer is the answer in JSON.
type verifyAnswer struct {
	Node string `json:"node"` // running or stopped
	admin.Verified
	// Mended is what --mend did; absent without it.
	Mended *admin.MendAnswer `json:"mended,omitempty"`
}

func (v *verifying) run(ctx context.Context, streams []string) error {
	rate, err := rateOf(v.rate)
	if err != nil {
		return err
	}
	for _, s := range streams {
		if account, stream, ok := strings.Cut(s, "/"); !ok || account == "" || stream == "" {
			return diag.Fail(diag.CodeUsage, fmt.Errorf("%q is no stream", s), "name it as ACCOUNT/STREAM; `holdfast status` lists them")
		}
	}
	ctx, stop := interruptible(ctx)
	defer stop()
	store, err := v.store(ctx)
	if err != nil {
		return err
	}
	out := verifyAnswer{Node: store.name}
	out.Verified, err = v.follow(ctx, store, admin.VerifyRequest{Streams: streams, Rate: rate})
	if ctx.Err() != nil {
		return errors.New("stopped before the end; what was found by then is in `holdfast status`")
	}
	if err != nil {
		return err
	}
	if !v.g.json() {
		v.print(out)
	}
	if v.mend && len(out.Damage) > 0 {
		if out.Mended, err = v.mendAll(ctx, store, out.Damage); err != nil {
			return err
		}
	}
	if v.g.json() {
		printJSON(v.std.out, out)
	}
	return verifiedCode(out)
}

func verifiedCode(out verifyAnswer) error {
	switch {
	case len(out.Damage) > 0:
		return exitError(exitDamaged)
	case len(out.Problems) > 0 || out.Hidden > 0:
		return exitError(exitFailed)
	}
	return nil
}

func rateOf(text string) (int64, error) {
	if text == "unlimited" {
		return 0, nil
	}
	rate, err := humanize.ParseBytes(strings.TrimSuffix(text, "/s"))
	if err != nil || rate < 1<<10 || rate > 1<<50 {
		return 0, diag.Fail(diag.CodeUsage, fmt.Errorf("--rate %s is not possible", text), "write a size of at least 1KiB, such as 50MiB, or unlimited")
	}
	return int64(rate), nil
}

// store is what is verified: that of a node that runs, or of one that does not.
type store struct {
	name   string
	verify func(context.Context, admin.VerifyRequest, func(admin.VerifyProgress)) (admin.Verified, error)
	mend   func(context.Context, admin.MendRequest) (admin.MendAnswer, error)
}

func (v *verifying) store(ctx context.Context) (store, error) {
	node, err := v.g.client()
	if err != nil {
		return store{}, err
	}
	ask, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	_, err = node.CA(ask) // any answer will do
	dir, dirErr := v.g.nodeDir()
	if diag.CodeOf(err) != diag.CodeNoNode || dirErr != nil || !exists(dir) {
		return store{"running", node.Verify, node.Mend}, err
	}
	return store{
		"stopped",
		func(ctx context.Context, r admin.VerifyRequest, progress func(admin.VerifyProgress)) (admin.Verified, error) {
			return appliance.VerifyStopped(ctx, dir, r, progress)
		},
		func(_ context.Context, r admin.MendRequest) (admin.MendAnswer, error) {
			return appliance.MendStopped(dir, r)
		},
	}, nil
}

// follow has it read, and shows how far it is.
func (v *verifying) follow(ctx context.Context, s store, r admin.VerifyRequest) (admin.Verified, error) {
	show := func(admin.VerifyProgress) {}
	if !v.g.json() {
		var far verifyProgress
		defer newProgress(v.std.err, v.isTerminal(v.std.err), far.text).stop()
		show = far.set
	}
	return s.verify(ctx, r, show)
}

// mendAll mends the streams that something was found in.
func (v *verifying) mendAll(ctx context.Context, s store, found []admin.Damage) (*admin.MendAnswer, error) {
	var streams []string
	for _, d := range found {
		if !slices.Contains(streams, d.Stream) {
			streams = append(streams, d.Stream)
		}
	}
	if !v.yes {
		switch {
		case v.g.json():
			return nil, diag.Fail(diag.CodeUsage, errors.New("nothing was mended: with --output json nobody is asked"), "add --yes")
		case !v.isTerminal(v.std.in):
			return nil, diag.Fail(diag.CodeUsage, errors.New("nothing was mended: there is no terminal to ask on"), "add --yes")
		}
		question := "Mend " + strings.Join(streams, ", ") + "?"
		if s.name == "running" {
			question = "All streams are closed for as long as a start takes to read them; clients try again by themselves.\n" + question
		}
		if yes, err := ask(v.std.in, v.std.err, question); err != nil || !yes {
			return nil, errors.Join(err, errors.New("nothing was mended; a restart of the node does it, too"))
		}
	}
	done, err := s.mend(ctx, admin.MendRequest{Streams: streams})
	if err != nil {
		return nil, err
	}
	if !v.g.json() {
		v.printMended(done, s.name == "running")
	}
	return &done, nil
}

// verifyProgress is how far a pass is.
type verifyProgress struct {
	mu   sync.Mutex
	now  admin.VerifyProgress
	from time.Time // the first news
}

func (p *verifyProgress) set(now admin.VerifyProgress) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.now = now; p.from.IsZero() {
		p.from = time.Now()
	}
}

func (p *verifyProgress) text(took time.Duration) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.now.StreamsTotal == 0 {
		return fmt.Sprintf("reading, %v", took.Round(time.Second))
	}
	text := fmt.Sprintf("%s reading: %s, stream %s of %s", bar(p.now.BytesDone, p.now.BytesTotal), passText(p.now),
		thousands(min(p.now.StreamsDone+1, p.now.StreamsTotal)), thousands(p.now.StreamsTotal))
	if left, ok := timeLeft(p.now, time.Since(p.from)); ok {
		text += ", " + left.Round(time.Second).String() + " left"
	}
	if p.now.Damaged > 0 {
		text += ", " + count(p.now.Damaged, "damage") + " found"
	}
	if p.now.Current != "" {
		text += ", " + p.now.Current
	}
	return text
}

// passText is how much of what there is to read was read. What is stored grows meanwhile.
func passText(p admin.VerifyProgress) string {
	return fmt.Sprintf("%s of %s", sizeText(p.BytesDone), sizeText(max(p.BytesTotal, p.BytesDone)))
}

// timeLeft is how long the rest takes as things go.
func timeLeft(p admin.VerifyProgress, took time.Duration) (time.Duration, bool) {
	if p.BytesDone == 0 || p.BytesDone > p.BytesTotal || took < time.Second {
		return 0, false
	}
	return time.Duration(float64(took) * float64(p.BytesTotal-p.BytesDone) / float64(p.BytesDone)), true
}

const barWidth = 20

func bar(done, total int64) string {
	full := barWidth
	if total > 0 {
		full = int(min(done, total) * barWidth / total)
	}
	return "[" + strings.Repeat("#", full) + strings.Repeat(".", barWidth-full) + "]"
}
