// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/holdfast-mq/holdfast/appliance/config"
	"github.com/holdfast-mq/holdfast/appliance/diag"
	"github.com/holdfast-mq/holdfast/appliance/howto"
	"github.com/holdfast-mq/holdfast/appliance/service"
	"github.com/holdfast-mq/holdfast/appliance/tune"
)

func newTuneCmd(std stdio, g *globals) *cobra.Command {
	t := tuning{std: std, g: g, isTerminal: isTerminal}
	cmd := &cobra.Command{
		Use:   "tune [SETTING…]",
		Short: "Show, set and put back settings of the disk [changes state, with --apply, --undo or --measure]",
		Long: "Show the settings of this machine that matter to the disk of the data directory: what they\n" +
			"are, what they should be, why, and what was measured. Changes nothing without a flag.\n" +
			"Only what was measured to help or protects from something is in it; docs/tuning.md has the\n" +
			"figures, also of what makes no difference.\n\n" +
			"What is best for the scheduler and the read-ahead depends on the disk: --measure compares\n" +
			"what they are with what they could be, by turns, while it writes and reads beside the\n" +
			"messages, for some minutes. What is better, and worse in nothing, is then to be changed.\n\n" +
			"--apply sets, as root, after it has kept what stood there before; --undo puts that\n" +
			"back, where nobody has changed it since. They are lost with a restart of the machine;\n" +
			"with --at-boot they are set again at each boot. Mount options are for a person to change,\n" +
			"and the line is shown.\n\n" +
			"Exit code 0 when there is nothing to set, 3 when there is, and when something was not put\n" +
			"back because somebody else has changed it.",
		Example: "  holdfast tune\n" +
			"  sudo holdfast tune --measure\n" +
			"  sudo holdfast tune --apply --at-boot\n" +
			"  sudo holdfast tune scheduler --undo",
		RunE: func(c *cobra.Command, names []string) error { return t.run(c.Context(), names) },
	}
	for _, about := range tune.List() {
		cmd.ValidArgs = append(cmd.ValidArgs, about.Name+"\t"+about.Title)
	}
	f := cmd.Flags()
	f.BoolVar(&t.apply, "apply", false, "set what is to be changed")
	f.BoolVar(&t.undo, "undo", false, "put back what stood there before")
	f.BoolVar(&t.measure, "measure", false, "compare settings with what they could be, by turns")
	f.BoolVar(&t.atBoot, "at-boot", false, "with --apply: and again at each boot")
	f.BoolVar(&t.yes, "yes", false, "don't ask")
	f.BoolVar(&t.list, "list", false, "list the settings and do nothing")
	f.IntVar(&t.pairs, "pairs", 12, "with --measure: how often each is measured; 8 to 1000")
	f.DurationVar(&t.each, "for", time.Second, "with --measure: `TIME` of each half of a pair, 100ms to 1m")
	f.StringVar(&t.space, "space", "256MiB", "with --measure: `SIZE` that may be written at once")
	f.BoolVar(&t.boot, "boot", false, "set what was chosen with --at-boot")
	_ = f.MarkHidden("boot") // the unit's; only a flag that does not exist is refused
	return cmd
}

// tuning is one `holdfast tune`.
type tuning struct {
	std                                     stdio
	g                                       *globals
	isTerminal                              func(stream any) bool
	apply, undo, measure, atBoot, yes, list bool
	boot                                    bool
	pairs                                   int
	each                                    time.Duration
	space                                   string
}

func (t *tuning) run(ctx context.Context, names []string) error {
	if err := t.check(); err != nil {
		return err
	}
	switch {
	case t.list:
		return t.printList()
	case t.boot:
		return t.again()
	}
	if (t.apply || t.undo || t.measure) && os.Geteuid() > 0 { // there is no such number on Windows
		return diag.Fail(diag.CodeNeedsRoot, errors.New("tune: only root may"), asRoot(t.words(names)))
	}
	in, err := t.input()
	if err != nil {
		return err
	}
	report, err := tune.Look(in, names)
	if err != nil {
		return err
	}
	switch {
	case report.Nothing != "":
		return t.print(report, func() { fmt.Fprintln(t.std.out, report.Nothing) })
	case t.measure:
		return t.measured(ctx, in, names)
	case t.undo:
		return t.putBack(ctx, in, names, report)
	case t.apply:
		return t.set(ctx, in, report)
	}
	if err := t.print(report, func() { printTune(t.std.out, report, asRoot(t.words(names, "--apply"))) }); err != nil {
		return err
	}
	if len(report.Changes()) > 0 {
		return exitError(exitDiffers)
	}
	return nil
}

