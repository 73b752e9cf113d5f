// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-mq/holdfast/appliance/admin"
	"github.com/holdfast-mq/holdfast/appliance/diag"
	"github.com/holdfast-mq/holdfast/bootstrap"
)

// allowTimeout bounds what a completion asks the node: somebody waits at a prompt.
const allowTimeout = 2 * time.Second

func newApplyCmd(std stdio, g *globals) *cobra.Command {
	a := applying{std: std, g: g, isTerminal: isTerminal}
	cmd := &cobra.Command{
		Use:   "apply [FILE]",
		Short: "Make the running node what the configuration says [changes state]",
		Long: "Show the plan of a configuration, ask, and make the running node what it says. FILE and the\n" +
			"node are found as by `holdfast plan`. With --yes nobody is asked; without a terminal it is\n" +
			"needed for every change.\n\n" +
			"What removes stored messages, or makes a stream or consumer anew, is done only for the\n" +
			"streams that --allow-destructive names, and left otherwise. A stale file, which is an\n" +
			"older configuration than the one that was applied last, is refused without --rollback.\n" +
			"An edit that failed is no such one: it can be taken back in the file, unless that would\n" +
			"undo some of it that was done. `holdfast plan --history` shows what was.\n" +
			"When this command is stopped, the node brings what it has begun to its end.\n\n" +
			"Exit code 0 when everything is as in the file, 3 when something is left that needs a flag\n" +
			"or a person: a permission, a restart, what can't be done, a stale file. 1 when something\n" +
			"failed, was not read, or was answered with no. 2 when nobody is there to ask, or a flag\n" +
			"names what the plan does not have. 78 when the file is wrong.",
		Example: "  holdfast apply\n" +
			"  holdfast apply new.yaml\n" +
			"  holdfast apply --yes --allow-destructive shop/ORDERS\n" +
			"  holdfast apply old.yaml --rollback",
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return a.run(c.Context(), args) },
	}
	f := cmd.Flags()
	f.BoolVar(&a.yes, "yes", false, "don't ask")
	f.StringArrayVar(&a.allow, "allow-destructive", nil,
		"let this stream lose messages or be made anew, as the plan says: `ACCOUNT/STREAM`; may be repeated")
	f.BoolVar(&a.rollback, "rollback", false, "go back to a configuration although a newer one was applied")
	// Only a flag that does not exist is refused.
	_ = cmd.RegisterFlagCompletionFunc("allow-destructive", a.completeAllow)
	return cmd
}

// applying is one `holdfast apply`.
type applying struct {
	std        stdio
	g          *globals
	isTerminal func(stream any) bool
	yes        bool
	rollback   bool
	allow      []string
}

func (a *applying) run(ctx context.Context, args []string) error {
	w, err := a.g.wish(a.std, args)
	if err != nil {
		return err
	}
	plan, err := w.plan(ctx)
	if err != nil {
		return err
	}
	if err := a.checkAllowed(plan.Plan); err != nil {
		return err
	}
	own := w.ownFile(ctx, plan.Own)
	if !a.g.json() {
		w.printProblems(a.std, plan.Problems)
		printPlan(a.std.out, plan, own, a.g.applyCommand(args), a.rollback)
	}
	if plan.Stale != nil && !a.rollback {
		a.g.printError(a.std, diag.Fail(diag.CodeStale, errors.New("nothing was applied: a newer configuration was applied since this one"),
			"put the newer file in place; or go back on purpose with `holdfast apply --rollback`"))
		return exitError(exitDiffers)
	}
	if a.rollback && plan.Stale == nil && !a.g.json() {
		fmt.Fprintln(a.std.err, "holdfast: --rollback is not needed: no newer configuration was applied")
	}
	agreed, err := a.agree(plan.Plan)
	if err != nil {
		return err
	}
	done, err := a.follow(ctx, w.node, admin.ApplyRequest{
		PlanRequest: w.request, Digest: plan.Digest, Rollback: a.rollback && plan.Stale != nil,
		Consents: bootstrap.Consents{Confirmed: agreed, Allow: a.allow},
	})
	if err != nil {
		return err
	}
	if a.g.json() {
		printJSON(a.std.out, done)
	} else {
		printApplied(a.std.out, done)
		a.printFailures(done.Report)
		a.printElsewhere(w, own)
	}
	if code := appliedCode(done); code != exitOK {
		return exitError(code)
	}
	return nil
}

