// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite golden files")

const (
	testVersion  = "0.1.0-rc.1"
	testRevision = "0123456789abcdef0123456789abcdef01234567"
	testDate     = 1_796_000_000 // of every file
	testDeb      = "holdfast_0.1.0~rc.1-1_amd64.deb"
	testRPM      = "holdfast-0.1.0~rc.1-1.x86_64.rpm"
	testTar      = "holdfast_0.1.0-rc.1_linux_amd64.tar.gz"
	testSBOM     = "holdfast_0.1.0-rc.1_linux_amd64.cdx.json"
)

// shared is the directory with the packages of this test run.
var shared func() (string, error)

func TestMain(m *testing.M) {
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	dir, err := os.MkdirTemp("", "holdfast-packages-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a leftover is the worst there is
	shared = sync.OnceValues(func() (string, error) { return dir, buildInto(context.Background(), "..", dir) })
	return m.Run()
}

// packages builds for amd64, once for all tests.
func packages(t *testing.T) string {
	t.Helper()
	dir, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func buildInto(ctx context.Context, root, dir string) error {
	args := []string{"-root", root, "-out", dir, "-version", testVersion, "-revision", testRevision, "-date", fmt.Sprint(testDate), "-arch", "amd64"}
	return build(ctx, args, io.Discard, os.Stderr)
}

// need skips a test where a program is missing, and fails where nothing may be
// skipped.
func need(t *testing.T, programs ...string) {
	t.Helper()
	for _, p := range programs {
		if _, err := exec.LookPath(p); err == nil {
			continue
		}
		if os.Getenv("HOLDFAST_TEST_SKIP_NOTHING") != "" {
			t.Fatalf("needs %s, and nothing may be skipped", p)
		}
		t.Skipf("skipping: needs %s", p)
	}
}

// golden compares with a file in testdata, or writes it.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); d != "" {
		t.Errorf("%s differs; when that is meant, make golden (-want +got):\n%s", name, d)
	}
}

func TestTwoBuildsInTwoDirectoriesAreEqual(t *testing.T) {
	first := packages(t)
	elsewhere := filepath.Join(t.TempDir(), "elsewhere")
	copyTree(t, "..", elsewhere)
	second := t.TempDir()
	if err := buildInto(t.Context(), elsewhere, second); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{testDeb, testRPM, testTar, testSBOM, "SHA256SUMS"} {
		a, b := read(t, filepath.Join(first, name)), read(t, filepath.Join(second, name))
		if !bytes.Equal(a, b) {
			t.Errorf("%s: got %d and %d bytes that differ, want equal files", name, len(a), len(b))
		}
	}
}

// copyTree copies what a build reads, with other times.
func copyTree(t *testing.T, from, to string) {
	t.Helper()
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		switch {
		case d.IsDir() && (name == "bin" || name == "dist" || name == ".git"):
			return fs.SkipDir
		case d.IsDir():
			return os.MkdirAll(filepath.Join(to, name), 0o755)
		case !d.Type().IsRegular():
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, name), text, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestChecksumsAreThoseOfAllFiles(t *testing.T) {
	dir := packages(t)
	var want strings.Builder
	for _, name := range []string{testDeb, testRPM, testTar, testSBOM} {
		sum, err := checksum(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&want, "%s  %s\n", sum, name)
	}
	if d := cmp.Diff(want.String(), string(read(t, filepath.Join(dir, "SHA256SUMS")))); d != "" {
		t.Errorf("SHA256SUMS differs (-want +got):\n%s", d)
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != 5 {
		t.Errorf("got %d files, want 4 and their checksums", len(files))
	}
}

func TestBuildRefusesWhatItDoesNotKnow(t *testing.T) {
	for args, want := range map[string]string{
		"-arch sparc":   `unknown architecture "sparc": want some of amd64,arm64,arm`,
		"-format msi":   `unknown format "msi": want some of deb,rpm,tar`,
		"-version v1":   `unknown version "v1"`,
		"-date noon":    `read the date: `,
		"-version 1.-2": `unknown version "1.-2"`,
	} {
		err := build(t.Context(), append(strings.Fields(args), "-root", "..", "-revision", "r", "-out", t.TempDir()), io.Discard, io.Discard)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", args, err, want)
		}
	}
}

func TestDefaultVersionIsThatOfTheMakefile(t *testing.T) {
	var usage bytes.Buffer
	_ = build(t.Context(), []string{"-h"}, io.Discard, &usage)
	for line := range strings.Lines(string(read(t, "../Makefile"))) {
		if version, ok := strings.CutPrefix(line, "VERSION  ?= "); ok {
			if want := fmt.Sprintf("(default %q)", strings.TrimSpace(version)); !strings.Contains(usage.String(), want) {
				t.Errorf("got usage %s, want %s", usage.String(), want)
			}
			return
		}
	}
	t.Error("got no VERSION in the Makefile, want one")
}
