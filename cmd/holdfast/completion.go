// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// completeTimeout bounds what a completion asks a node: somebody waits at a
// prompt.
const completeTimeout = time.Second

func shells() []string { return []string{"bash", "zsh", "fish", "powershell"} }

func newCompletionCmd(std stdio) *cobra.Command {
	var plain bool
	cmd := &cobra.Command{
		Use:   "completion SHELL",
		Short: "Print a completion script for bash, zsh, fish or PowerShell [read-only]",
		Long: "Print the script that lets a shell complete verbs, flags, files and, while a node runs,\n" +
			"its users. The one for bash needs the package bash-completion.",
		Example: "  source <(holdfast completion bash)\n" +
			"  holdfast completion bash > /usr/share/bash-completion/completions/holdfast\n" +
			"  holdfast completion zsh > \"${fpath[1]}/_holdfast\"\n" +
			"  holdfast completion fish > ~/.config/fish/completions/holdfast.fish\n" +
			"  holdfast completion powershell | Out-String | Invoke-Expression",
		Args:      cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
		ValidArgs: shells(),
		RunE: func(c *cobra.Command, args []string) error {
			return writeCompletion(std, c.Root(), args[0], !plain)
		},
	}
	cmd.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp)
	cmd.Flags().BoolVar(&plain, "no-descriptions", false, "leave out what verbs and flags do")
	return cmd
}

func writeCompletion(std stdio, root *cobra.Command, shell string, descriptions bool) error {
	switch {
	case shell == "bash":
		return root.GenBashCompletionV2(std.out, descriptions)
	case shell == "fish":
		return root.GenFishCompletion(std.out, descriptions)
	case shell == "zsh" && descriptions:
		return root.GenZshCompletion(std.out)
	case shell == "zsh":
		return root.GenZshCompletionNoDesc(std.out)
	case descriptions:
		return root.GenPowerShellCompletionWithDesc(std.out)
	}
	return root.GenPowerShellCompletion(std.out)
}

// addCompletions gives every verb the completions of its arguments and flags.
// It goes by what they are called in the help, so that a new verb has its own
// without a line here.
func addCompletions(cmd *cobra.Command, g *globals) {
	_, arguments, _ := strings.Cut(cmd.Use, " ")
	if words := placeholders(arguments); cmd.ValidArgsFunction == nil && cmd.ValidArgs == nil {
		cmd.ValidArgsFunction = func(_ *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
			if len(args) >= len(words) {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			// The file of a verb is a configuration; that of creds backup is not.
			return g.complete(words[len(args)], cmd.Parent() == cmd.Root(), prefix)
		}
	}
	local := func(f *pflag.Flag) {
		word, _ := pflag.UnquoteUsage(f)
		// Refused for a flag whose verb completes it by itself, as it should be.
		_ = cmd.RegisterFlagCompletionFunc(f.Name, func(_ *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
			return g.complete(word, f.Name == "config", prefix)
		})
	}
	cmd.LocalNonPersistentFlags().VisitAll(local)
	cmd.PersistentFlags().VisitAll(local)
	for _, c := range cmd.Commands() {
		addCompletions(c, g)
	}
}

// placeholders are the words for arguments in a line of use: [FILE] is FILE.
func placeholders(arguments string) []string {
	return strings.Fields(strings.NewReplacer("[", "", "]", "", "…", "", "...", "").Replace(arguments))
}

// complete returns what can stand for a placeholder, and begins with prefix.
func (g *globals) complete(word string, configuration bool, prefix string) ([]string, cobra.ShellCompDirective) {
	var all []string
	switch word {
	case "FILE":
		if configuration {
			return []string{"yaml", "yml"}, cobra.ShellCompDirectiveFilterFileExt
		}
		return nil, cobra.ShellCompDirectiveDefault
	case "DIR":
		return nil, cobra.ShellCompDirectiveFilterDirs
	case "FORMAT":
		all = []string{"text\tfor people", "json\tfor machines"}
	case "SHELL":
		all = shells()
	case "LANGUAGE":
		all = snippetLanguages()
	case "ACCOUNT/USER":
		all = g.users()
	case "ACCOUNT":
		all = g.accounts()
	case "RETENTION":
		all = retentions()
	}
	return beginning(all, prefix), cobra.ShellCompDirectiveNoFileComp
}

// beginning keeps what begins with a prefix.
func beginning(all []string, prefix string) []string {
	return slices.DeleteFunc(all, func(s string) bool { return !strings.HasPrefix(s, prefix) })
}

// users asks the running node for its users. Without one there are none: a
// completion has nobody to complain to.
func (g *globals) users() []string {
	ctx, cancel := context.WithTimeout(context.Background(), completeTimeout)
	defer cancel()
	node, err := g.client()
	if err != nil {
		return nil
	}
	users, err := node.Users(ctx)
	if err != nil {
		return nil
	}
	var all []string
	for _, u := range users {
		all = append(all, u.Account+"/"+u.User+"\t"+u.Role+", "+u.State)
	}
	return all
}

// accounts asks the running node for its accounts.
func (g *globals) accounts() []string {
	ctx, cancel := context.WithTimeout(context.Background(), completeTimeout)
	defer cancel()
	node, err := g.client()
	if err != nil {
		return nil
	}
	s, err := node.Status(ctx)
	if err != nil {
		return nil
	}
	var all []string
	for _, a := range s.Accounts {
		all = append(all, a.Name)
	}
	return all
}
