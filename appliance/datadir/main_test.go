// SPDX-License-Identifier: Apache-2.0

package datadir

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

// childEnv makes the test binary a second process that opens a directory.
const childEnv = "DATADIR_TEST_CHILD"

// order is what a child is told, report what it answers.
type order struct {
	Dir   string
	UID   int  // 0 keeps the user
	Spawn bool // start a process that outlives this one
}

type report struct {
	PID, Spawned    int
	Err, Hint, Code string
	Permanent       bool
}

func TestMain(m *testing.M) {
	switch text := os.Getenv(childEnv); text {
	case "":
		os.Exit(m.Run())
	case "wait":
		fmt.Println("waiting")
		_, _ = io.Copy(io.Discard, os.Stdin)
	default:
		if err := beChild(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

// beChild opens the directory, reports, and keeps it open until its input ends.
func beChild(text string) error {
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	if err := becomeUser(o.UID); err != nil {
		return err
	}
	r := report{PID: os.Getpid()}
	d, err := Open(o.Dir, Options{Version: "0.1.0", AllowUnsafe: true})
	if err != nil {
		r.Err, r.Hint, r.Code, r.Permanent = err.Error(), diag.Hint(err), string(diag.CodeOf(err)), diag.Permanent(err)
	}
	if o.Spawn {
		if r.Spawned, err = spawnWaiter(); err != nil {
			return err
		}
	}
	if err := json.NewEncoder(os.Stdout).Encode(r); err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	if d != nil {
		return d.Close()
	}
	return nil
}

func childCommand(what string, args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	// The race detector makes every process sleep for a second before it ends.
	cmd.Env = append(os.Environ(), childEnv+"="+what, "GORACE=atexit_sleep_ms=0")
	return cmd
}

// spawnWaiter starts a process that lives until the test closes the input that
// both share, and returns when it runs.
func spawnWaiter() (pid int, err error) {
	cmd := childCommand("wait")
	cmd.Stdin = os.Stdin
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	_, err = out.Read(make([]byte, 1))
	return cmd.Process.Pid, err
}

// startChild runs a child and returns its report and a function that ends it.
func startChild(t *testing.T, o order) (r report, kill func()) {
	t.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	cmd := childCommand(string(text), "run")
	cmd.Stderr = os.Stderr
	in, inErr := cmd.StdinPipe()
	out, outErr := cmd.StdoutPipe()
	if err := errors.Join(inErr, outErr, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	if err := json.NewDecoder(out).Decode(&r); err != nil {
		t.Fatalf("read report of child: %v", err)
	}
	return r, func() {
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_, _ = cmd.Process.Wait()
	}
}

// newPath returns a path for Open to create, below a directory that other users can enter.
func newPath(t *testing.T) string {
	t.Helper()
	top := t.TempDir()
	for _, dir := range []string{filepath.Dir(top), top} {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(top, "data")
}

// newDirWith returns a private directory that holds the files and, for names
// that end in a slash, directories.
func newDirWith(t *testing.T, names ...string) string {
	t.Helper()
	dir := newPath(t)
	for _, name := range append([]string{"/"}, names...) {
		path := filepath.Join(dir, name)
		var err error
		if strings.HasSuffix(name, "/") {
			err = os.MkdirAll(path, 0o700)
		} else {
			err = os.WriteFile(path, []byte("x"), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func mustOpen(t *testing.T, path string, o Options) *Dir {
	t.Helper()
	o.AllowUnsafe = true
	if o.Version == "" {
		o.Version = "0.1.0"
	}
	d, err := Open(path, o)
	if err != nil {
		t.Fatalf("Open(%s): %v", path, err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// openErr opens and returns the error; the directory does not stay open.
func openErr(path string, o Options) error {
	o.AllowUnsafe = true
	d, err := Open(path, o)
	if err == nil {
		return d.Close()
	}
	return err
}

func mustClose(t *testing.T, d *Dir) {
	t.Helper()
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
}

// wantFault checks the code, whether a restart is of use, and the words that
// must be in the message.
func wantFault(t *testing.T, err error, code diag.Code, permanent bool, words ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("got no error, want %s", code)
	}
	wantReport(t, report{
		Err: err.Error(), Hint: diag.Hint(err), Code: string(diag.CodeOf(err)), Permanent: diag.Permanent(err),
	}, code, permanent, words...)
}

func wantReport(t *testing.T, r report, code diag.Code, permanent bool, words ...string) {
	t.Helper()
	t.Logf("%s\n\thint: %s", r.Err, r.Hint)
	if r.Code != string(code) || r.Permanent != permanent {
		t.Errorf("got code %q, permanent %t, want %q, %t: %s", r.Code, r.Permanent, code, permanent, r.Err)
	}
	if r.Hint == "" {
		t.Errorf("got no hint with %q, want one", r.Err)
	}
	for _, w := range words {
		if !strings.Contains(r.Err+"\n"+r.Hint, w) {
			t.Errorf("got %q (hint %q), want it to contain %q", r.Err, r.Hint, w)
		}
	}
}

func wantNames(t *testing.T, dir string, want ...string) {
	t.Helper()
	names, err := namesIn(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(names, " "); got != strings.Join(want, " ") {
		t.Errorf("got files %q in %s, want %q", got, dir, strings.Join(want, " "))
	}
}

func pidWord(pid int) string { return "process " + strconv.Itoa(pid) }
