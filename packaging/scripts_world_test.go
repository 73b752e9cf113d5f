// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// world is a machine that maintainer scripts run on: its paths are below a
// directory, and all it can run are stubs that write down how they were called,
// and a few real tools that change nothing else.
type world struct {
	root, log string
	env       []string
}

// situation is what a script finds.
type situation struct {
	name   string
	script string // deb/postinst …
	args   string
	env    []string // for the stubs, FAIL is a pattern of calls that fail; for the scripts PURGE_DATA
	files  map[string]string
	links  map[string]string // into the real world
	lacks  string            // a program that is not installed
	again  bool              // run a second time, with nothing failing
}

// stubs write down their arguments. What they answer is in the environment.
var stubs = map[string]string{
	"systemctl": `case "$*" in
"is-active holdfast.service") echo "${STATE:-inactive}"; [ "${STATE:-}" = active ]; exit ;;
*is-enabled*) exit "${ENABLED:-0}" ;;
esac`,
	"deb-systemd-helper": `case "$*" in
*was-enabled*) exit "${ENABLED:-0}" ;;
# It takes away only what it has put there.
unmask*) [ -n "${MASKED_BY_ADMIN:-}" ] || [ "$(readlink "$ROOT/etc/systemd/system/holdfast.service")" != /dev/null ] ||
	rm "$ROOT/etc/systemd/system/holdfast.service" ;;
esac`,
	"deb-systemd-invoke": ``,
	"systemd-sysusers":   ``,
	"adduser":            ``,
	"groupadd":           ``,
	"useradd":            ``,
	"chgrp":              ``,
	"dpkg-statoverride":  `exit "${OVERRIDE:-1}"`,
	"getent":             `exit "${USER_EXISTS:-2}"`,
	"stat":               `echo "${GROUP:-root}"`,
}

// holdfastStub answers what the new binary finds.
const holdfastStub = `[ "${CHECK:-0}" = 0 ] || echo "holdfast: (what upgrade-check says)" >&2
exit "${CHECK:-0}"`

func newWorld(t *testing.T, s situation, systemd bool) world {
	t.Helper()
	w := world{root: filepath.Join(t.TempDir(), "root")}
	w.log = filepath.Join(filepath.Dir(w.root), "log")
	bin := filepath.Join(filepath.Dir(w.root), "bin")
	for _, dir := range []string{bin, w.root + "/usr/bin", w.root + "/etc/holdfast/holdfast.d", w.root + "/etc/systemd/system", w.root + "/var/lib"} {
		mkdir(t, dir)
	}
	if systemd {
		mkdir(t, w.root+"/run/systemd/system")
	}
	for name, body := range stubs {
		if name != s.lacks {
			w.stub(t, filepath.Join(bin, name), name, body)
		}
	}
	w.stub(t, w.root+"/usr/bin/holdfast", "/usr/bin/holdfast", holdfastStub)
	for _, name := range []string{"sh", "sed", "tail", "tr", "readlink", "find", "rm", "rmdir"} {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(path, filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	write(t, w.root+"/etc/holdfast/holdfast.yaml", "")
	for name, text := range s.files {
		write(t, w.root+name, text)
	}
	for name, to := range s.links {
		if err := os.Symlink(to, w.root+name); err != nil {
			t.Fatal(err)
		}
	}
	w.env = append([]string{"PATH=" + bin, "ROOT=" + w.root}, s.env...)
	return w
}

func (w world) stub(t *testing.T, path, name, body string) {
	t.Helper()
	text := fmt.Sprintf("#!/bin/sh\necho \"> %[1]s $*\" >>'%[2]s'\ncase '%[1]s '\"$*\" in ${FAIL:-none}) exit 1 ;; esac\n%[3]s\n", name, w.log, body)
	write(t, path, text)
	if err := os.Chmod(path, 0o755); err != nil {
		t.Fatal(err)
	}
}

// run runs a script with its paths in the world, and returns what was called,
// what was said, and how it ended, in this order.
func (w world) run(t *testing.T, script string, args ...string) string {
	t.Helper()
	text := string(read(t, script))
	var moves []string
	for _, dir := range []string{"/run/", "/etc/", "/var/", "/usr/bin/"} {
		moves = append(moves, dir, w.root+dir)
	}
	text = strings.NewReplacer(moves...).Replace(text)
	path := filepath.Join(filepath.Dir(w.root), "script")
	write(t, path, text)
	out, err := os.OpenFile(w.log, os.O_CREATE|os.O_APPEND|os.O_RDWR|os.O_TRUNC, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd := exec.CommandContext(t.Context(), "/bin/sh", append([]string{path}, args...)...)
	cmd.Env, cmd.Stdout, cmd.Stderr = w.env, out, out
	code := 0
	var exit *exec.ExitError
	if err := cmd.Run(); errors.As(err, &exit) {
		code = exit.ExitCode()
	} else if err != nil {
		t.Fatal(err)
	}
	said := strings.ReplaceAll(string(read(t, w.log)), w.root, "")
	return fmt.Sprintf("%sexit %d\n", said, code)
}

// left lists what is in a directory of the world.
func (w world) left(t *testing.T, dirs ...string) string {
	t.Helper()
	var out []string
	for _, dir := range dirs {
		err := filepath.WalkDir(w.root+dir, func(path string, _ os.DirEntry, err error) error {
			if errors.Is(err, os.ErrNotExist) {
				return nil
			}
			out = append(out, strings.TrimPrefix(path, w.root))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func mkdir(t *testing.T, dir string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	mkdir(t, filepath.Dir(path))
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
