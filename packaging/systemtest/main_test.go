// SPDX-License-Identifier: Apache-2.0

//go:build system && linux

package systemtest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/holdfast-mq/holdfast/packaging/nest"
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
		return nest.Skipped(why)
	}
	dir, err := nest.WorkDir("run-")
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer tidy(dir)
	return nest.Again(workDirVar, dir, 0)
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
	return nest.Lost("mmdebstrap", "systemd-nspawn", "nsenter", "unshare", "ip", "tar", "git", "go")
}

// newDir makes a directory for something that the tests share, or that is
// removed before the temporary directory of a test would be.
func newDir(prefix string) (string, error) { return os.MkdirTemp(os.Getenv(workDirVar), prefix) }
