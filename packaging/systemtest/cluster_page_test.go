// SPDX-License-Identifier: Apache-2.0

//go:build system && linux

package systemtest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// mostCommands is what a way to three nodes may take.
const mostCommands = 9

// pageStep is a block of docs/cluster.md: commands, or a part of a file.
type pageStep struct {
	on   []int  // the machines, as indexes
	file string // of a part of a file
	text string
}

var (
	fence       = regexp.MustCompile("(?s)```(sh|yaml)\n(.*?)```")
	machineName = regexp.MustCompile(`\bn([123])\b`)
	fileName    = regexp.MustCompile("`(/etc/[^`]+)`")
	betweenTwo  = regexp.MustCompile(`^(.+) \| ssh n([123]) (.+)$`)
)

// clusterSteps reads a section. The line before a block says where it is for, up to the
// first full stop.
func clusterSteps(t *testing.T, section string) []pageStep {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "cluster.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, body, found := strings.Cut(string(text), "\n## "+section+"\n")
	if !found {
		t.Fatalf("got no section %q on the page", section)
	}
	body, _, _ = strings.Cut(body, "\n## ")
	var out []pageStep
	commands, from := map[string]bool{}, 0
	for _, m := range fence.FindAllStringSubmatchIndex(body, -1) {
		paragraphs := strings.Split(strings.TrimSpace(body[from:m[0]]), "\n\n")
		intro := paragraphs[len(paragraphs)-1]
		from = m[1]
		s := pageStep{text: body[m[4]:m[5]]}
		where, _, _ := strings.Cut(intro, ". ")
		for _, name := range machineName.FindAllStringSubmatch(where, -1) {
			s.on = append(s.on, int(name[1][0]-'1'))
		}
		if body[m[2]:m[3]] == "yaml" {
			if file := fileName.FindStringSubmatch(intro); file != nil {
				s.file = file[1]
			}
		}
		if len(s.on) == 0 || body[m[2]:m[3]] == "yaml" && s.file == "" {
			t.Fatalf("got %q before a block, want to read which machine and file it is for", intro)
		}
		for line := range strings.Lines(s.text) {
			if s.file == "" {
				commands[line] = true
			}
		}
		out = append(out, s)
	}
	if len(commands) == 0 || len(commands) > mostCommands {
		t.Fatalf("got %d commands in section %q, want at most %d", len(commands), section, mostCommands)
	}
	return out
}

// followAll does what a section says, on several machines at once where a block is for them.
func followAll(t *testing.T, nodes []*container, section string) {
	t.Helper()
	for _, c := range nodes {
		c.answer()
	}
	for _, s := range clusterSteps(t, section) {
		errs := make([]error, len(nodes))
		var all sync.WaitGroup
		for _, i := range s.on {
			if s.file != "" {
				nodes[i].edit(s.file, s.text)
				continue
			}
			all.Go(func() { errs[i] = typeAll(nodes, nodes[i], s.text) })
		}
		all.Wait()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
	}
}

// typeAll runs the lines of a block on a machine, until one fails.
func typeAll(nodes []*container, c *container, block string) error {
	for line := range strings.Lines(block) {
		line = strings.TrimSpace(line)
		begin := time.Now()
		if err := typeLine(nodes, c, line); err != nil {
			return err
		}
		c.t.Logf("%s, %v: %s", c.host, time.Since(begin).Round(100*time.Millisecond), line)
	}
	return nil
}

// typeLine runs a line on a machine. What it gives to ssh, another machine runs.
func typeLine(nodes []*container, c *container, line string) error {
	m := betweenTwo.FindStringSubmatch(line)
	if m == nil {
		_, err := c.typed("", line)
		return err
	}
	out, err := c.typed("", m[1])
	if err != nil {
		return err
	}
	_, err = nodes[m[2][0]-'1'].typed(out, m[3])
	return err
}

// typed returns what a command prints.
func (c *container) typed(stdin, command string) (string, error) {
	r := c.feed(stdin, "set -e; cd /root; "+command)
	if r.code != 0 {
		return "", fmt.Errorf("%s on %s: got exit code %d:\n%s%s", command, c.host, r.code, r.out, r.err)
	}
	return r.out, nil
}

// edit adds blocks to a file, as the page says: below their key where it is there
// already, else at the end.
func (c *container) edit(file, blocks string) {
	c.t.Helper()
	data, err := os.ReadFile(filepath.Join(c.root, file))
	if err != nil {
		c.t.Fatal(err)
	}
	text := string(data)
	for _, block := range strings.Split(strings.TrimSpace(blocks), "\n\n") {
		key, below, _ := strings.Cut(block, "\n")
		if at := regexp.MustCompile(`(?m)^` + key + `.*\n`).FindStringIndex(text); at != nil {
			text = text[:at[1]] + below + "\n" + text[at[1]:]
		} else {
			text += "\n" + block + "\n"
		}
	}
	c.write(file, text)
}
