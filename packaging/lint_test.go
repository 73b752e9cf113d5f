// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestLintianHasNothingToSay(t *testing.T) {
	need(t, "lintian")
	// What it says about who runs it goes to stderr.
	out, err := exec.CommandContext(t.Context(), "lintian", "--pedantic", "-I", "-E", "--tag-display-limit", "0",
		filepath.Join(packages(t), testDeb)).Output()
	if err != nil || len(out) > 0 {
		t.Errorf("got %v and\n%s\nwant silence, or a line with its reason in deb/holdfast.lintian-overrides", err, out)
	}
}

func TestRPMLintHasNothingToSay(t *testing.T) {
	need(t, "rpmlint")
	// It unpacks with cpio, which follows the absolute paths of the payload: as root it
	// would install the package here. So root sees a system that can't be written.
	args := []string{"rpmlint", "-r", "rpm/holdfast.rpmlintrc", filepath.Join(packages(t), testRPM)}
	if os.Geteuid() == 0 {
		const alone = `mount --make-rprivate / && mount -o remount,bind,ro / && mount -t tmpfs tmpfs /mnt && TMPDIR=/mnt exec "$@"`
		args = append([]string{"unshare", "--mount", "sh", "-c", alone, "sh"}, args...)
	}
	_, before := os.Lstat("/usr/share/licenses/holdfast")
	out, err := exec.CommandContext(t.Context(), args[0], args[1:]...).CombinedOutput()
	if _, after := os.Lstat("/usr/share/licenses/holdfast"); before != nil && after == nil {
		t.Error("the package is installed on this machine now")
	}
	if err != nil || !strings.Contains(string(out), " 0 errors, 0 warnings") {
		t.Errorf("got %v and\n%s\nwant silence, or a line with its reason in rpm/holdfast.rpmlintrc", err, out)
	}
}

func TestShellcheckHasNothingToSay(t *testing.T) {
	need(t, "shellcheck")
	args := append([]string{"--shell=sh", "--severity=style"}, scripts(t)...)
	if out, err := exec.CommandContext(t.Context(), "shellcheck", args...).CombinedOutput(); err != nil {
		t.Errorf("got %v and\n%s\nwant silence", err, out)
	}
}

func scripts(t *testing.T) []string {
	t.Helper()
	var out []string
	for _, pattern := range []string{"deb/p*", "rpm/p*"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, found...)
	}
	if len(out) != 7 {
		t.Fatalf("got scripts %q, want 3 of deb and 4 of rpm", out)
	}
	return out
}

// TestEveryExceptionHasAReason: a comment in the line before it.
func TestEveryExceptionHasAReason(t *testing.T) {
	for _, name := range []string{"deb/holdfast.lintian-overrides", "rpm/holdfast.rpmlintrc"} {
		explained := false
		for line := range strings.Lines(string(read(t, name))) {
			comment := strings.HasPrefix(line, "#")
			// The group of two files, and the mode of each, are one decision.
			if !comment && !explained && !strings.Contains(line, "non-standard-dir-perm") && !strings.Contains(line, "non-readable") {
				t.Errorf("%s: got %q without a reason before it, want one", name, line)
			}
			explained = comment
		}
	}
}
