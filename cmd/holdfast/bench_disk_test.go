// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-mq/holdfast/appliance"
	"github.com/holdfast-mq/holdfast/appliance/disk"
)

// benchDisk runs bench disk for a moment. In memory, as /tmp is on some machines, the
// disk is said to be none, with exit code 1.
func benchDisk(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	args = append([]string{"bench", "disk", "--for", "100ms", "--space", "8MiB"}, args...)
	code = run(args, stdio{out: &stdout, err: &stderr})
	return code, stdout.String(), stderr.String()
}

func TestBenchDiskMeasuresAndKeepsWhatItFound(t *testing.T) {
	dir := t.TempDir()
	code, out, errs := benchDisk(t, "--data-dir", dir)
	for _, want := range []string{"Flush", "(p50)", "16 files at once", "Large writes", "durable messages/s", "Believable"} {
		if !strings.Contains(out, want) {
			t.Errorf("got %q, want it to contain %q", out, want)
		}
	}
	m := appliance.Measured(dir)
	if m == nil {
		t.Fatalf("got exit code %d, %q and nothing kept", code, errs)
	}
	want := exitOK
	if m.Trust.Opinion == disk.Broken {
		want = exitFailed
	}
	if code != want || m.Flush.Count < 1 || m.FileSystem == "" {
		t.Errorf("got exit code %d, kept %+v, want %d and a measurement", code, m, want)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("got %v, %v, want what is kept and nothing else", left, err)
	}
}

func TestBenchDiskIsReadByMachines(t *testing.T) {
	dir := t.TempDir()
	_, out, _ := benchDisk(t, "--dir", dir, "--output", "json")
	var m disk.Measurement
	if err := json.Unmarshal([]byte(out), &m); err != nil || m.Dir != dir || len(m.AtOnce) != 3 {
		t.Errorf("got %q, %v, want a measurement", out, err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("got %v, %v, want nothing kept of another directory", left, err)
	}
}

func TestBenchDiskSaysWhyItDoesNotMeasure(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--dir", dir, "--space", "1MiB"}, exitUsage, "at least 8MiB"},
		{[]string{"--dir", dir, "--for", "2h"}, exitUsage, "from 100ms to 1m"},
		{[]string{"--dir", dir, "--space", "1TiB"}, exitFailed, "use less with --space"},
		{[]string{"--dir", filepath.Join(dir, "none")}, exitFailed, "name a directory that this user may write to"},
	} {
		code, _, errs := benchDisk(t, c.args...)
		if code != c.code || !strings.Contains(errs, c.want) {
			t.Errorf("%q: got exit code %d and %q, want %d and %q", c.args, code, errs, c.code, c.want)
		}
	}
}
