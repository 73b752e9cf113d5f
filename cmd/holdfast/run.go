// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-mq/holdfast/appliance"
	"github.com/holdfast-mq/holdfast/appliance/config"
	"github.com/holdfast-mq/holdfast/appliance/diag"
	"github.com/holdfast-mq/holdfast/appliance/service"
)

func newRunCmd(std stdio, g *globals) *cobra.Command {
	var unsafe, scm bool
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run a node in the foreground [changes state]",
		Long: "Run a node in the foreground until SIGTERM or SIGINT. The first signal sends clients\n" +
			"away and stops; a second one stops at once. Without a file it runs the built-in\n" +
			"starter, with its data in ./" + starterDir + ".",
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if scm {
				return runService(std, g)
			}
			drain, now, stop := service.Signals(context.Background())
			defer stop()
			return runNode(std, g, unsafe, surroundings{drain, now, service.NewNotifier(), service.NewLogger})
		},
	}
	addServiceFlag(cmd, &scm)
	cmd.Flags().BoolVar(&unsafe, "allow-unsafe-storage", false,
		"accept a data directory that may lose messages: a temporary directory, a tmpfs, a network file system")
	return cmd
}

// surroundings are what a node is told by, and tells, whoever started it.
type surroundings struct {
	drain, now context.Context
	notify     service.Notifier
	newLogger  func(w io.Writer, level, format string) *slog.Logger
}

func runNode(std stdio, g *globals, unsafe bool, at surroundings) error {
	drain, now, notify := at.drain, at.now, at.notify
	file := g.configFile()
	cfg, problems := g.load(file)
	if err := problems.Err(); err != nil {
		notify.Status("configuration not valid: " + firstError(problems))
		printProblems(std, g, cfg, problems)
		return exitError(exitPermanent)
	}
	var node *appliance.Appliance
	o := appliance.Options{
		Config:   cfg,
		Warnings: problems,
		Version:  version,
		Commit:   commit(),
		// The starter is for trying things out, and is welcome anywhere; its
		// directory still gets its warning.
		AllowUnsafe: unsafe || file == "" && g.dataDir == "",
		Log:         at.newLogger(std.err, cfg.Log.Level, cfg.Log.Format),
		Notify:      notify,
		Load:        func(texts []config.Text) (*config.Config, diag.List) { return g.loadTexts(file, texts) },
		Step:        std.step,
		DriftEvery:  std.driftEvery,
	}
	if file != "" {
		o.Watched = func() []string { return config.Files(file) }
	} else {
		o.OnReady = func() { welcome(std.out, node) }
	}
	err := appliance.Join(drain, o)
	if err == nil && drain.Err() == nil { // it may be asked to stop while it waits for the others
		err = runOpened(drain, now, o, &node)
	}
	if err != nil {
		// The last that `systemctl status` shows, after the end of the process too.
		notify.Status(strings.TrimSuffix("failed: "+err.Error()+"; "+diag.Hint(err), "; "))
	}
	return err
}

// runOpened opens the node and runs it, anew as long as it asks for that.
func runOpened(drain, now context.Context, o appliance.Options, node **appliance.Appliance) error {
	for drain.Err() == nil { // it may be asked to stop while it is opened anew
		var err error
		if *node, err = appliance.Open(o); err != nil {
			return err
		}
		err = (*node).Run(drain, now)
		again, anew := errors.AsType[*appliance.Again](err)
		if !anew {
			return err
		}
		o = openedAnew(o, again)
	}
	return nil
}

// openedAnew are the options with which a node goes on in the same process: its file may
// have been reloaded since.
func openedAnew(o appliance.Options, again *appliance.Again) appliance.Options {
	o.Again = again
	if cfg, problems := o.Load(nil); problems.Err() == nil {
		o.Config, o.Warnings = cfg, problems
	}
	return o
}

// firstError is the first error of a list in one line, and how many more there are.
func firstError(l diag.List) string {
	for _, p := range l {
		if p.Severity != diag.Error {
			continue
		}
		if more := l.Errors() - 1; more > 0 {
			return fmt.Sprintf("%s (and %d more)", p, more)
		}
		return p.String()
	}
	return ""
}

// welcome tells somebody who tries Holdfast out where to go from here.
func welcome(w io.Writer, node *appliance.Appliance) {
	me := ownName()
	at := node.Addresses()
	fmt.Fprintf(w, "\nHoldfast is ready. Data is in %s.\n\n", node.DataDir())
	fmt.Fprintf(w, "  clients      nats://%s\n", at["client"])
	fmt.Fprintf(w, "  credentials  %s\n", relative(node.CredsFile("main", "admin")))
	if http := at["http"]; http != "" {
		fmt.Fprintf(w, "  readiness    http://%s/readyz\n", http)
	}
	fmt.Fprintf(w, "\nTry, in another terminal:\n\n")
	fmt.Fprintf(w, "  %s nats pub --jetstream jobs.hello \"first job\"\n", me)
	fmt.Fprintf(w, "  %s nats consumer next JOBS worker\n", me)
	fmt.Fprintf(w, "  %s status\n", me)
	fmt.Fprintf(w, "\nStop with Ctrl-C. Next, a file of your own: %s init holdfast.yaml\n\n", me)
}

// ownName is how the user called this program, so that commands can be pasted.
func ownName() string {
	name := os.Args[0]
	if !strings.ContainsRune(name, filepath.Separator) {
		return name
	}
	return relative(name)
}

// relative shortens a path below the current directory.
func relative(path string) string {
	cwd, err := os.Getwd()
	if err != nil {
		return path
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return path
	}
	rel, err := filepath.Rel(cwd, abs)
	if err != nil || strings.HasPrefix(rel, "..") {
		return path
	}
	if !strings.ContainsRune(rel, filepath.Separator) {
		return "." + string(filepath.Separator) + rel
	}
	return rel
}

// printProblems shows what checking a configuration found, on stderr.
func printProblems(std stdio, g *globals, cfg *config.Config, l diag.List) {
	if g.json() {
		printJSON(std.err, problemsJSON(l))
		return
	}
	diag.Print(std.err, l, cfg.Source)
	fmt.Fprintf(std.err, "\n%s\n", summary(l))
}

func summary(l diag.List) string {
	count := func(n int, what string) string {
		if n == 1 {
			return "1 " + what
		}
		return fmt.Sprintf("%d %ss", n, what)
	}
	parts := []string{count(l.Errors(), "error"), count(len(l)-l.Errors(), "warning")}
	parts = slices.DeleteFunc(parts, func(s string) bool { return strings.HasPrefix(s, "0 ") })
	return "holdfast: " + strings.Join(parts, ", ")
}
