// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-mq/holdfast/appliance/admin"
	"github.com/holdfast-mq/holdfast/appliance/config"
	"github.com/holdfast-mq/holdfast/appliance/diag"
)

const (
	// planTimeout bounds a plan: the node reads every stream and consumer for it.
	planTimeout = 2 * time.Minute
	// exitDiffers is for what is not as the file says: `plan` found changes, `apply`
	// left something to a person.
	exitDiffers = exitNotReady
)

func newPlanCmd(std stdio, g *globals) *cobra.Command {
	var history bool
	cmd := &cobra.Command{
		Use:   "plan [FILE]",
		Short: "Show what `holdfast apply` would do [read-only]",
		Long: "Compare a configuration with what the running node has, and show what `holdfast apply`\n" +
			"would do: first what needs a decision, last the totals, and who applied what when.\n" +
			"Changes nothing. Without FILE it is the node's own configuration; FILE can be a copy\n" +
			"that is not in place yet. The node is found as for every verb, through --data-dir,\n" +
			"--config or the default places, and through node.data_dir of FILE where none of them is.\n\n" +
			"Exit code 0 when there is nothing to change, 3 when there is, and when the file is stale:\n" +
			"an older configuration than the one that was applied last. 1 when no plan could be made,\n" +
			"and when nothing is to change but not everything could be read. 78 when the file is wrong.\n" +
			"What is blocked, not in the file or needs a restart is shown and is no change.",
		Example: "  holdfast plan\n" +
			"  holdfast plan new.yaml\n" +
			"  holdfast plan --history\n" +
			"  holdfast plan --output json",
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			wish, err := g.wish(std, args)
			if err != nil {
				return err
			}
			answer, err := wish.plan(c.Context())
			if err != nil {
				return err
			}
			if g.json() {
				printJSON(std.out, answer)
			} else {
				wish.printProblems(std, answer.Problems)
				printPlan(std.out, answer, wish.ownFile(c.Context(), answer.Own), g.applyCommand(args), false)
				if flags := allowances(answer.Plan); flags != "" && answer.Stale == nil {
					fmt.Fprintf(std.out, "\nAll of it: `%s%s`\n", g.applyCommand(args), flags)
				}
				if history {
					printHistory(std.out, answer.Revisions)
				}
			}
			return planExit(std, g, answer)
		},
	}
	cmd.Flags().BoolVar(&history, "history", false, "also list the revisions that were applied, the latest last")
	return cmd
}

// applyCommand is the apply with the same words as this verb.
func (g *globals) applyCommand(args []string) string {
	words := []string{"holdfast", "apply"}
	if g.config != "" {
		words = append(words, "--config", g.config)
	}
	if g.dataDir != "" {
		words = append(words, "--data-dir", g.dataDir)
	}
	return strings.Join(append(words, args...), " ")
}

// planExit ends with the code for a plan.
func planExit(std stdio, g *globals, a admin.PlanAnswer) error {
	unread := a.Plan.Count("unknown")
	switch {
	case a.Stale != nil || !a.Plan.Empty():
		return exitError(exitDiffers)
	case unread > 0:
		if !g.json() {
			// Nobody knows whether these are as the file says.
			fmt.Fprintf(std.err, "holdfast: not compared: %s could not be read\nhint: try again; `holdfast status` says more\n", count(unread, "object"))
		}
		return exitError(exitFailed)
	}
	return nil
}

// wish is a configuration to compare a node with.
type wish struct {
	node    *admin.Client
	file    string // as the user named it; "" for the node's own
	request admin.PlanRequest
	known   []admin.Problem // said already
}

// wish finds the configuration and the node that a verb means, and checks the
// configuration here: mistakes are shown with their lines before a node is asked.
func (g *globals) wish(std stdio, args []string) (wish, error) {
	file := g.wishedFile(args)
	w := wish{file: file}
	if file != "" {
		cfg, problems := g.load(file)
		if problems.Err() != nil || len(problems) > 0 && !g.json() {
			printProblems(std, g, cfg, problems)
		}
		if problems.Err() != nil {
			return w, exitError(exitPermanent)
		}
		w.known = admin.Problems(problems)
	}
	err := w.find(g, args)
	return w, err
}

// wishedFile is the file that a verb means; "" for what the node reads by itself.
func (g *globals) wishedFile(args []string) string {
	if len(args) == 1 {
		return args[0]
	}
	return g.nodeFile()
}

// find reads the texts of the file and finds the node.
func (w *wish) find(g *globals, args []string) error {
	if w.file != "" {
		// The node has another working directory.
		abs, err := filepath.Abs(w.file)
		if err != nil {
			return fmt.Errorf("find %s: %w", w.file, err)
		}
		texts, problems := config.ReadTexts(abs)
		if err := problems.Err(); err != nil {
			return diag.FailPermanently(problems[0].Code, err, problems[0].Fix)
		}
		w.request = admin.PlanRequest{File: abs, Texts: texts}
	}
	named := g.dataDir != "" || g.nodeFile() != "" || exists(starterDir)
	if len(args) == 1 && !named {
		g = &globals{config: args[0]}
	}
	var err error
	w.node, err = g.client()
	return err
}

func (w *wish) plan(ctx context.Context) (admin.PlanAnswer, error) {
	ctx, cancel := context.WithTimeout(ctx, planTimeout)
	defer cancel()
	return w.node.Plan(ctx, w.request)
}

// printProblems shows what the node found in the configuration and was not found
// here: its environment and its disk are others.
func (w *wish) printProblems(std stdio, found []admin.Problem) {
	same := func(a, b admin.Problem) bool { return a.Code == b.Code && a.What == b.What }
	printStanding(std.err, slices.DeleteFunc(slices.Clone(found), func(p admin.Problem) bool {
		return slices.ContainsFunc(w.known, func(k admin.Problem) bool { return same(p, k) })
	}))
}

// ownFile is the file that the node reads at its next start, where that is another
// one than the configuration's; "" when it is the same.
func (w *wish) ownFile(ctx context.Context, own bool) string {
	if own {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	s, err := w.node.Status(ctx)
	switch {
	case err != nil:
		return unknownFile // what was asked for has its answer without it
	case len(s.Node.ConfigFiles) == 0:
		return builtIn
	}
	return s.Node.ConfigFiles[0]
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return thousands(n) + " " + what + "s"
}
