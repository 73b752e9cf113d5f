// SPDX-License-Identifier: Apache-2.0

//go:build process && linux

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// language is one that this machine can run snippets of.
type language struct {
	name  string
	build func(t *testing.T, dir, source string) []string // the command to run
}

// built compiles with a tool and returns the program.
func built(t *testing.T, out string, compiler ...string) []string {
	t.Helper()
	if text, err := exec.Command(compiler[0], compiler[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%q: %v\n%s", compiler, err, text)
	}
	return []string{out}
}

// languages are those that can be run here. The Go ones use the modules of this
// repository, so that no test needs the network.
func languages(t *testing.T) []language {
	t.Helper()
	tool := filepath.Join(t.TempDir(), "nats")
	built(t, tool, "go", "build", "-o", tool, "github.com/nats-io/natscli/nats")
	self, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(filepath.Dir(tool), "holdfast")); err != nil {
		t.Fatal(err)
	}
	all := []language{
		{"go", func(t *testing.T, dir, source string) []string {
			return built(t, filepath.Join(dir, "example"), "go", "build", "-o", filepath.Join(dir, "example"), source)
		}},
		{"cli", func(_ *testing.T, _, source string) []string {
			return []string{"env", "PATH=" + filepath.Dir(tool) + ":" + os.Getenv("PATH"), "sh", source}
		}},
	}
	if _, err := exec.LookPath("cc"); err != nil || !exists("/usr/include/nats/nats.h") {
		t.Log("skipping: snippets in C need cc and libnats-dev")
		return all
	}
	return append(all, language{"c", func(t *testing.T, dir, source string) []string {
		return built(t, filepath.Join(dir, "example"), "cc", "-Wall", "-Werror", source, "-o", filepath.Join(dir, "example"), "-lnats")
	}})
}

// pasted is a program that was pasted and built, in a directory with what it needs.
type pasted struct {
	language, user, dir string
	run                 []string
	n                   *node
}

func (n *node) paste(t *testing.T, l language, user string) pasted {
	t.Helper()
	p := pasted{language: l.name, user: user, dir: t.TempDir(), n: n}
	source := filepath.Join(p.dir, map[string]string{"go": "main.go", "c": "example.c", "cli": "example.sh"}[l.name])
	text := n.creds(exitOK, nil, "show", "shop/"+user, "--snippet", l.name)
	checkOutput(t, text)
	_, ca, _ := n.secretly("ca")
	for name, data := range map[string]string{source: text, filepath.Join(p.dir, "ca.crt"): ca, filepath.Join(p.dir, user+".creds"): string(read(t, n.credsFile(user)))} {
		if err := os.WriteFile(name, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p.run = l.build(t, p.dir, source)
	return p
}

// says runs the program, which has to end well or not and to say something.
func (p pasted) says(t *testing.T, well bool, want string) {
	t.Helper()
	cmd := exec.Command(p.run[0], p.run[1:]...)
	cmd.Dir = p.dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + p.dir, "HOLDFAST_CONFIG=" + p.n.file()}
	out, err := cmd.CombinedOutput()
	if (err == nil) != well || !strings.Contains(string(out), want) {
		t.Errorf("%s as %s: got %v and %q, want %q", p.language, p.user, err, out, want)
	}
}

// Not in parallel with the others: compilers take all there is, and the
// programs have time limits of their own.
func TestProcessPastedSnippetsWorkAndShowWhatIsRefused(t *testing.T) {
	users := "      old: {permissions: {publish: [\"*.legacy\"]}}\n      mute: {permissions: {subscribe: [x]}}\n"
	n := newNode(t, who+users).start()
	tlsNode := newNodeBeyond(t).start()
	var all []pasted
	for _, l := range languages(t) {
		tlsNode.paste(t, l, "checkout").says(t, true, map[string]string{"go": "stored in ORDERS", "cli": "Stored in Stream: ORDERS", "c": "stored in ORDERS"}[l.name])
		for user, want := range map[string]string{"checkout": "ORDERS", "boss": "ORDERS", "auditor": "ORDERS", "old": "ORDERS", "packer": "hello", "mute": ""} {
			publish(t, n.mustLogin("boss", n.credsFile("boss")).js, "orders.a", "hello") // for the worker
			p := n.paste(t, l, user)
			p.says(t, true, want)
			if user == "checkout" || user == "packer" && l.name != "cli" {
				all = append(all, p)
			}
		}
	}
	// The same programs with a role that is not theirs any more.
	text := replaced(t, who+users, "{role: producer, streams: [ORDERS]}", "{role: observer}")
	n.reload(replaced(t, text, "{role: worker, consumers: [ORDERS/packing]}", "{role: observer}"))
	var running sync.WaitGroup
	for _, p := range all {
		running.Go(func() { p.says(t, p.language == "go" && p.user == "packer", "ermissions Violation for Publish to ") })
	}
	running.Wait()
}
