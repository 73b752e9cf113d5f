// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestTarballListsEverythingOwnedByRoot(t *testing.T) {
	files := pack(t)
	var got []string
	for _, h := range files {
		got = append(got, fmt.Sprintf("%04o %s:%s %s", h.Mode, h.Uname, h.Gname, h.Name))
		if !h.ModTime.Equal(date) {
			t.Errorf("got date %v for %s, want the commit's, %v", h.ModTime, h.Name, date)
		}
	}
	want := []string{
		"0755 root:root holdfast_1/holdfast",
		"0644 root:root holdfast_1/holdfast.yaml",
		"0644 root:root holdfast_1/holdfast.service",
		"0644 root:root holdfast_1/LICENSE",
		"0644 root:root holdfast_1/README.md",
		"0644 root:root holdfast_1/CHANGELOG.md",
		"0644 root:root holdfast_1/docs/configuration.md",
		"0644 root:root holdfast_1/docs/cli.md",
		"0644 root:root holdfast_1/docs/errors.md",
		"0644 root:root holdfast_1/docs/updates.md",
		"0644 root:root holdfast_1/man/holdfast-apply.1",
		"0644 root:root holdfast_1/man/holdfast-bench.1",
		"0644 root:root holdfast_1/man/holdfast-ca.1",
		"0644 root:root holdfast_1/man/holdfast-check.1",
		"0644 root:root holdfast_1/man/holdfast-completion.1",
		"0644 root:root holdfast_1/man/holdfast-creds.1",
		"0644 root:root holdfast_1/man/holdfast-doctor.1",
		"0644 root:root holdfast_1/man/holdfast-init.1",
		"0644 root:root holdfast_1/man/holdfast-nats.1",
		"0644 root:root holdfast_1/man/holdfast-plan.1",
		"0644 root:root holdfast_1/man/holdfast-run.1",
		"0644 root:root holdfast_1/man/holdfast-schema.1",
		"0644 root:root holdfast_1/man/holdfast-status.1",
		"0644 root:root holdfast_1/man/holdfast-version.1",
		"0644 root:root holdfast_1/man/holdfast.1",
		"0644 root:root holdfast_1/man/holdfast.yaml.5",
		"0644 root:root holdfast_1/completions/_holdfast",
		"0644 root:root holdfast_1/completions/holdfast.bash",
		"0644 root:root holdfast_1/completions/holdfast.fish",
		"0644 root:root holdfast_1/completions/holdfast.ps1",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("contents differ (-want +got):\n%s", d)
	}
}

func TestTarballsOfTheSameFilesAreEqual(t *testing.T) {
	first := write(t)
	second := write(t)
	if !bytes.Equal(first, second) {
		t.Error("got two different tarballs, want equal ones")
	}
}

var date = time.Unix(1_700_000_000, 0).UTC()

func write(t *testing.T) []byte {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "holdfast")
	if err := os.WriteFile(binary, []byte("not really a program"), 0o700); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	files, err := contents("..", binary)
	if err != nil {
		t.Fatal(err)
	}
	if err := writeTarball(&b, "holdfast_1", files, date); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func pack(t *testing.T) []*tar.Header {
	t.Helper()
	zr, err := gzip.NewReader(bytes.NewReader(write(t)))
	if err != nil {
		t.Fatal(err)
	}
	var out []*tar.Header
	for tr := tar.NewReader(zr); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, h)
	}
}
