// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"strings"

	"github.com/choria-io/fisk"
	"github.com/spf13/cobra"
)

// completeNATS completes the words of the nats tool, whose commands and flags
// this program knows, and Holdfast's own flags before them.
func completeNATS(std stdio, g *globals) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
		own, rest, err := splitNATSArgs(args)
		if own.config != "" {
			g.config = own.config
		}
		if own.dataDir != "" {
			g.dataDir = own.dataDir
		}
		if err != nil { // a flag of Holdfast's waits for its value
			return g.completeNATSFlag(args[len(args)-1], own.account, prefix)
		}
		app, _, err := newNATSApp(std)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		all, files := natsWords(app.Model(), rest, strings.HasPrefix(prefix, "-"))
		if len(rest) == 0 && strings.HasPrefix(prefix, "-") {
			all = append(all, "--account\taccount to work in", "--user\tuser to be")
		}
		if files {
			return nil, cobra.ShellCompDirectiveDefault
		}
		return beginning(all, prefix), cobra.ShellCompDirectiveNoFileComp
	}
}

func (g *globals) completeNATSFlag(flag, account, prefix string) ([]string, cobra.ShellCompDirective) {
	switch flag {
	case "--account", "--user":
		var names []string
		for _, u := range g.users() {
			in, user, _ := strings.Cut(u, "/")
			switch {
			case flag == "--account" && !slices.Contains(names, in):
				names = append(names, in)
			case flag == "--user" && (account == "" || account == in):
				names = append(names, user)
			}
		}
		return beginning(names, prefix), cobra.ShellCompDirectiveNoFileComp
	case "--data-dir":
		return g.complete("DIR", false, prefix)
	}
	return g.complete("FILE", true, prefix)
}

// natsWords are the commands or flags that can follow some words, with what
// they do; files is true where the tool takes a value of its own.
func natsWords(app *fisk.ApplicationModel, words []string, flag bool) (all []string, files bool) {
	commands, flags := app.CmdGroupModel, slices.Clone(app.Flags)
	for i := 0; i < len(words); i++ {
		if value := waits(flags, words[i]); value != nil {
			if i++; i == len(words) {
				return slices.Clone(value.Completions), len(value.Completions) == 0
			}
			continue
		}
		for _, c := range commands.Commands {
			if c.Name == words[i] || slices.Contains(c.Aliases, words[i]) {
				commands, flags = c.CmdGroupModel, append(flags, c.Flags...)
				break
			}
		}
	}
	if flag {
		for _, f := range flags {
			if !f.Hidden {
				all = append(all, "--"+f.Name+"\t"+f.Help)
			}
		}
		return all, false
	}
	for _, c := range commands.Commands {
		if !c.Hidden {
			all = append(all, c.Name+"\t"+c.Help)
		}
	}
	return all, len(commands.Commands) == 0
}

// waits returns the flag that a word names, if the next word is its value.
func waits(flags []*fisk.FlagModel, word string) *fisk.FlagModel {
	for _, f := range flags {
		if word == "--"+f.Name || f.Short != 0 && word == "-"+string(f.Short) {
			if f.Boolean || f.IsBoolFlag() {
				return nil
			}
			return f
		}
	}
	return nil
}
