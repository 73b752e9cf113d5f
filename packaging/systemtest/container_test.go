// SPDX-License-Identifier: Apache-2.0

//go:build system && linux

package systemtest

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// patience bounds every wait; a loaded machine needs a good part of it.
const patience = 90 * time.Second

// rebootStatus is how systemd-nspawn says that the container wants to come up
// again, and leaves it to its caller.
const rebootStatus = 133

// container is a machine of its own: systemd is process 1, the loopback is
// private, and what is written stays over reboots.
type container struct {
	t       *testing.T
	dir     string
	host    string // what it is called
	root    string // its root directory, from here
	console string // a file with what it printed
	groups  map[string]string
	nspawn  atomic.Int64
	off     atomic.Bool
	gone    chan struct{}
}

// unpack makes a root directory on top of the system, which nothing has booted.
// With disk options, what is written is in memory (tmpfs(5)).
func unpack(t *testing.T, system func() (string, error), disk ...string) *container {
	t.Helper()
	lower, err := system()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := newDir("c-")
	if err != nil {
		t.Fatal(err)
	}
	c := &container{t: t, dir: dir, host: "edge", root: filepath.Join(dir, "root"), console: filepath.Join(dir, "console.log"), gone: make(chan struct{})}
	if len(disk) > 0 {
		if err := unix.Mount("tmpfs", dir, "tmpfs", 0, strings.Join(disk, ",")); err != nil {
			t.Fatalf("mount a small disk: %v", err)
		}
	}
	for _, name := range []string{"upper", "work", "root"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if c.groups, err = groupsOf(filepath.Base(dir)); err != nil {
		t.Fatal(err)
	}
	options := fmt.Sprintf("lowerdir=%s,upperdir=%s/upper,workdir=%s/work", lower, dir, dir)
	if err := unix.Mount("overlay", c.root, "overlay", 0, options); err != nil {
		t.Fatalf("mount an overlay: %v", err)
	}
	t.Cleanup(func() {
		err := unix.Unmount(c.root, unix.MNT_DETACH)
		if len(disk) > 0 {
			err = errors.Join(err, unix.Unmount(dir, unix.MNT_DETACH))
		}
		if err := errors.Join(err, os.RemoveAll(dir)); err != nil {
			t.Errorf("remove the container: %v", err)
		}
	})
	return c
}

// boot starts a container of the system and waits until it is up.
func boot(t *testing.T, system func() (string, error)) *container {
	t.Helper()
	c := unpack(t, system)
	c.start()
	return c
}

func (c *container) start() {
	c.t.Helper()
	c.powerOn()
	c.waitUp()
}

// powerOn is start without the wait.
func (c *container) powerOn() {
	c.t.Helper()
	go c.supervise()
	c.t.Cleanup(func() {
		if c.t.Failed() {
			c.tell()
		}
		c.off.Store(true)
		c.pullThePlug()
		for _, dir := range c.groups {
			c.eventually(func() error { return removeGroup(dir) })
		}
	})
}

// pullThePlug ends process 1 of the container, and all others with it.
func (c *container) pullThePlug() {
	for {
		pids, _ := c.children()
		for _, pid := range pids {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		select {
		case <-c.gone:
			return
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// supervise runs the container until it is powered off.
func (c *container) supervise() {
	defer close(c.gone)
	// systemd-nspawn is killed when the thread that started it ends.
	runtime.LockOSThread()
	for {
		console, err := os.OpenFile(c.console, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return
		}
		// A zero is whoever writes it.
		args := []string{"-ec", `for dir; do echo 0 >"$dir/cgroup.procs"; done; exec systemd-nspawn --quiet --directory="$ROOT" --machine="$NAME" ` +
			`--hostname="$HOST" --register=no --keep-unit --private-network --kill-signal=SIGRTMIN+3 --boot`, "sh"}
		cmd := exec.Command("sh", append(args, slices.Collect(maps.Values(c.groups))...)...)
		cmd.Env = append(os.Environ(), "ROOT="+c.root, "NAME="+filepath.Base(c.dir), "HOST="+c.host, "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=1")
		cmd.Stdout, cmd.Stderr = console, console
		if err := cmd.Start(); err == nil {
			c.nspawn.Store(int64(cmd.Process.Pid))
			_ = cmd.Wait()
			c.nspawn.Store(0)
		}
		console.Close()
		if c.off.Load() || cmd.ProcessState.ExitCode() != rebootStatus {
			return
		}
	}
}

// tell writes what a failure is understood from.
func (c *container) tell() {
	console, _ := os.ReadFile(c.console)
	c.t.Logf("console:\n%s", tail(string(console), 15))
	journal := c.try("journalctl --no-pager --boot=all --unit=holdfast.service --unit=holdfast-tune.service --lines=100 --output=short-precise")
	c.t.Logf("journal:\n%s", journal.out+journal.err)
}

func tail(text string, lines int) string {
	all := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// children are those of systemd-nspawn.
func (c *container) children() ([]int, error) {
	parent := c.nspawn.Load()
	if parent == 0 {
		return nil, errors.New("the container is off")
	}
	return childrenOf(int(parent))
}

// childrenOf lists them by the numbers that they have here.
func childrenOf(parent int) ([]int, error) {
	list, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", parent, parent))
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, f := range strings.Fields(string(list)) {
		pid, err := strconv.Atoi(f)
		if err != nil {
			return nil, err
		}
		pids = append(pids, pid)
	}
	return pids, nil
}

// leader is process 1 of the container.
func (c *container) leader() (int, error) {
	pids, err := c.children()
	if err != nil {
		return 0, err
	}
	for _, pid := range pids {
		name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
		if err == nil && strings.TrimSpace(string(name)) == "systemd" {
			return pid, nil
		}
	}
	return 0, errors.New("the container has not started systemd")
}

func (c *container) waitUp() {
	c.t.Helper()
	c.eventually(func() error {
		r := c.try("systemctl is-system-running")
		if state := strings.TrimSpace(r.out); state != "running" && state != "degraded" {
			return fmt.Errorf("the container is not up: %s%s", r.out, r.err)
		}
		return nil
	})
}

// reboot restarts the machine in order, as an administrator does.
func (c *container) reboot() {
	c.t.Helper()
	before, err := c.leader()
	if err != nil {
		c.t.Fatal(err)
	}
	c.try("systemctl reboot")
	c.eventually(func() error {
		switch now, err := c.leader(); {
		case err != nil:
			return err
		case now == before:
			return errors.New("the container is still on its way down")
		}
		return nil
	})
	c.waitUp()
}
