// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

// Exit codes are a contract with service managers and scripts; docs/cli.md lists them.
const (
	exitOK       = 0
	exitFailed   = 1
	exitUsage    = 2
	exitNotReady = 3
	// exitDamaged is for `verify`: something that was stored can't be read.
	exitDamaged = 4
	// exitPermanent is a fault that a restart does not heal; the unit file
	// keeps systemd from trying (RestartPreventExitStatus).
	exitPermanent = 78
)

// stdio are the streams of one invocation.
type stdio struct {
	in  *os.File
	out io.Writer
	err io.Writer
	// step and driftEvery are those of appliance.Options, for tests of what a crash
	// in an apply does, and of what is found without waiting for minutes.
	step       func(what string)
	driftEvery time.Duration
	// exit ends the process, for a service of Windows whose node broke.
	exit func(code int)
}

// checkedWriter remembers the first write that went wrong: most of what is
// printed is for people, and nobody looks at each line's error.
type checkedWriter struct {
	w   io.Writer
	err error
}

func (c *checkedWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	if c.err == nil {
		c.err = err
	}
	return n, err
}

// exitError ends with a code after everything was said already.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit %d", int(e)) }

// run is the whole program but for the process: tests call it.
func run(args []string, std stdio) int {
	var g globals
	entered := false
	out := &checkedWriter{w: std.out}
	std.out = out
	root := newRoot(std, &g, &entered)
	root.SetArgs(args)
	verb, err := root.ExecuteC()
	err = withoutToken(args, err, entered)
	var code exitError
	switch {
	case err == nil && out.err != nil && !errors.Is(out.err, syscall.EPIPE):
		// Half an answer must not look like a whole one to a script.
		fmt.Fprintf(std.err, "holdfast: write the answer: %v\n", out.err)
		return exitFailed
	case err == nil:
		return exitOK
	case errors.As(err, &code):
		return int(code)
	case !entered && diag.CodeOf(err) == "": // cobra refused the words before a verb ran
		fmt.Fprintf(std.err, "holdfast: %v\nhint: see `%s --help`\n", firstLine(err), verb.CommandPath())
		return exitUsage
	}
	g.printError(std, err)
	return codeOf(err)
}

// codeOf is the exit code of an error.
func codeOf(err error) int {
	var code exitError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &code):
		return int(code)
	case diag.Permanent(err):
		return exitPermanent
	case diag.CodeOf(err) == diag.CodeUsage:
		return exitUsage
	}
	return exitFailed
}

func firstLine(err error) string {
	s, _, _ := strings.Cut(err.Error(), "\n")
	return s
}

// globals are the flags that every verb takes.
type globals struct {
	config  string
	dataDir string
	output  string
}

func (g *globals) json() bool { return g.output == "json" }

func newRoot(std stdio, g *globals, entered *bool) *cobra.Command {
	root := &cobra.Command{
		Use:   "holdfast",
		Short: "A durable message queue in one binary",
		Long: "Holdfast is a durable message queue in one binary: nats-server with JetStream,\n" +
			"set up from one file. Stock NATS clients talk to it.",
		SilenceUsage:      true,
		SilenceErrors:     true,
		DisableAutoGenTag: true,
		Args:              cobra.NoArgs,
		RunE:              func(c *cobra.Command, _ []string) error { return c.Help() },
		PersistentPreRunE: func(*cobra.Command, []string) error {
			if g.output != "text" && g.output != "json" {
				return fmt.Errorf("--output %s is not possible: write text or json", g.output)
			}
			*entered = true
			return nil
		},
	}
	root.SetIn(std.in)
	root.SetOut(std.out)
	root.SetErr(std.err)
	f := root.PersistentFlags()
	f.StringVarP(&g.config, "config", "c", "", "configuration `FILE` (default $HOLDFAST_CONFIG)")
	f.StringVar(&g.dataDir, "data-dir", "", "data `DIR`, instead of the file's node.data_dir")
	f.StringVarP(&g.output, "output", "o", "text", "`FORMAT`: text for people, json for machines")
	root.AddCommand(
		newRunCmd(std, g), newCheckCmd(std, g), newInitCmd(std), newSchemaCmd(std),
		newStatusCmd(std, g), newDoctorCmd(std, g), newPlanCmd(std, g), newApplyCmd(std, g), newCredsCmd(std, g), newCACmd(std, g), newNATSCmd(std, g), newBenchCmd(std, g), newVerifyCmd(std, g), newTuneCmd(std, g),
		newServiceCmd(std, g), newClusterCmd(std, g), newVersionCmd(std, g),
		newCompletionCmd(std),
	)
	addCompletions(root, g)
	return root
}

// printError says what went wrong and what to do about it, on stderr.
func (g *globals) printError(std stdio, err error) {
	hint := diag.Hint(err)
	if g.json() {
		printJSON(std.err, map[string]any{"code": diag.CodeOf(err), "what": err.Error(), "fix": hint})
		return
	}
	for line := range strings.Lines(err.Error()) {
		fmt.Fprintf(std.err, "holdfast: %s\n", strings.TrimSuffix(line, "\n"))
	}
	if hint != "" {
		fmt.Fprintf(std.err, "hint: %s\n", hint)
	}
}

func printJSON(w io.Writer, v any) {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v) // stdout may be closed; there is nobody left to tell
}
