// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/holdfast-mq/holdfast/appliance/config"
)

const manDir = "../../packaging/man"

func TestManualPagesAreUpToDate(t *testing.T) {
	pages := manPages(t)
	for name, text := range pages {
		goldenFile(t, filepath.Join(manDir, name), text)
	}
	files, err := filepath.Glob(filepath.Join(manDir, "*.[1-9]"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if _, ok := pages[filepath.Base(f)]; ok {
			continue
		}
		if !*update {
			t.Errorf("%s: got a page of no verb, want none; `make golden` removes it", f)
		} else if err := os.Remove(f); err != nil {
			t.Fatal(err)
		}
	}
}

// TestManualPagesAreGoodRoff has the formatters themselves read every page, as
// far as they are installed.
func TestManualPagesAreGoodRoff(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(manDir, "*.[1-9]"))
	if err != nil || len(files) == 0 {
		t.Fatalf("got %d pages, %v, want some", len(files), err)
	}
	for _, check := range [][]string{{"groff", "-man", "-Tutf8", "-ww", "-z"}, {"mandoc", "-Tlint", "-Wwarning"}} {
		t.Run(check[0], func(t *testing.T) {
			if _, err := exec.LookPath(check[0]); err != nil {
				t.Skipf("skipping: needs %s", check[0])
			}
			for _, f := range files {
				out, err := exec.CommandContext(t.Context(), check[0], append(check[1:], f)...).CombinedOutput()
				complaints := slices.DeleteFunc(strings.Split(strings.TrimSpace(string(out)), "\n"), func(line string) bool {
					return line == "" || strings.Contains(line, "missing date") // it has none, for two builds to be equal
				})
				if len(complaints) > 0 || err != nil && len(out) == 0 {
					t.Errorf("%s: got %v from %s, want no complaint\n%s", f, err, check[0], strings.Join(complaints, "\n"))
				}
			}
		})
	}
}

// manPages are all manual pages by file name.
func manPages(t *testing.T) map[string]string {
	root := commandTree()
	pages := map[string]string{"holdfast.1": manRoot(t, root), "holdfast.yaml.5": manConfig(t)}
	for _, c := range visible(root) {
		pages[manName(c)+".1"] = manVerb(t, c)
	}
	return pages
}

func manName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

func manHead(name, section, does string) *roff {
	r := newRoff(name, section)
	r.section("name")
	// The index of manuals takes no fonts.
	fmt.Fprintf(r, "%s \\- %s\n", roffText(name), roffText(lowerFirst(strings.ReplaceAll(does, "`", ""))))
	return r
}

// lowerFirst writes a sentence as the manual's index has it.
func lowerFirst(s string) string {
	runes := []rune(s)
	if len(runes) > 1 && !unicode.IsUpper(runes[1]) {
		runes[0] = unicode.ToLower(runes[0])
	}
	return string(runes)
}

func manRoot(t *testing.T, root *cobra.Command) string {
	r := manHead("holdfast", "1", root.Short)
	r.section("synopsis")
	r.synopsis(root, "VERB")
	r.section("description")
	r.markdown(longOf(root))
	_, intro, _ := strings.Cut(docsText(t, "head.md"), "\n\n")
	r.WriteString(".PP\n")
	r.markdown(intro)
	r.section("verbs")
	for _, c := range visible(root) {
		r.term(bold(manName(c))+"(1)", sentence(c.Short))
	}
	r.options(root)
	for _, name := range []string{"exits.md", "http.md", "files.md", "environment.md"} {
		r.chapter(docsText(t, name))
	}
	r.seeAlso("holdfast.yaml(5)")
	return r.String()
}

func manVerb(t *testing.T, c *cobra.Command) string {
	r := manHead(manName(c), "1", c.Short)
	r.section("synopsis")
	eachCommand(c, func(sub *cobra.Command) {
		if sub.HasSubCommands() {
			return
		}
		if sub != c && sub != firstLeaf(c) {
			r.WriteString(".br\n")
		}
		_, arguments, _ := strings.Cut(sub.Use, " ")
		r.synopsis(sub, arguments)
	})
	r.section("description")
	r.markdown(longOf(c))
	r.notes(t, c)
	if c.HasSubCommands() {
		r.section("commands")
		for _, sub := range visible(c) {
			r.subsection(c.Root().Name() + " " + useOf(sub))
			r.text(sentence(sub.Short))
			if sub.Long != "" {
				r.WriteString(".PP\n")
				r.markdown(longOf(sub))
			}
			r.notes(t, sub)
			r.flags(flagsOf(sub.LocalNonPersistentFlags()))
		}
	}
	r.options(c)
	if c.Example != "" {
		r.section("examples")
		r.markdown(indented(c.Example))
	}
	for _, name := range []string{"exits.md", "files.md", "environment.md"} {
		r.chapter(docsText(t, name))
	}
	r.seeAlso("holdfast(1)", "holdfast.yaml(5)")
	return r.String()
}

