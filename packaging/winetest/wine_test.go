// SPDX-License-Identifier: Apache-2.0

//go:build wine && linux

package winetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-mq/holdfast/packaging/nest"
)

// patience bounds every wait; a loaded machine needs a good part of it.
const patience = 150 * time.Second

// installed is where MSI and zip put the program; what has a space in it has to be quoted.
const installed = `C:\Program Files\Holdfast\holdfast.exe`

// windows is a Windows of its own, without a window.
type windows struct {
	t      *testing.T
	root   string // of the Debian that Wine is in
	prefix string // in it
	creds  string // of the administrator; "" where the starter has them
}

// boot makes a new Windows, whose services run until the end of the test.
func boot(t *testing.T) *windows {
	t.Helper()
	w := &windows{t: t, root: filepath.Join(os.Getenv(workDirVar), "root"), prefix: "/home/w/" + t.Name()}
	if err := nest.Tell(exec.Command("cp", "--archive", filepath.Join(w.root, pristine), filepath.Join(w.root, w.prefix))); err != nil {
		t.Fatal(err)
	}
	w.must("wineserver", "-p")
	t.Cleanup(func() { w.try("wineserver", "-k") })
	return w
}

type result struct {
	code int
	out  string
}

// try runs a program. What it prints goes to a file: services that it starts keep its
// output, and would keep a pipe open.
func (w *windows) try(program string, args ...string) result {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(w.t.Context()), patience)
	defer cancel()
	cmd := wine(ctx, w.root, w.prefix, append([]string{program}, args...)...)
	out, err := os.CreateTemp(w.t.TempDir(), "out")
	if err != nil {
		w.t.Fatal(err)
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	err = cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		w.t.Fatalf("%s %q: %v", program, args, err)
	}
	text, err := os.ReadFile(out.Name())
	if err != nil {
		w.t.Fatal(err)
	}
	return result{cmd.ProcessState.ExitCode(), string(text)}
}

func (w *windows) must(program string, args ...string) string {
	w.t.Helper()
	r := w.try(program, args...)
	if r.code != 0 {
		w.t.Fatalf("%s %q: got exit code %d, want 0: %s", program, args, r.code, r.out)
	}
	return r.out
}

// holdfast runs the installed program.
func (w *windows) holdfast(code int, args ...string) string {
	w.t.Helper()
	r := w.try("wine64", append([]string{installed}, args...)...)
	if r.code != code {
		w.t.Fatalf("holdfast %q: got exit code %d, want %d: %s\nlog:\n%s", args, r.code, code, r.out, w.log())
	}
	return r.out
}

// msiexec runs it without a window, and returns its exit code as far as Linux has it.
func (w *windows) msiexec(args ...string) int {
	return w.try("wine64", append([]string{"msiexec"}, append(args, "/qn")...)...).code
}

// path is a path of Windows on Linux.
func (w *windows) path(windows string) string {
	return filepath.Join(w.root, w.prefix, "drive_c", strings.ReplaceAll(strings.TrimPrefix(windows, `C:\`), `\`, "/"))
}

func (w *windows) put(from, to string) {
	w.t.Helper()
	if err := nest.Copy(from, w.path(to)); err != nil {
		w.t.Fatal(err)
	}
}

func (w *windows) read(path string) string {
	w.t.Helper()
	text, err := os.ReadFile(w.path(path))
	if err != nil {
		w.t.Fatal(err)
	}
	return string(text)
}

// log is the end of the service's log.
func (w *windows) log() string {
	text, err := os.ReadFile(w.path(`C:\ProgramData\Holdfast\logs\holdfast.log`))
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(string(text), "\n")
	return strings.Join(lines[max(0, len(lines)-30):], "\n")
}

// eventually asks until there is no more error, and fails with the last.
func (w *windows) eventually(f func() error) {
	w.t.Helper()
	if err := nest.Until(patience, 100*time.Millisecond, f); err != nil {
		w.t.Fatalf("%v\nlog:\n%s", err, w.log())
	}
}

// wantReady waits until the node says that it is.
func (w *windows) wantReady() {
	w.t.Helper()
	w.eventually(func() error {
		if r := w.try("wine64", installed, "status"); r.code != 0 {
			return fmt.Errorf("status: exit code %d: %s", r.code, r.out)
		}
		return nil
	})
}

// wantGone fails where anything of the service is left; what it kept is not of it.
func (w *windows) wantGone() {
	w.t.Helper()
	for _, key := range []string{`HKLM\SYSTEM\CurrentControlSet\Services\Holdfast`, `HKLM\SOFTWARE\Holdfast`, `HKLM\SYSTEM\CurrentControlSet\Services\EventLog\Application\Holdfast`} {
		if r := w.try("wine64", "reg", "query", key); r.code == 0 {
			w.t.Errorf("%s is left: %s", key, r.out)
		}
	}
	if pids := w.nodes(); len(pids) > 0 {
		w.t.Errorf("processes %v are left", pids)
	}
	if out, err := os.ReadFile(w.path(`C:\ProgramData\Holdfast\holdfast.yaml`)); err != nil || len(out) == 0 {
		w.t.Errorf("the configuration was not kept: %v", err)
	}
	if _, err := os.Stat(w.path(`C:\ProgramData\Holdfast\data\identity.json`)); err != nil {
		w.t.Errorf("the data was not kept: %v", err)
	}
}

// nodes are the processes that run as the service, by the numbers of Linux.
func (w *windows) nodes() (pids []int) {
	w.t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		w.t.Fatal(err)
	}
	for _, file := range all {
		text, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(text), "holdfast.exe\x00run\x00--scm") {
			continue // also those that ended meanwhile
		}
		var pid int
		if _, err := fmt.Sscanf(file, "/proc/%d/cmdline", &pid); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}
