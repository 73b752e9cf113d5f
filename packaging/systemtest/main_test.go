// SPDX-License-Identifier: Apache-2.0

//go:build system && linux

package systemtest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// workDirVar tells the inner process its directory.
const workDirVar = "HOLDFAST_SYSTEMTEST_DIR"

func TestMain(m *testing.M) {
	if os.Getenv(workDirVar) != "" {
		os.Exit(inside(m))
	}
	os.Exit(outside())
}

// outside runs the tests in mount and process namespaces of their own: however
// they end, no mount and no process is left of them.
func outside() int {
	if why := missing(); why != "" {
		fmt.Printf("skipping: needs %s\n", why)
		if os.Getenv("HOLDFAST_TEST_SKIP_NOTHING") != "" {
			return 1
		}
		return 0
	}
	dir, err := workDir()
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer tidy(dir)
	// The death of the thread that starts it would be taken for that of the process.
	runtime.LockOSThread()
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), workDirVar+"="+dir)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:   syscall.CLONE_NEWPID,
		Unshareflags: syscall.CLONE_NEWNS,
		Pdeathsig:    syscall.SIGKILL,
	}
	// The terminal interrupts both; this one stays to tidy up.
	signal.Ignore(os.Interrupt)
	err = cmd.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit) && exit.ExitCode() > 0:
		return exit.ExitCode()
	default:
		fmt.Printf("run the tests in namespaces: %v\n", err)
		return 1
	}
}

// tidy removes what neither the end of a process nor that of a namespace does.
func tidy(dir string) {
	groups, err := hierarchies()
	for _, g := range groups {
		err = errors.Join(err, removeGroup(filepath.Join(g, runGroup(dir))))
	}
	if err := errors.Join(err, os.RemoveAll(dir)); err != nil {
		fmt.Printf("tidy up: %v\n", err)
	}
}

// scratch is where systemd-nspawn leaves traces.
const scratch = "/run/systemd/nspawn"

func inside(m *testing.M) int {
	err := errors.Join(os.MkdirAll(scratch, 0o755),
		unix.Mount("tmpfs", scratch, "tmpfs", 0, ""),
		unix.Mount("proc", "/proc", "proc", 0, ""))
	if err != nil {
		fmt.Printf("set up the namespaces: %v\n", err)
		return 1
	}
	// The network is what takes long, and meanwhile the packages can be built.
	go func() {
		_, _ = debian()
		_, _ = debianWithRPM()
	}()
	return m.Run()
}

// missing says what the tests can't do without and this machine does not have.
func missing() string {
	if os.Geteuid() != 0 {
		return "root"
	}
	var lost []string
	for _, tool := range []string{"mmdebstrap", "systemd-nspawn", "nsenter", "unshare", "ip", "tar", "git", "go"} {
		if _, err := exec.LookPath(tool); err != nil {
			lost = append(lost, tool)
		}
	}
	return strings.Join(lost, ", ")
}

// cacheDir keeps root file systems from one run to the next.
func cacheDir() (string, error) {
	user, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(user, "holdfast")
	return dir, os.MkdirAll(dir, 0o755)
}

// workDir is below the cache and not in /tmp, which may be memory.
func workDir() (string, error) {
	cache, err := cacheDir()
	if err != nil {
		return "", err
	}
	return os.MkdirTemp(cache, "run-")
}

// newDir makes a directory for something that the tests share, or that is
// removed before the temporary directory of a test would be.
func newDir(prefix string) (string, error) { return os.MkdirTemp(os.Getenv(workDirVar), prefix) }