func firstLeaf(c *cobra.Command) *cobra.Command {
	for c.HasSubCommands() {
		c = visible(c)[0]
	}
	return c
}

func (r *roff) synopsis(c *cobra.Command, arguments string) {
	line := bold(c.CommandPath())
	if c.HasAvailableFlags() && !c.DisableFlagParsing {
		line += " [" + italic("flags") + "]"
	}
	if arguments != "" {
		line += " " + italic(arguments)
	}
	r.WriteString(line + "\n")
}

func (r *roff) notes(t *testing.T, c *cobra.Command) {
	if notes := notesOf(t, c); notes != "" {
		r.WriteString(".PP\n")
		r.markdown(notes)
	}
}

// chapter writes a text under the headings that manuals have.
func (r *roff) chapter(text string) {
	r.markdown(strings.NewReplacer("## Exit codes", "## Exit status", "## Environment variables", "## Environment").Replace(text))
}

func (r *roff) options(c *cobra.Command) {
	if c.DisableFlagParsing {
		return // its text names them
	}
	r.section("options")
	if c.HasParent() && !c.HasSubCommands() {
		r.flags(flagsOf(c.LocalNonPersistentFlags()))
	}
	r.flags(flagsOf(c.Root().PersistentFlags()))
	r.term(bold("-h")+", "+bold("--help"), "show help")
}

func (r *roff) flags(flags []option) {
	for _, f := range flags {
		term := bold(f.name)
		if f.short != "" {
			term = bold("-"+f.short) + ", " + term
		}
		if f.value != "" {
			term += " " + italic(f.value)
		}
		r.term(term, sentence(f.means))
	}
}

func (r *roff) seeAlso(pages ...string) {
	r.section("see also")
	for i, p := range pages {
		name, section, _ := strings.Cut(p, "(")
		if pages[i] = bold(name) + "(" + section; i < len(pages)-1 {
			pages[i] += ","
		}
	}
	r.WriteString(strings.Join(pages, "\n") + "\n")
}

// manConfig is the page of the configuration file: the words of its reference
// page, and the key table.
func manConfig(t *testing.T) string {
	head, err := os.ReadFile("../../appliance/config/testdata/reference/head.md")
	if err != nil {
		t.Fatal(err)
	}
	starter, err := os.ReadFile("../../appliance/config/starter.yaml")
	if err != nil {
		t.Fatal(err)
	}
	r := manHead("holdfast.yaml", "5", "Configuration of a Holdfast node")
	r.section("description")
	_, text, _ := strings.Cut(string(head), "\n\n")
	r.chapter(text)
	var parents []string
	for _, k := range config.Keys() {
		if parent, _ := splitKey(k.Path); !slices.Contains(parents, parent) {
			parents = append(parents, parent)
		}
	}
	for _, parent := range parents {
		r.subsection(keyTitle(parent))
		for _, k := range config.Keys() {
			if of, name := splitKey(k.Path); of == parent {
				r.key(name, k)
			}
		}
	}
	r.section("examples")
	r.text("The built-in starter:")
	r.WriteString(".PP\n")
	r.markdown(indented(string(starter)))
	r.markdown(docsText(t, "files.md"))
	r.seeAlso("holdfast(1)", "holdfast-check(1)", "holdfast-init(1)", "holdfast-schema(1)")
	return r.String()
}

func splitKey(path string) (parent, name string) {
	at := strings.LastIndex(path, ".")
	return path[:max(at, 0)], path[at+1:]
}

func keyTitle(parent string) string {
	if parent == "" {
		return "Top level"
	}
	return strings.ReplaceAll(parent, "*", "NAME")
}

// key writes the help of a key on a line of its own, and then what else is
// known of it.
func (r *roff) key(name string, k config.Key) {
	value := italic(k.Kind)
	if len(k.Enum) > 0 {
		all := make([]string, len(k.Enum))
		for i, e := range k.Enum {
			all[i] = bold(e)
		}
		value = strings.Join(all, " | ")
	}
	r.WriteString(".TP\n" + bold(name) + ": " + value + "\n" + roffText(sentence(k.Help)) + "\n")
	if k.Default != "" {
		r.WriteString("Default: " + bold(k.Default) + ".\n")
	}
	switch {
	case slices.Contains(k.Later, "*"):
		r.WriteString(bold("Not in this version.") + "\n")
	case len(k.Later) > 0:
		r.WriteString("Not in this version: " + bold(strings.Join(k.Later, ", ")) + ".\n")
	}
	if k.Restart {
		r.WriteString("Needs a restart.\n")
	}
}
