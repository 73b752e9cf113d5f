// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/holdfast-mq/holdfast/appliance/admin"
	"github.com/holdfast-mq/holdfast/appliance/config"
	"github.com/holdfast-mq/holdfast/appliance/diag"
)

func newCheckCmd(std stdio, g *globals) *cobra.Command {
	return &cobra.Command{
		Use:   "check [FILE]",
		Short: "Check a configuration and show every problem [read-only]",
		Long: "Check a configuration file, its overlays and the environment, and show every\n" +
			"problem at once. Writes nothing and opens no socket. Exit code 78 when the\n" +
			"configuration can't be run; warnings alone are 0.",
		Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			file := g.configFile()
			if len(args) == 1 {
				file = args[0]
			}
			if file == "" && exists(config.PackagedFile()) {
				file = config.PackagedFile()
			}
			if file == "" {
				fmt.Fprintln(std.err, "holdfast: no file to check\nhint: name one: holdfast check FILE")
				return exitError(exitUsage)
			}
			return check(std, g, file)
		},
	}
}

func check(std stdio, g *globals, file string) error {
	cfg, l := g.load(file)
	if g.json() {
		printJSON(std.out, map[string]any{"file": file, "ok": l.Err() == nil, "problems": problemsJSON(l)})
	} else if len(l) > 0 {
		printProblems(std, g, cfg, l)
	}
	if l.Err() != nil {
		return exitError(exitPermanent)
	}
	if !g.json() {
		fmt.Fprintf(std.out, "%s: ok: %s\n", file, contents(cfg))
	}
	return nil
}

// problemsJSON is how problems look to machines; never null.
func problemsJSON(l diag.List) []admin.Problem { return admin.Problems(l) }

func contents(cfg *config.Config) string {
	var streams, consumers, users int
	for _, a := range cfg.Accounts {
		streams += len(a.Streams)
		users += len(a.Users)
		for _, s := range a.Streams {
			consumers += len(s.Consumers)
		}
	}
	return fmt.Sprintf("accounts %d, users %d, streams %d, consumers %d", len(cfg.Accounts), users, streams, consumers)
}
