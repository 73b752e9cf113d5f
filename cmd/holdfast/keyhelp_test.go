// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/holdfast-mq/holdfast/appliance/config"
)

// TestHelpOfEveryKeyIsTheSameEverywhere reads what people read, and not what it
// is made of: the reference page, the manual page, the schema and the starter.
func TestHelpOfEveryKeyIsTheSameEverywhere(t *testing.T) {
	places := map[string]map[string]string{
		"docs/configuration.md": helpInReference(t),
		"holdfast.yaml(5)":      helpInManual(t),
		"the schema":            helpInSchema(t),
		"the starter":           helpInStarter(),
	}
	keys := config.Keys()
	inList := map[string]bool{}
	for _, k := range keys {
		parent, _ := splitKey(k.Path)
		inList[k.Path] = inList[parent] || strings.HasPrefix(k.Kind, "list of")
		for place, help := range places {
			// The starter shows what is inside of lists once, at the mirror.
			if place == "the starter" && inList[parent] {
				continue
			}
			if got, ok := help[k.Path]; !ok {
				t.Errorf("%s: got no such key in %s, want it", k.Path, place)
			} else if got != k.Help {
				t.Errorf("%s: got help %q in %s, want %q", k.Path, got, place, k.Help)
			}
		}
	}
	for place, help := range places {
		if place != "the starter" && len(help) != len(keys) {
			t.Errorf("got %d keys in %s, want the %d of the key table", len(help), place, len(keys))
		}
	}
}

// starred is the path of a key in the key table: NAME and names of the starter
// stand for any.
func starred(parent, name string) string {
	path := strings.ReplaceAll(parent, "NAME", "*") + "." + name
	if parent == "Top level" || parent == "" {
		path = name
	}
	return path
}

var laterMark = regexp.MustCompile(` \(not in this version[^)]*\)$`)

func helpInReference(t *testing.T) map[string]string {
	text := readText(t, "../../docs/configuration.md")
	row := regexp.MustCompile("^\\| `([a-z_]+)` \\| (.*) \\|$")
	facts := regexp.MustCompile("(\\. \\*\\*Not in this version\\*\\*|\\. Not in this version: `[^.]*`)?(\\. Needs a restart)?$")
	all, parent := map[string]string{}, ""
	for line := range strings.SplitSeq(text, "\n") {
		if title, ok := strings.CutPrefix(line, "### "); ok {
			parent = title
		}
		m := row.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		cells := tableCells("|" + m[2] + "|")
		help := facts.ReplaceAllString(cells[len(cells)-1], "")
		all[starred(parent, m[1])] = strings.ReplaceAll(help, `\<`, "<")
	}
	return all
}

func helpInManual(t *testing.T) map[string]string {
	_, text, _ := strings.Cut(readText(t, manDir+"/holdfast.yaml.5"), "\n.SH KEYS\n")
	text, _, _ = strings.Cut(text, "\n.SH ")
	all, parent := map[string]string{}, ""
	for block := range strings.SplitSeq(text, "\n.") {
		lines := strings.Split(block, "\n")
		if title, ok := strings.CutPrefix(lines[0], "SS "); ok {
			parent = unroff(title)
		}
		if lines[0] == "TP" {
			name, _, _ := strings.Cut(unroff(lines[1]), ":")
			all[starred(parent, name)] = strings.TrimSuffix(unroff(lines[2]), ".")
		}
	}
	return all
}

// unroff is what a reader sees of a line.
func unroff(s string) string {
	return strings.NewReplacer(`\fB`, "", `\fI`, "", `\fR`, "", `\-`, "-", `\(aq`, "'", `\(ga`, "`", `\(ha`, "^", `\(ti`, "~",
		`\(dq`, `"`, `\[u2026]`, "…", `\[u00B5]`, "µ", `\e`, `\`).Replace(s)
}

func helpInSchema(t *testing.T) map[string]string {
	type schema struct {
		Description string             `json:"description"`
		Properties  map[string]*schema `json:"properties"`
		Items       *schema            `json:"items"`
		Additional  json.RawMessage    `json:"additionalProperties"` // false, or a schema
	}
	var root schema
	if err := json.Unmarshal(config.Schema(), &root); err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	var walk func(path string, s *schema)
	walk = func(path string, s *schema) {
		for name, p := range s.Properties {
			all[starred(path, name)] = laterMark.ReplaceAllString(p.Description, "")
			walk(starred(path, name), p)
		}
		if s.Items != nil {
			walk(path, s.Items)
		}
		var any schema
		if len(s.Additional) > 0 && json.Unmarshal(s.Additional, &any) == nil {
			walk(path+".*", &any)
		}
	}
	walk("", &root)
	return all
}

// helpInStarter reads a comment as the line that it would be without its mark.
func helpInStarter() map[string]string {
	key := regexp.MustCompile(`^([A-Za-z_]+):(?:.*? # (.*))?$`)
	mark := regexp.MustCompile(`^( *)# `)
	known := config.Keys()
	all := map[string]string{}
	var path []string
	for line := range strings.SplitSeq(string(config.Starter()), "\n") {
		line = mark.ReplaceAllString(line, "$1")
		text := strings.TrimLeft(line, " ")
		m := key.FindStringSubmatch(text)
		if m == nil {
			continue
		}
		path = append(path[:min(len(path), (len(line)-len(text))/2)], m[1])
		for _, k := range known {
			if sameKey(k.Path, path) {
				all[k.Path] = laterMark.ReplaceAllString(m[2], "")
			}
		}
	}
	return all
}

// sameKey reports whether a path of the table, with stars, means this one.
func sameKey(starred string, path []string) bool {
	steps := strings.Split(starred, ".")
	if len(steps) != len(path) {
		return false
	}
	for i, s := range steps {
		if s != "*" && s != path[i] {
			return false
		}
	}
	return true
}

func readText(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
