// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/holdfast-mq/holdfast/appliance"
	"github.com/holdfast-mq/holdfast/appliance/config"
	"github.com/holdfast-mq/holdfast/appliance/diag"
	"github.com/holdfast-mq/holdfast/appliance/howto"
	"github.com/holdfast-mq/holdfast/appliance/service"
)

// mostToken bounds what is read for a token.
const mostToken = 64 << 10

func newClusterJoinCmd(std stdio, g *globals) *cobra.Command {
	var tokenFile string
	var yes bool
	cmd := &cobra.Command{
		Use:   "join",
		Short: "Make this machine a node of the cluster that a token is of [changes state]",
		Long: "Make this machine a node of a cluster, with the token that `holdfast cluster invite` printed\n" +
			"on a node of it: on stdin, or in the file of --token-file. The secret and the configuration\n" +
			"are fetched from that node, shown, and written after a yes; --yes answers. The node joins at\n" +
			"its next start. A machine with an identity or messages of its own is not changed. Cut off\n" +
			"anywhere it can be run again with the same token.",
		Example: "  sudo holdfast cluster join\n" +
			"  sudo holdfast cluster join --yes --token-file /root/token",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 { // whatever it is, it may be part of a token
				return errTokenShown
			}
			return nil
		},
		RunE: func(c *cobra.Command, _ []string) error {
			file := g.joinFile()
			if file == "" {
				return diag.Fail(diag.CodeUsage, errors.New("the configuration to be written is not named"), "name it with --config FILE; it need not exist")
			}
			token, err := readToken(std, tokenFile)
			if err != nil {
				return err
			}
			return joinByToken(c.Context(), std, g, appliance.TokenJoin{
				Token: token, File: file, Version: version,
				Load: func(texts []config.Text) (*config.Config, diag.List) { return g.loadTexts(file, texts) },
			}, yes)
		},
	}
	cmd.Flags().StringVar(&tokenFile, "token-file", "", "read the token from `FILE`, and not from stdin")
	cmd.Flags().BoolVar(&yes, "yes", false, "don't ask")
	return cmd
}

// errTokenShown is for a token that stands where others see it. It does not repeat it.
var errTokenShown = diag.Fail(diag.CodeUsage, errors.New("a token is not given as an argument: the list of processes shows it, and the history of the shell may keep it"),
	"if it was a token, make a new one with `holdfast cluster invite`, and paste it, pipe it in, or name a file with --token-file; the old one works until it is used or expires, or `invites.json` is removed from the data directory of the node that made it")

// tokenText finds tokens, of any version, also damaged ones.
var tokenText = regexp.MustCompile(`hfjoin\d*-[\w-]+`)

// withoutToken replaces an error that would repeat a token that stood among the arguments.
func withoutToken(args []string, err error, entered bool) error {
	if err == nil || !slices.ContainsFunc(args, tokenText.MatchString) || entered && !tokenText.MatchString(err.Error()) {
		return err
	}
	return errTokenShown
}

// joinFile is the configuration of the node that is to join: a machine with the package
// has one.
func (g *globals) joinFile() string {
	return cmp.Or(g.configFile(), service.InstalledConfig(), g.nodeFile())
}

// readToken reads it from where no list of processes shows it. On a terminal it is not
// echoed.
func readToken(std stdio, file string) (string, error) {
	if file != "" {
		f, err := os.Open(file)
		if err != nil {
			return "", fmt.Errorf("read the token: %w", err)
		}
		defer f.Close()
		return readAll(f)
	}
	if !isTerminal(std.in) {
		return readAll(std.in)
	}
	fmt.Fprint(std.err, "Paste the token of `holdfast cluster invite` (it is not shown): ")
	text, err := term.ReadPassword(int(std.in.Fd()))
	fmt.Fprintln(std.err)
	if err != nil {
		return "", fmt.Errorf("read the token: %w", err)
	}
	return string(text), nil
}

func readAll(r io.Reader) (string, error) {
	text, err := io.ReadAll(io.LimitReader(bufio.NewReader(r), mostToken))
	if err != nil {
		return "", fmt.Errorf("read the token: %w", err)
	}
	return string(text), nil
}

func joinByToken(ctx context.Context, std stdio, g *globals, t appliance.TokenJoin, yes bool) error {
	if !yes && !isTerminal(std.in) {
		// Before the token is bound to this machine.
		return diag.Fail(diag.CodeUsage, errors.New("the configuration of this machine would be written, and nobody is there to agree"), "add --yes")
	}
	a, err := t.Ask(ctx)
	if err != nil {
		return err
	}
	if !g.json() {
		describeAdmission(std.out, a)
	}
	if len(a.Files) > 0 && !yes {
		if err := confirm(std, "Write this?"); err != nil {
			return err
		}
	}
	if err := a.Write(); err != nil {
		return err
	}
	next := nextStep(t.File)
	if g.json() {
		printJSON(std.out, admissionJSON(a, next))
		return nil
	}
	if a.Already {
		fmt.Fprintf(std.out, "nothing was changed; next: %s\n", next)
		return nil
	}
	fmt.Fprintf(std.out, "this machine is set up for cluster %s; next: %s\n", a.Cluster, next)
	return nil
}

// describeAdmission shows what is written before it is.
func describeAdmission(w io.Writer, a *appliance.Admission) {
	if a.Already {
		fmt.Fprintf(w, "the configuration here has the block `cluster:` of %s and its secret already\n", a.Cluster)
		return
	}
	fmt.Fprintf(w, "Node %s takes this machine into cluster %s.\n", a.From, a.Cluster)
	for _, f := range a.Files {
		fmt.Fprintf(w, "\n%s: %s\n", f.Path, f.What)
		for line := range strings.Lines(f.Text) {
			fmt.Fprintf(w, "    %s", line)
		}
	}
	if len(a.Files) == 0 {
		fmt.Fprintln(w, "Everything is written already.")
	}
	fmt.Fprintln(w)
	for _, n := range a.Notes {
		fmt.Fprintf(w, "note: %s\n", n)
	}
}

func admissionJSON(a *appliance.Admission, next string) map[string]any {
	files := []map[string]string{}
	for _, f := range a.Files {
		files = append(files, map[string]string{"path": f.Path, "what": f.What})
	}
	notes := a.Notes
	if notes == nil {
		notes = []string{}
	}
	return map[string]any{"cluster": a.Cluster, "from": a.From, "already": a.Already, "files": files, "notes": notes, "next": next}
}

// nextStep is the command that starts the node with a file.
func nextStep(file string) string {
	if abs, err := filepath.Abs(file); err == nil && abs == service.InstalledConfig() {
		return howto.Here().Restart()
	}
	return ownName() + " run --config " + file
}
