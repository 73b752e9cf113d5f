// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// module is something linked into the binary, and the terms it comes under.
type module struct {
	name  string // path and version
	terms []term
}

type term struct{ file, text string }

// linkedPackage is what go list says of one.
type linkedPackage struct {
	Dir      string
	Standard bool
	Module   *struct {
		Path    string
		Version string
		Dir     string
		Main    bool
	}
}

// linkedModules finds what is linked, Go's own library among it, with the
// licences of every package and of the directories above it.
func linkedModules(ctx context.Context, root string, p platform) ([]module, error) {
	out, err := goCommand(ctx, root, p, "list", "-deps", "-json=Dir,Standard,Module", "./cmd/holdfast")
	if err != nil {
		return nil, err
	}
	std, err := goItself(ctx, root, p)
	if err != nil {
		return nil, err
	}
	terms := map[string]map[string]string{} // module → file → text
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var l linkedPackage
		if err := dec.Decode(&l); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("read go list: %w", err)
		}
		if l.Standard || l.Module == nil || l.Module.Main {
			continue
		}
		name := l.Module.Path + " " + l.Module.Version
		if terms[name] == nil {
			terms[name] = map[string]string{}
		}
		if err := collectTerms(l.Module.Dir, l.Dir, terms[name]); err != nil {
			return nil, err
		}
	}
	return sortedModules(terms, std)
}

func sortedModules(terms map[string]map[string]string, std module) ([]module, error) {
	out := []module{std}
	var bare []string
	for name, files := range terms {
		m := module{name: name}
		for file, text := range files {
			m.terms = append(m.terms, term{file, text})
		}
		slices.SortFunc(m.terms, func(a, b term) int { return cmp.Compare(a.file, b.file) })
		if !slices.ContainsFunc(m.terms, func(t term) bool { return isLicence(filepath.Base(t.file)) }) {
			bare = append(bare, name)
		}
		out = append(out, m)
	}
	if len(bare) > 0 {
		slices.Sort(bare)
		return nil, fmt.Errorf("no licence file in %s", strings.Join(bare, ", "))
	}
	slices.SortFunc(out, func(a, b module) int { return cmp.Compare(a.name, b.name) })
	return out, nil
}

// collectTerms reads the licences and notices from the directory of a package
// up to the root of its module: parts of a module may have come from elsewhere.
func collectTerms(root, dir string, into map[string]string) error {
	for {
		files, err := os.ReadDir(dir)
		if err != nil {
			return err
		}
		for _, f := range files {
			if !f.Type().IsRegular() || !isTerm(f.Name()) {
				continue
			}
			path := filepath.Join(dir, f.Name())
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			name, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			into[name] = strings.TrimSpace(strings.ReplaceAll(string(text), "\r\n", "\n"))
		}
		if dir == root || len(dir) <= len(root) {
			return nil
		}
		dir = filepath.Dir(dir)
	}
}

func isTerm(name string) bool {
	return isLicence(name) || regexp.MustCompile(`(?i)^(notice|patents|copyright|authors)(\.txt|\.md)?$`).MatchString(name)
}

func isLicence(name string) bool {
	return regexp.MustCompile(`(?i)^(un)?(licen[cs]e|copying)([.-].*)?$`).MatchString(name) && filepath.Ext(name) != ".go"
}

// goItself is the standard library and the runtime.
func goItself(ctx context.Context, root string, p platform) (module, error) {
	out, err := goCommand(ctx, root, p, "env", "GOROOT", "GOVERSION")
	if err != nil {
		return module{}, err
	}
	goroot, version, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	files := map[string]string{}
	if err := collectTerms(goroot, goroot, files); err != nil {
		return module{}, err
	}
	m := module{name: "Go's standard library and runtime, " + version}
	for _, name := range []string{"LICENSE", "PATENTS"} {
		if files[name] == "" {
			return module{}, fmt.Errorf("no %s in %s", name, goroot)
		}
		m.terms = append(m.terms, term{name, files[name]})
	}
	return m, nil
}

// notice is the text of NOTICE. A text that several modules share is there once.
func notice(modules []module) []byte {
	var order []string
	holders := map[string][]string{}
	for _, m := range modules {
		for _, t := range m.terms {
			if len(holders[t.text]) == 0 {
				order = append(order, t.text)
			}
			holders[t.text] = append(holders[t.text], m.name+", "+t.file)
		}
	}
	var b bytes.Buffer
	b.WriteString("Holdfast is under the Apache License 2.0. Linked into its binary is what follows,\neach under the terms printed below it.\n")
	for _, text := range order {
		fmt.Fprintf(&b, "\n%s\n", strings.Repeat("=", 80))
		for _, h := range holders[text] {
			fmt.Fprintf(&b, "%s\n", h)
		}
		fmt.Fprintf(&b, "\n%s\n", text)
	}
	return b.Bytes()
}
