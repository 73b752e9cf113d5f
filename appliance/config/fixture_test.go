// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-mq/holdfast/appliance/config"
	"github.com/holdfast-mq/holdfast/appliance/diag"
)

var update = flag.Bool("update", false, "rewrite golden files and docs/configuration.md")

// options for fixtures: a volume of 100 GiB and two keys for the nats block.
func options(file string) config.Options {
	return config.Options{
		File:   file,
		Volume: func(string) (int64, error) { return 100 << 30, nil },
		AllowNATSKey: func(name string) (string, bool) {
			return "Holdfast owns it: set listen instead", strings.HasPrefix(name, "max_") || name == "ping_interval"
		},
	}
}

// marker is what a fixture says of its own line: # ERROR:12 "rx", with the column, and an
// expression for code, key, what and fix.
var marker = regexp.MustCompile(`# (ERROR|WARNING):(\d+) ("(?:[^"\\]|\\.)*")`)

type want struct {
	severity string
	file     string
	line     int
	col      int
	rx       *regexp.Regexp
}

func wanted(t *testing.T, file string) []want {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out []want
	for i, line := range strings.Split(string(text), "\n") {
		for _, m := range marker.FindAllStringSubmatch(line, -1) {
			col, _ := strconv.Atoi(m[2])
			text := strings.ReplaceAll(m[3][1:len(m[3])-1], `\"`, `"`)
			out = append(out, want{strings.ToLower(m[1]), file, i + 1, col, regexp.MustCompile(text)})
		}
	}
	return out
}

func compare(t *testing.T, got diag.List, wants []want) {
	t.Helper()
	for _, p := range got {
		text := string(p.Code) + " " + p.Path + ": " + p.What + " | " + p.Fix
		found := false
		for i, w := range wants {
			if w.rx != nil && w.severity == p.Severity.String() && w.file == p.Pos.File && w.line == p.Pos.Line && w.col == p.Pos.Col && w.rx.MatchString(text) {
				wants[i].rx, found = nil, true
				break
			}
		}
		if !found {
			t.Errorf("got %s at %s: %s, want it marked in the fixture", p.Severity, p.Pos, text)
		}
	}
	for _, w := range wants {
		if w.rx != nil {
			t.Errorf("got nothing, want %s at %s:%d:%d matching %q", w.severity, w.file, w.line, w.col, w.rx)
		}
	}
}

// complete checks that a problem can be acted on.
func complete(t *testing.T, l diag.List) {
	t.Helper()
	for _, p := range l {
		if p.What == "" || p.Fix == "" || p.Code == "" || p.Pos.String() == "" {
			t.Errorf("got %#v, want what, fix, code and a position", p)
		}
	}
}

func TestBadFilesAreReportedAtTheirPlaces(t *testing.T) {
	files, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("got %d fixtures, %v, want some", len(files), err)
	}
	for _, f := range files {
		t.Run(filepath.Base(f), func(t *testing.T) {
			_, l := config.Load(options(f))
			wants := wanted(t, f)
			overlays, _ := filepath.Glob(strings.TrimSuffix(f, ".yaml") + ".d/*.yaml")
			for _, o := range overlays {
				wants = append(wants, wanted(t, o)...)
			}
			compare(t, l, wants)
			complete(t, l)
		})
	}
}

func TestGoodFilesHaveNoProblems(t *testing.T) {
	files, err := filepath.Glob("testdata/good/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("got %d fixtures, %v, want some", len(files), err)
	}
	for _, f := range files {
		t.Run(filepath.Base(f), func(t *testing.T) {
			cfg, l := config.Load(options(f))
			if len(l) > 0 {
				var out bytes.Buffer
				diag.Print(&out, l, cfg.Source)
				t.Errorf("got problems, want none:\n%s", out.String())
			}
		})
	}
}

func TestPrintedProblemsLookAsTheyShould(t *testing.T) {
	for _, name := range []string{"syntax", "unknown", "values", "workqueue", "inline"} {
		t.Run(name, func(t *testing.T) {
			cfg, l := config.Load(options("testdata/bad/" + name + ".yaml"))
			var out bytes.Buffer
			diag.Print(&out, l, cfg.Source)
			golden(t, "testdata/bad/"+name+".want", out.Bytes())
		})
	}
}

func golden(t *testing.T, file string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("got another text than %s (-want +got); rewrite it with -update:\n%s", file, diff)
	}
}
