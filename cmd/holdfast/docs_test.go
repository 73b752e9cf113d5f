// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// The page of the command line, the manual pages and the completion scripts are
// made of the commands, the key table and the texts in testdata/docs, by
// go test ./cmd/holdfast -update.

const docsNote = "\n<!-- Made of the commands and of cmd/holdfast/testdata/docs: make golden -->\n"

func TestCommandLinePageIsUpToDate(t *testing.T) {
	goldenFile(t, "../../docs/cli.md", cliPage(t))
}

func TestCompletionScriptsAreUpToDate(t *testing.T) {
	for shell, name := range map[string]string{"bash": "holdfast.bash", "zsh": "_holdfast", "fish": "holdfast.fish", "powershell": "holdfast.ps1"} {
		var out strings.Builder
		if code := run([]string{"completion", shell}, stdio{in: os.Stdin, out: &out, err: io.Discard}); code != exitOK {
			t.Errorf("%s: got exit code %d, want %d", shell, code, exitOK)
		}
		goldenFile(t, filepath.Join("../../packaging/completions", name), out.String())
	}
}

// TestEveryVerbSaysWhetherItChangesState is what people and scripts go by
// before they try something.
func TestEveryVerbSaysWhetherItChangesState(t *testing.T) {
	eachCommand(commandTree(), func(c *cobra.Command) {
		if does, tag := shortOf(c); tag == "" && c.HasParent() || does == "" {
			t.Errorf("%s: got %q, want it to end in [read-only] or [changes state]", c.CommandPath(), c.Short)
		}
	})
}

func TestEveryTextBelongsToACommand(t *testing.T) {
	known := map[string]bool{}
	eachCommand(commandTree(), func(c *cobra.Command) { known[notesFile(c)] = true })
	files, err := filepath.Glob("testdata/docs/verbs/*")
	if err != nil || len(files) == 0 {
		t.Fatalf("got %d files, %v, want texts", len(files), err)
	}
	for _, f := range files {
		if !known[f] {
			t.Errorf("%s: got a text without a command, want one of that name", f)
		}
	}
}

// TestExitCodesAreExplained compares the constants with the table that the page
// and the manual pages show.
func TestExitCodesAreExplained(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "root.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var declared, explained []string
	ast.Inspect(file, func(n ast.Node) bool {
		v, ok := n.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(v.Names[0].Name, "exit") || len(v.Values) != 1 {
			return true
		}
		if code, ok := v.Values[0].(*ast.BasicLit); ok { // not another name for one of them
			declared = append(declared, code.Value)
		}
		return true
	})
	for _, m := range regexp.MustCompile(`(?m)^\| (\d+) \|`).FindAllStringSubmatch(docsText(t, "exits.md"), -1) {
		explained = append(explained, m[1])
	}
	if diff := gocmp.Diff(slices.Compact(slices.Sorted(slices.Values(declared))), slices.Sorted(slices.Values(explained))); diff != "" || len(declared) == 0 {
		t.Errorf("got other exit codes in testdata/docs/exits.md than in root.go (-root.go +exits.md):\n%s", diff)
	}
}

func goldenFile(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(got), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v; `make golden` writes it", err)
	}
	if diff := gocmp.Diff(string(want), got); diff != "" {
		t.Errorf("got another text than %s (-want +got); `make golden` rewrites it:\n%s", file, diff)
	}
}

func commandTree() *cobra.Command {
	return newRoot(stdio{in: os.Stdin, out: io.Discard, err: io.Discard}, &globals{}, new(bool))
}

// eachCommand visits what a user can see.
func eachCommand(c *cobra.Command, visit func(*cobra.Command)) {
	visit(c)
	for _, sub := range visible(c) {
		eachCommand(sub, visit)
	}
}

func visible(c *cobra.Command) []*cobra.Command {
	return slices.DeleteFunc(slices.Clone(c.Commands()), func(c *cobra.Command) bool { return !c.IsAvailableCommand() })
}

var shortForm = regexp.MustCompile(`^(.*?)(?: \[((?:read-only|changes state)[^]]*)\])?$`)

