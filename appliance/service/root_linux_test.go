// SPDX-License-Identifier: Apache-2.0

package service

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// inRoot runs the rest of a test in a root directory of its own: with the programs
// and libraries of this machine, and nothing else of it. It returns false in the
// process outside.
func inRoot(t *testing.T) bool {
	t.Helper()
	const variable = "HOLDFAST_TEST_ROOT"
	if dir := os.Getenv(variable); dir != "" {
		if err := enterRoot(dir); err != nil {
			t.Fatal(err)
		}
		return true
	}
	if os.Geteuid() != 0 {
		t.Skip("skipping: needs root, for a root directory of its own")
	}
	c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v=true")
	c.Env = append(os.Environ(), variable+"="+t.TempDir(), "TMPDIR=/tmp")
	c.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	out, err := c.CombinedOutput()
	switch {
	case errors.Is(err, syscall.EPERM):
		t.Skip("skipping: needs a mount namespace")
	case err != nil:
		t.Errorf("got %v inside, want success:\n%s", err, out)
	case strings.Contains(string(out), "--- SKIP"):
		t.Skip(string(out))
	}
	return false
}

func enterRoot(dir string) error {
	dirs := []string{"etc", "run", "tmp", "var/lib", "proc/1", "opt", "usr/bin", "usr/sbin", "usr/local/bin"}
	libs, err := filepath.Glob("/usr/lib/*-linux-gnu*")
	if err != nil {
		return err
	}
	bind := append([]string{"/usr/bin", "/usr/sbin", "/usr/lib64"}, libs...)
	for _, d := range dirs {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			return err
		}
	}
	for _, d := range bind {
		if _, err := os.Stat(d); err != nil {
			continue
		}
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			return err
		}
		if err := syscall.Mount(d, filepath.Join(dir, d), "", syscall.MS_BIND, ""); err != nil {
			return fmt.Errorf("mount %s: %w", d, err)
		}
	}
	for _, l := range []string{"bin", "sbin", "lib", "lib64"} {
		if err := os.Symlink("usr/"+l, filepath.Join(dir, l)); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, "dev"), 0o755); err != nil {
		return err
	}
	if err := syscall.Mount("/dev", filepath.Join(dir, "dev"), "", syscall.MS_BIND, ""); err != nil {
		return fmt.Errorf("mount /dev: %w", err)
	}
	if err := errors.Join(syscall.Chroot(dir), os.Chdir("/")); err != nil {
		return err
	}
	for path, text := range map[string]string{
		"/etc/passwd": "root:x:0:0:root:/root:/bin/sh\n", "/etc/group": "root:x:0:\n",
		"/etc/shadow": "root:*:20000:0:99999:7:::\n", "/etc/gshadow": "root:*::\n",
		"/proc/1/comm": "sh\n", "/calls": "",
	} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return os.WriteFile("/usr/local/bin/holdfast", []byte("#!/bin/sh\n"), 0o755)
}

// stubSystemctl puts a systemctl on the PATH that does to files what the real one
// does, keeps a state, and notes the calls.
func stubSystemctl(t *testing.T) {
	t.Helper()
	const script = `#!/bin/sh
unit=/etc/systemd/system/holdfast.service
link=/etc/systemd/system/multi-user.target.wants/holdfast.service
[ "$1" = show ] || echo "$*" >>/calls
state() { printf 'LoadState=%s\nActiveState=%s\nStatusText=%s\nMainPID=%s\nExecMainStatus=%s\nFragmentPath=%s\n' "$@" >/state; }
case "$1" in
show) if [ -e $unit ] && [ -e /state ]; then cat /state; elif [ -e $unit ]; then printf 'LoadState=loaded\nActiveState=inactive\n'; else printf 'LoadState=not-found\nActiveState=inactive\n'; fi ;;
enable) mkdir -p ${link%/*}; ln -sf $unit $link ;;
disable) rm -f $link ;;
start | restart)
	if [ -e /broken ]; then state loaded failed "$(cat /broken)" 0 78 $unit; exit 1; fi
	state loaded active "ready, 1 stream, bootstrap ok" 812 0 $unit ;;
stop) state loaded inactive "" 0 0 $unit ;;
esac
`
	if err := os.WriteFile("/usr/local/bin/systemctl", []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", "/usr/local/bin:/usr/sbin:/usr/bin")
	if err := os.MkdirAll("/run/systemd/system", 0o755); err != nil {
		t.Fatal(err)
	}
}

// calls are those since the last time.
func calls(t *testing.T) []string {
	t.Helper()
	text := read(t, "/calls")
	if err := os.WriteFile("/calls", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(text), "\n")
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// wantFile checks what the installed paths have to be.
func wantFile(t *testing.T, path string, mode os.FileMode, gid int) {
	t.Helper()
	e, err := lookAt(path)
	if err != nil || !e.exists || e.mode.Perm() != mode || e.uid != 0 || e.gid != gid {
		t.Errorf("got %s of %d:%d for %s, %v, want %s of 0:%d", e.mode, e.uid, e.gid, path, err, mode, gid)
	}
}