func (t *tuning) check() error {
	wrong := func(what, fix string) error { return diag.Fail(diag.CodeUsage, errors.New(what), fix) }
	verbs := 0
	for _, v := range []bool{t.apply, t.undo, t.measure, t.boot, t.list} {
		if v {
			verbs++
		}
	}
	switch {
	case verbs > 1:
		return wrong("--apply, --undo, --measure and --list are each for themselves", "write one of them")
	case t.atBoot && !t.apply:
		return wrong("--at-boot is for --apply", "holdfast tune --apply --at-boot; --undo ends it")
	case t.pairs < tune.EnoughPairs || t.pairs > 1000:
		return wrong(fmt.Sprintf("--pairs %d is not possible", t.pairs), "write a number from 8, which is the least that says something, to 1000")
	case t.each < shortestPhase || t.each > longestPhase:
		return wrong(fmt.Sprintf("--for %v is not possible", t.each), "write a time from 100ms to 1m")
	}
	if n, err := humanize.ParseBytes(t.space); err != nil || n < 16<<20 || n > 1<<40 {
		return wrong(fmt.Sprintf("--space %s is not possible", t.space), "write a size of at least 16MiB")
	}
	return nil
}

// input is the node whose disk is meant.
func (t *tuning) input() (tune.Input, error) {
	if t.undo { // which is about what was done, whatever the configuration says now
		dir, _, err := tune.Recorded(tune.Input{})
		return tune.Input{Dir: cmp.Or(dir, config.PackagedDataDir())}, err
	}
	dir, err := t.g.nodeDir()
	if err != nil {
		return tune.Input{}, err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return tune.Input{}, fmt.Errorf("find the data directory: %w", err)
	}
	return tune.Input{Dir: dir}, nil
}

// asRoot is a command that needs root.
func asRoot(command string) string {
	if os.Geteuid() == 0 {
		return command
	}
	return howto.Here().AsRoot(command)
}

// words are the command for the same node and settings, with more.
func (t *tuning) words(names []string, more ...string) string {
	words := []string{"holdfast", "tune"}
	if t.g.config != "" {
		words = append(words, "--config", t.g.config)
	}
	if t.g.dataDir != "" {
		words = append(words, "--data-dir", t.g.dataDir)
	}
	for flag, set := range map[string]bool{"--apply": t.apply, "--undo": t.undo, "--measure": t.measure} {
		if set {
			words = append(words, flag)
		}
	}
	if t.atBoot {
		words = append(words, "--at-boot")
	}
	return strings.Join(slices.Concat(words, names, more), " ")
}

func (t *tuning) print(v any, text func()) error {
	if t.g.json() {
		printJSON(t.std.out, v)
	} else {
		text()
	}
	return nil
}

func (t *tuning) printList() error {
	return t.print(tune.List(), func() { printAbouts(t.std.out, tune.List()) })
}

// agree asks, where somebody is there to be asked.
func (t *tuning) agree(question string) error {
	switch {
	case t.yes:
		return nil
	case t.g.json():
		return diag.Fail(diag.CodeUsage, errors.New("nothing was changed: with --output json nobody is asked"), "look at `holdfast tune`, then add --yes")
	case !t.isTerminal(t.std.in):
		return diag.Fail(diag.CodeUsage, errors.New("nothing was changed: there is no terminal to ask on"), "look at `holdfast tune`, then add --yes")
	}
	agreed, err := ask(t.std.in, t.std.err, question)
	if err == nil && !agreed {
		err = errors.New("nothing was changed")
	}
	return err
}