// shortOf splits what a command does from the mark at its end.
func shortOf(c *cobra.Command) (does, tag string) {
	m := shortForm.FindStringSubmatch(c.Short)
	return m[1], m[2]
}

// longOf is the long text of a command; the short one where there is none.
func longOf(c *cobra.Command) string {
	does, _ := shortOf(c)
	return cmp.Or(strings.TrimSpace(c.Long), sentence(does))
}

// useOf is how a command is written: creds show ACCOUNT/USER.
func useOf(c *cobra.Command) string {
	_, arguments, _ := strings.Cut(c.Use, " ")
	return strings.TrimSpace(wordsOf(c) + " " + arguments)
}

func wordsOf(c *cobra.Command) string {
	return strings.TrimPrefix(c.CommandPath(), c.Root().Name()+" ")
}

func notesFile(c *cobra.Command) string {
	return "testdata/docs/verbs/" + strings.ReplaceAll(wordsOf(c), " ", "-") + ".md"
}

// notesOf is what testdata/docs adds to a command.
func notesOf(t *testing.T, c *cobra.Command) string {
	t.Helper()
	text, err := os.ReadFile(notesFile(c))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return string(text)
}

func docsText(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata/docs", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// option is a flag as it is documented.
type option struct{ name, short, value, means string }

func flagsOf(set *pflag.FlagSet) []option {
	var all []option
	set.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Deprecated != "" || f.Name == "help" {
			return
		}
		value, means := pflag.UnquoteUsage(f)
		if !slices.Contains([]string{"", "false", "0", "[]"}, f.DefValue) {
			means += " (default " + f.DefValue + ")"
		}
		all = append(all, option{name: "--" + f.Name, short: f.Shorthand, value: value, means: means})
	})
	return all
}

func cliPage(t *testing.T) string {
	root := commandTree()
	var b strings.Builder
	b.WriteString(docsText(t, "head.md") + docsNote + "\n| verb | does | |\n|---|---|---|\n")
	eachCommand(root, func(c *cobra.Command) {
		if does, tag := shortOf(c); c.HasParent() && !c.HasSubCommands() {
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", cell(useOf(c)), cell(does), tag)
		}
	})
	b.WriteString("\n" + docsText(t, "exits.md"))
	eachCommand(root, func(c *cobra.Command) {
		if c.HasParent() {
			cliSection(t, &b, c)
		}
	})
	for _, name := range []string{"http.md", "files.md", "environment.md"} {
		b.WriteString("\n" + docsText(t, name))
	}
	return b.String()
}

// cliSection writes what there is to say beyond the table of verbs.
func cliSection(t *testing.T, b *strings.Builder, c *cobra.Command) {
	flags, notes := flagsOf(c.LocalNonPersistentFlags()), notesOf(t, c)
	if c.Long == "" && c.Example == "" && notes == "" && len(flags) == 0 {
		return
	}
	level := strings.Repeat("#", 1+strings.Count(c.CommandPath(), " "))
	fmt.Fprintf(b, "\n%s %s\n\n%s\n", level, wordsOf(c), longOf(c))
	for i, f := range flags {
		if i == 0 {
			b.WriteString("\n| flag | means |\n|---|---|\n")
		}
		fmt.Fprintf(b, "| `%s` | %s |\n", strings.TrimSpace(f.name+" "+f.value), cell(f.means))
	}
	if c.Example != "" {
		b.WriteString("\n" + indented(c.Example))
	}
	if notes != "" {
		b.WriteString("\n" + notes)
	}
}

func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }

// indented makes a block of Markdown. Examples of cobra have two spaces already.
func indented(example string) string {
	lines := strings.Split(strings.Trim(example, "\n"), "\n")
	mark := "    "
	if !slices.ContainsFunc(lines, func(l string) bool { return l != "" && !strings.HasPrefix(l, "  ") }) {
		mark = "  "
	}
	for i, l := range lines {
		lines[i] = strings.TrimRight(mark+l, " ")
	}
	return strings.Join(lines, "\n") + "\n"
}
