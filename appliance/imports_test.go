// SPDX-License-Identifier: Apache-2.0

package appliance_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/holdfast-mq/holdfast"

const (
	natsServer = "github.com/nats-io/nats-server/"
	natsClient = "github.com/nats-io/nats.go"
	jsm        = "github.com/nats-io/jsm.go"
	natsCLI    = "github.com/nats-io/natscli/"
	kardianos  = "github.com/kardianos/service"
	cobra      = "github.com/spf13/cobra"
)

// importRules is who may import whom. Data flows one way: configuration →
// topology and settings → engine and client → appliance → commands. parts never
// know each other; the appliance wires them.
var importRules = map[string]struct {
	ours   []string // the only packages of ours it may import
	never  []string // prefixes it must not import itself
	noDeps []string // prefixes that must not be anywhere below it
}{
	"appliance/acl":       {noDeps: []string{"github.com/"}},
	"appliance/diag":      {noDeps: []string{"github.com/", "golang.org/", "go.yaml.in/"}},
	"appliance/config":    {ours: []string{"appliance/acl", "appliance/diag", "appliance/howto"}, noDeps: []string{"github.com/nats-io/"}},
	"appliance/datadir":   {ours: []string{"appliance/acl", "appliance/diag", "appliance/howto"}, noDeps: []string{"github.com/nats-io/"}},
	"appliance/disk":      {noDeps: []string{"github.com/nats-io/"}},
	"appliance/engine":    {ours: []string{"appliance/diag", "appliance/howto"}, never: []string{natsClient, jsm}},
	"appliance/admin":     {ours: []string{"appliance/acl", "appliance/config", "appliance/diag", "appliance/howto", "bootstrap"}, noDeps: []string{"github.com/nats-io/"}},
	"appliance/certs":     {ours: []string{"appliance/acl", "appliance/diag", "appliance/howto"}, noDeps: []string{"github.com/nats-io/"}},
	"appliance/doctor":    {ours: []string{"appliance/acl", "appliance/certs", "appliance/config", "appliance/datadir", "appliance/diag", "appliance/disk", "appliance/howto", "systemd"}, noDeps: []string{"github.com/nats-io/"}},
	"appliance/howto":     {ours: []string{"appliance/acl"}, noDeps: []string{"github.com/nats-io/"}},
	"appliance/ingest":    {never: []string{natsServer, natsClient, jsm}},
	"appliance/join":      {ours: []string{"appliance/diag"}, noDeps: []string{"github.com/nats-io/"}},
	"appliance/loadtest":  {ours: []string{"appliance/diag"}, noDeps: []string{natsServer}},
	"appliance/metrics":   {noDeps: []string{"github.com/nats-io/"}},
	"appliance/porttest":  {noDeps: []string{"github.com/"}},
	"appliance/service":   {ours: []string{"appliance/acl", "appliance/diag", "appliance/howto", "systemd"}, noDeps: []string{"github.com/nats-io/"}},
	"appliance/tune":      {ours: []string{"appliance/datadir", "appliance/diag", "appliance/disk"}, noDeps: []string{"github.com/nats-io/"}},
	"bootstrap":           {ours: []string{"appliance/config", "appliance/diag"}, never: []string{"os", "net", "log/slog"}, noDeps: []string{"github.com/nats-io/"}},
	"bootstrap/identity":  {ours: []string{"appliance/acl", "appliance/diag", "appliance/howto"}, noDeps: []string{natsServer, natsClient}},
	"bootstrap/jetstream": {ours: []string{"appliance/diag", "bootstrap"}, noDeps: []string{natsServer}},
	"appliance": {
		ours: []string{"appliance/admin", "appliance/certs", "appliance/config", "appliance/datadir", "appliance/diag", "appliance/disk", "appliance/engine", "appliance/howto", "appliance/ingest", "appliance/join", "appliance/metrics",
			"appliance/service", "bootstrap", "bootstrap/identity", "bootstrap/jetstream"},
		never: []string{natsServer, natsClient, jsm, cobra, kardianos},
	},
	"cmd/holdfast": {
		ours: []string{"appliance", "appliance/acl", "appliance/admin", "appliance/config", "appliance/diag", "appliance/disk", "appliance/doctor", "appliance/howto", "appliance/loadtest", "appliance/service", "appliance/tune", "bootstrap",
			"cmd/internal/child"}, // the node that `bench` compares with is a process of its own
		never: []string{natsServer, kardianos},
	},
}

// only lists what a single package of ours may import.
var only = map[string][]string{
	natsServer: {"appliance/engine"},
	// A load is worth something only as a client's, over the client port; the
	// command tells the errors of the nats tool, which are the client's.
	natsClient: {"appliance/loadtest", "bootstrap/jetstream", "cmd/holdfast"},
	natsCLI:    {"cmd/holdfast"},
	kardianos:  {"appliance/service"},
	cobra:      {"cmd/holdfast"},
}

type goPackage struct {
	ImportPath string
	Imports    []string
	Deps       []string
}