// set is --apply.
func (t *tuning) set(ctx context.Context, in tune.Input, r tune.Report) error {
	if !t.g.json() {
		printTune(t.std.out, r, "")
		fmt.Fprintln(t.std.out)
	}
	set := slices.ContainsFunc(r.Settings, func(s tune.Setting) bool { return s.State == tune.Set })
	if len(r.Changes()) > 0 || t.atBoot && set {
		question := fmt.Sprintf("Set %s?", count(len(r.Changes()), "setting"))
		if t.atBoot {
			question = fmt.Sprintf("Set %s, now and at each boot?", count(len(r.Changes()), "setting"))
		}
		if err := t.agree(question); err != nil {
			return err
		}
	}
	out, err := tune.Apply(in, r, t.atBoot)
	var notes []string
	if err == nil && t.atBoot && len(out.AtBoot) > 0 {
		notes, err = atBoot(ctx, true)
	}
	return t.told(out, notes, err)
}

// putBack is --undo.
func (t *tuning) putBack(ctx context.Context, in tune.Input, names []string, r tune.Report) error {
	ours := slices.DeleteFunc(slices.Clone(r.Settings), func(s tune.Setting) bool { return s.State != tune.Set })
	if len(ours) > 0 {
		if !t.g.json() {
			for _, s := range ours {
				fmt.Fprintf(t.std.out, "%s: %s, and %s\n", settingName(s.Name, s.Target), s.Now, s.Note)
			}
		}
		if err := t.agree(fmt.Sprintf("Put %s back?", count(len(ours), "setting"))); err != nil {
			return err
		}
	}
	out, err := tune.Undo(in, names)
	var notes []string
	if err == nil && len(out.AtBoot) == 0 {
		notes, err = atBoot(ctx, false)
	}
	return t.told(out, notes, err)
}

// again is for the unit: what was chosen once is set at each boot.
func (t *tuning) again() error {
	dir, names, err := tune.Recorded(tune.Input{})
	if err != nil {
		return err
	}
	if len(names) == 0 {
		return t.print(tune.Outcome{}, func() { fmt.Fprintln(t.std.out, "nothing is set at boot") })
	}
	in := tune.Input{Dir: dir}
	r, err := tune.Look(in, names)
	if err != nil {
		return err
	}
	out, err := tune.Apply(in, r, false)
	return t.told(out, nil, err)
}

// told says what was done, also when it ended with an error.
func (t *tuning) told(out tune.Outcome, notes []string, err error) error {
	if t.g.json() {
		if err == nil {
			printJSON(t.std.out, out)
		}
	} else {
		printTuned(t.std.out, out, notes, err == nil)
	}
	if err == nil && out.Left() {
		return exitError(exitDiffers)
	}
	return err
}

func (t *tuning) measured(ctx context.Context, in tune.Input, names []string) error {
	space, err := humanize.ParseBytes(t.space)
	if err != nil {
		return fmt.Errorf("read --space: %w", err)
	}
	ctx, stop := interruptible(ctx)
	defer stop()
	step := make(chan string, 1)
	now := "starting"
	p := newProgress(t.std.err, t.isTerminal(t.std.err), func(took time.Duration) string {
		select {
		case now = <-step:
		default:
		}
		return fmt.Sprintf("measuring: %s, %s", now, took.Round(time.Second))
	})
	got, err := tune.Measure(ctx, in, names, tune.Plan{Pairs: t.pairs, Each: t.each, Space: int64(space), Step: func(what string) {
		select {
		case <-step: // nobody has read the one before
		default:
		}
		step <- what
	}})
	p.stop()
	if ctx.Err() != nil {
		return errors.New("stopped before the end; every setting is as it was")
	}
	if err != nil {
		return err
	}
	return t.print(got, func() { printMeasured(t.std.out, got, t.pairs, t.each) })
}

// atBoot enables or disables the unit.
func atBoot(ctx context.Context, on bool) ([]string, error) {
	binary, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	return service.TuneAtBoot(ctx, binary, on)
}
