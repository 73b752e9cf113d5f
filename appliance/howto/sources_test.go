// SPDX-License-Identifier: Apache-2.0

package howto

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// ofLinux are files that are compiled everywhere and speak of Linux, for what is there alone.
func ofLinux() []string {
	return []string{
		"appliance/doctor/descriptors.go", "appliance/doctor/memory.go", "appliance/doctor/node.go", "appliance/doctor/ports.go",
		"appliance/doctor/clock.go", "appliance/doctor/store.go", "appliance/doctor/unit.go", "appliance/tune/apply.go",
		"appliance/service/notify.go", "appliance/howto/howto.go", "appliance/howto/machine.go",
		"cmd/holdfast/cluster_invite.go", "cmd/holdfast/cluster_join.go", "cmd/holdfast/tune.go", "cmd/holdfast/upgradecheck.go", // examples of the manual
		"cmd/holdfast/system_other.go",
	}
}

// TestHintsHaveTheirCommandsFromHere reads the text in all sources that Windows has, too.
func TestHintsHaveTheirCommandsFromHere(t *testing.T) {
	commands := regexp.MustCompile(`\b(systemctl|journalctl|sudo|chmod|chown|dmesg|apt-get) `)
	for _, top := range []string{"appliance", "bootstrap", "cmd/holdfast"} {
		err := filepath.WalkDir(filepath.Join("../..", top), func(path string, d fs.DirEntry, err error) error {
			name := strings.TrimPrefix(filepath.ToSlash(path), "../../")
			if err != nil || d.IsDir() || !strings.HasSuffix(name, ".go") || slices.Contains(ofLinux(), name) || otherSystem(name) {
				return err
			}
			for _, text := range texts(t, path) {
				if at := commands.FindString(text); at != "" {
					t.Errorf("%s: %q is not on every system: it belongs into package howto, whose words are for each", name, at)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range ofLinux() {
		if _, err := os.Stat(filepath.Join("../..", name)); err != nil {
			t.Errorf("%s is listed and not there", name)
		}
	}
}

func otherSystem(name string) bool {
	for _, end := range []string{"_test.go", "_linux.go", "_unix.go", "_darwin.go"} {
		if strings.HasSuffix(name, end) {
			return true
		}
	}
	return false
}

// texts are the literals of a file.
func texts(t *testing.T, path string) (all []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
			all = append(all, l.Value)
		}
		return true
	})
	return all
}
