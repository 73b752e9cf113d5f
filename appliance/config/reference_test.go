// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-mq/holdfast/appliance/config"
)

func TestReferencePageIsUpToDate(t *testing.T) {
	head, err := os.ReadFile("testdata/reference/head.md")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "../../docs/configuration.md", append(head, reference()...))
}

// reference is the key table as Markdown, one table for each group of keys.
func reference() []byte {
	groups := map[string][]config.Key{}
	var order []string
	for _, k := range config.Keys() {
		parent := ""
		if i := strings.LastIndex(k.Path, "."); i >= 0 {
			parent = k.Path[:i]
		}
		if _, ok := groups[parent]; !ok {
			order = append(order, parent)
		}
		groups[parent] = append(groups[parent], k)
	}
	var b strings.Builder
	for _, parent := range order {
		title := "Top level"
		if parent != "" {
			title = named(parent)
		}
		fmt.Fprintf(&b, "\n### %s\n\n| Key | Value | Default | Meaning |\n|---|---|---|---|\n", title)
		for _, k := range groups[parent] {
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", k.Path[strings.LastIndex(k.Path, ".")+1:], values(k), code(k.Default), meaning(k))
		}
	}
	return []byte(b.String())
}

// named writes names in place of the stars: accounts.NAME.streams.NAME.
func named(path string) string { return strings.ReplaceAll(path, "*", "NAME") }

func values(k config.Key) string {
	if len(k.Enum) == 0 {
		return k.Kind
	}
	var all []string
	for _, e := range k.Enum {
		all = append(all, code(e))
	}
	return strings.Join(all, ", ")
}

func code(s string) string {
	if s == "" {
		return ""
	}
	return "`" + s + "`"
}

func meaning(k config.Key) string {
	// A bar would end the cell, and <user> would be taken for HTML.
	s := strings.NewReplacer("|", `\|`, "<", `\<`).Replace(k.Help)
	if slices.Contains(k.Later, "*") {
		s += ". **Not in this version**"
	} else if len(k.Later) > 0 {
		s += ". Not in this version: `" + strings.Join(k.Later, "`, `") + "`"
	}
	if k.Restart {
		s += ". Needs a restart"
	}
	return s
}
