// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/holdfast-mq/holdfast/appliance"
	"github.com/holdfast-mq/holdfast/appliance/diag"
	"github.com/holdfast-mq/holdfast/appliance/disk"
)

func newBenchDiskCmd(std stdio, g *globals) *cobra.Command {
	b := diskBenching{std: std, g: g}
	cmd := &cobra.Command{
		Use:   "disk",
		Short: "Measure the disk that messages are kept on, and say what it can do [changes state, for the time of the run]",
		Long: "Measure the disk that the data directory is on: how long a flush takes, one after the\n" +
			"other and several at once, and how fast large writes go. Says how many durable messages a\n" +
			"second that makes, and whether there is a reason not to believe the disk that what it was\n" +
			"told to flush survives a power cut. No node has to run; one that does is slower meanwhile.\n\n" +
			"What was measured is kept in the data directory for later (disk.json).\n\n" +
			"Exit code 1 when the disk can't keep what it was told to flush.",
		Example: "  holdfast bench disk\n" +
			"  holdfast bench disk --dir /mnt/new-disk",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return b.run(c.Context()) },
	}
	f := cmd.Flags()
	f.StringVar(&b.dir, "dir", "", "measure the disk of this `DIR` instead of the data directory's; nothing is kept then")
	f.DurationVar(&b.each, "for", 2*time.Second, "`TIME` of each step: 100ms to 1m")
	f.StringVar(&b.space, "space", "256MiB", "`SIZE` that may be written at once")
	return cmd
}

type diskBenching struct {
	std        stdio
	g          *globals
	dir, space string
	each       time.Duration
}

func (b *diskBenching) run(ctx context.Context) error {
	space, err := humanize.ParseBytes(b.space)
	if err != nil || space < 8<<20 || space > 1<<40 {
		return diag.Fail(diag.CodeUsage, fmt.Errorf("--space %s is not possible", b.space), "write a size of at least 8MiB")
	}
	if b.each < shortestPhase || b.each > longestPhase {
		return diag.Fail(diag.CodeUsage, fmt.Errorf("--for %v is not possible", b.each), "write a time from 100ms to 1m")
	}
	dir, keep := b.dir, false
	if dir == "" {
		keep = true
		if dir, err = b.g.nodeDir(); err != nil {
			return err
		}
	}
	ctx, stop := interruptible(ctx)
	defer stop()
	m, err := b.measure(ctx, dir, int64(space), keep)
	switch {
	case ctx.Err() != nil:
		return errors.New("stopped before the end; nothing is left behind")
	case err != nil:
		return err
	case b.g.json():
		printJSON(b.std.out, m)
	default:
		printDisk(b.std.out, m)
	}
	if m.Trust.Opinion == disk.Broken {
		return exitError(exitFailed)
	}
	return nil
}

func (b *diskBenching) measure(ctx context.Context, dir string, space int64, keep bool) (disk.Measurement, error) {
	step := make(chan string, 1)
	now := "starting"
	p := newProgress(b.std.err, isTerminal(b.std.err), func(took time.Duration) string {
		select {
		case now = <-step:
		default:
		}
		return fmt.Sprintf("measuring %s, %s", now, took.Round(time.Second))
	})
	defer p.stop()
	return appliance.MeasureDisk(ctx, disk.Plan{
		Dir: dir, For: b.each, Space: space, AtOnce: []int{2, 4, 16},
		Step: func(what string) {
			select {
			case <-step: // nobody has read the one before
			default:
			}
			step <- what
		},
	}, keep)
}

func printDisk(w io.Writer, m disk.Measurement) {
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		fmt.Fprintf(t, "%s\t"+format+"\n", append([]any{name}, args...)...)
	}
	row("Disk", "%s, %s%s", m.Dir, m.FileSystem, deviceText(m.Device))
	row("Flush", "%s (p50), %s (p99), %s (max), of %s", inWords(m.Flush.P50), inWords(m.Flush.P99), inWords(m.Flush.Max), humanize.Comma(int64(m.Flush.Count)))
	for _, n := range m.AtOnce {
		row("", "%d files at once: %s flushes/s, %s each (p50)", n.Files, humanize.Comma(int64(n.Flushes)), inWords(n.P50))
	}
	row("Large writes", "%s/s", humanize.IBytes(uint64(m.Sequential)))
	one, many := disk.Durable(time.Duration(m.Flush.P50 * float64(time.Second)))
	row("Messages", "about %s durable messages/s with one publisher, %s with 64 (group commit); `holdfast bench queue` measures it", rounded(one), rounded(many))
	row("Believable", "%s: %s", m.Trust.Opinion, m.Trust.Why)
	t.Flush()
	switch m.Trust.Opinion {
	case disk.Broken:
		fmt.Fprintln(w, "\nMessages that were acknowledged can be lost with a power cut here. Mount the file system without nobarrier, and give the node a disk that is told to flush.")
	case disk.Suspicious:
		fmt.Fprintln(w, "\nAsk who made the disk for power-loss protection; without it, switch its cache off (hdparm -W 0, nvme set-feature -f 6 -v 0) and measure again.")
	}
}

func deviceText(d disk.Device) string {
	if d.Name == "" {
		return ""
	}
	text := " on " + d.Name
	for _, more := range []string{d.Model, d.WriteCache} {
		if more != "" {
			text += ", " + more
		}
	}
	return text
}

// inWords is a measured time.
func inWords(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	switch {
	case d < time.Millisecond:
		return fmt.Sprintf("%d µs", d.Microseconds())
	case d < time.Second:
		if d >= 100*time.Millisecond {
			return fmt.Sprintf("%d ms", d.Milliseconds())
		}
		return fmt.Sprintf("%.2g ms", float64(d.Microseconds())/1000)
	}
	return fmt.Sprintf("%.2g s", d.Seconds())
}

// rounded is an estimate, with two digits.
func rounded(n float64) string {
	digits := 1
	for n >= 100 {
		n /= 10
		digits *= 10
	}
	return humanize.Comma(int64(n+0.5) * int64(digits))
}