// checkAllowed refuses a permission that the plan has no use for, before anything is
// done: a name was mistyped, or it is not what the plan does.
func (a *applying) checkAllowed(p bootstrap.Plan) error {
	uncalled := bootstrap.Consents{Allow: a.allow}.Uncalled(p)
	if len(uncalled) == 0 {
		return nil
	}
	hint := "no stream needs it in this plan: leave it out"
	if names := needAllowance(p); len(names) > 0 {
		hint = "these need it in this plan: " + firstOf(names)
	}
	return diag.Fail(diag.CodeUsage, fmt.Errorf("nothing was applied: --allow-destructive %s: the plan has nothing of that kind for it",
		strings.Join(uncalled, ", ")), hint)
}

// needAllowance names what --allow-destructive is needed for, as it takes it.
func needAllowance(p bootstrap.Plan) []string {
	var names []string
	for _, act := range p.Actions {
		if act.Op.Changes() && act.Consent == bootstrap.Allowed && !slices.Contains(names, act.Allowance()) {
			names = append(names, act.Allowance())
		}
	}
	return names
}

// agree asks whether to do what the plan says. Where nothing would be changed there
// is no question; the node still takes over what is no object, such as a log level.
func (a *applying) agree(p bootstrap.Plan) (bool, error) {
	consents := bootstrap.Consents{Confirmed: true, Allow: a.allow}
	switch {
	case a.yes:
		return true, nil
	case p.Covered(consents) == 0:
		return false, nil
	case a.g.json():
		return false, diag.Fail(diag.CodeUsage, errors.New("nothing was applied: with --output json nobody is asked"), "look at `holdfast plan`, then add --yes")
	case !a.isTerminal(a.std.in):
		return false, diag.Fail(diag.CodeUsage, errors.New("nothing was applied: there is no terminal to ask on"), "look at the plan, then add --yes")
	}
	fmt.Fprint(a.std.err, consequences(p, consents))
	agreed, err := ask(a.std.in, a.std.err, "Apply?")
	if err == nil && !agreed {
		err = errors.New("nothing was applied")
	}
	return agreed, err
}

// follow has the node apply, and shows how far it is.
func (a *applying) follow(ctx context.Context, node *admin.Client, r admin.ApplyRequest) (admin.ApplyAnswer, error) {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	show := func(admin.Progress) {}
	if !a.g.json() {
		var far applyProgress
		defer newProgress(a.std.err, a.isTerminal(a.std.err), far.text).stop()
		show = far.set
	}
	done, err := node.Apply(ctx, r, show)
	switch {
	case err == nil:
		return done, nil
	case ctx.Err() != nil:
		return done, diag.Fail("", errors.New("no longer following: the node brings what it has begun to its end"),
			"`holdfast plan` shows what is left")
	case diag.Hint(err) == "":
		return done, diag.Fail(diag.CodeOf(err), err, "`holdfast plan` shows what is left")
	}
	return done, err
}

// completeAllow completes the names of streams that the plan would need a permission
// for. Without a node there are none: a completion has nobody to complain to.
func (a *applying) completeAllow(c *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	quiet := *a.g
	quiet.output = "json" // no warnings
	w, err := quiet.wish(stdio{in: a.std.in, out: io.Discard, err: io.Discard}, args[:min(len(args), 1)])
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(c.Context(), allowTimeout)
	defer cancel()
	plan, err := w.node.Plan(ctx, w.request)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	names := slices.DeleteFunc(needAllowance(plan.Plan), func(name string) bool {
		return !strings.HasPrefix(name, prefix) || slices.Contains(a.allow, name)
	})
	return names, cobra.ShellCompDirectiveNoFileComp
}