func listPackages(t *testing.T) map[string]goPackage {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Imports,Deps", module+"/...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	pkgs := map[string]goPackage{}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p goPackage
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return pkgs
		} else if err != nil {
			t.Fatal(err)
		}
		pkgs[strings.TrimPrefix(p.ImportPath, module+"/")] = p
	}
}

func TestImportTableHolds(t *testing.T) {
	pkgs := listPackages(t)
	for name, rule := range importRules {
		p, ok := pkgs[name]
		if !ok {
			t.Errorf("package %s is in the import table and not in the tree", name)
			continue
		}
		for _, i := range p.Imports {
			if own, ok := strings.CutPrefix(i, module+"/"); ok && !slices.Contains(rule.ours, own) {
				t.Errorf("%s imports %s, which the import table does not allow", name, own)
			}
			for _, n := range rule.never {
				if i == n || strings.HasPrefix(i, n) && strings.Contains(n, "/") {
					t.Errorf("%s imports %s, which the import table forbids", name, i)
				}
			}
		}
		for _, d := range p.Deps {
			for _, n := range rule.noDeps {
				if strings.HasPrefix(d, n) && !strings.HasPrefix(d, module) {
					t.Errorf("%s depends on %s, which the import table forbids", name, d)
				}
			}
		}
	}
	for name, p := range pkgs {
		if _, ok := importRules[name]; !ok && (strings.HasPrefix(name, "appliance") || strings.HasPrefix(name, "bootstrap")) {
			t.Errorf("package %s has no line in the import table", name)
		}
		for lib, owners := range only {
			if name == "cmd/bench" || strings.HasPrefix(name, "cmd/bench/") || name == "cmd/torture" || name == "cmd/internal/trio" { // all work on a stock server from outside
				continue
			}
			if slices.ContainsFunc(p.Imports, func(i string) bool { return strings.HasPrefix(i, lib) }) && !slices.Contains(owners, name) {
				t.Errorf("%s imports %s, which only %v may", name, lib, owners)
			}
		}
	}
}

func TestEveryPackageSaysWhatItOwns(t *testing.T) {
	for name := range listPackages(t) {
		dir := filepath.Join("..", name)
		docs := 0
		eachGoFile(t, dir, false, func(path string, text []byte) {
			if strings.HasSuffix(path, "_test.go") {
				return
			}
			base := filepath.Base(name)
			if bytes.Contains(text, []byte("\n// Package "+base+" ")) || bytes.Contains(text, []byte("\n// Command "+base+" ")) {
				docs++
			}
		})
		if docs != 1 {
			t.Errorf("package %s: got %d package comments, want 1", name, docs)
		}
	}
}

func TestEveryGoFileHasALicence(t *testing.T) {
	const header = "// SPDX-License-Identifier: Apache-2.0\n\n"
	eachGoFile(t, "..", true, func(path string, text []byte) {
		if !bytes.HasPrefix(text, []byte(header)) {
			t.Errorf("%s does not start with %q", path, strings.TrimSpace(header))
		}
	})
}

// TestFilesStaySmall keeps a newcomer able to read a file at one sitting.
func TestFilesStaySmall(t *testing.T) {
	const most = 500
	eachGoFile(t, "..", true, func(path string, text []byte) {
		if n := bytes.Count(text, []byte("\n")); n > most && !strings.HasSuffix(path, "_test.go") {
			t.Errorf("%s has %d lines, more than %d: split it", path, n, most)
		}
	})
}

func eachGoFile(t *testing.T, root string, deep bool, visit func(path string, text []byte)) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && (!deep || strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata"):
			return fs.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".go":
			return nil
		}
		text, err := os.ReadFile(path)
		if err == nil {
			visit(path, text)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestDependenciesAreExplained keeps docs/dependencies.md and go.mod equal.
func TestDependenciesAreExplained(t *testing.T) {
	doc, err := os.ReadFile("../docs/dependencies.md")
	if err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	direct := map[string]bool{}
	for s := bufio.NewScanner(bytes.NewReader(mod)); s.Scan(); {
		line := strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(s.Text()), "require "))
		name, rest, ok := strings.Cut(line, " v")
		if ok && strings.Contains(name, "/") && !strings.Contains(rest, "// indirect") && !strings.HasPrefix(line, "module") {
			direct[name] = true
		}
	}
	if len(direct) < 5 {
		t.Fatalf("got %d direct dependencies from go.mod, want more: is the test reading it right?", len(direct))
	}
	for name := range direct {
		if !bytes.Contains(doc, []byte("| "+name+" |")) {
			t.Errorf("direct dependency %s has no line in docs/dependencies.md", name)
		}
	}
	for s := bufio.NewScanner(bytes.NewReader(doc)); s.Scan(); {
		cells := strings.Split(s.Text(), "|")
		if len(cells) < 3 || !strings.Contains(cells[1], "/") {
			continue
		}
		if name := strings.TrimSpace(cells[1]); !direct[name] {
			t.Errorf("docs/dependencies.md explains %s, which is not a direct dependency", name)
		}
	}
}
