// SPDX-License-Identifier: Apache-2.0

//go:build system && linux

package systemtest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// The systemd of a container makes control groups for its services below the
// group that it is started in: each container needs one of its own.

// hierarchies maps "" (version 2), "name=systemd" and "cpu" to the directory
// of this process in them, for those that are mounted.
func hierarchies() (map[string]string, error) {
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	dirs := map[string]string{}
	for line := range strings.Lines(string(groups)) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		for _, name := range strings.Split(f[1], ",") {
			if name != "" && name != "name=systemd" && name != "cpu" {
				continue
			}
			if mount := hierarchyMount(string(mounts), name); mount != "" {
				dirs[name] = filepath.Join(mount, f[2])
			}
		}
	}
	return dirs, nil
}

func hierarchyMount(mounts, name string) string {
	for line := range strings.Lines(mounts) {
		where, what, _ := strings.Cut(strings.TrimSpace(line), " - ")
		f, fs := strings.Fields(where), strings.Fields(what)
		switch {
		case fs[0] == "cgroup2" && name == "", fs[0] == "cgroup" && slices.Contains(strings.Split(fs[2], ","), name):
			return f[4]
		}
	}
	return ""
}

// groupsOf makes the control groups of a container, below one that the whole
// run has in each hierarchy.
func groupsOf(container string) (map[string]string, error) {
	dirs, err := hierarchies()
	if err != nil {
		return nil, err
	}
	for name, dir := range dirs {
		dirs[name] = filepath.Join(dir, runGroup(os.Getenv(workDirVar)), container)
		if err := os.MkdirAll(dirs[name], 0o755); err != nil {
			return nil, fmt.Errorf("make a control group: %w", err)
		}
	}
	return dirs, nil
}

// slowDown leaves the container so many hundredths of one processor.
func (c *container) slowDown(t *testing.T, percent int) {
	t.Helper()
	file, text := filepath.Join(c.groups[""], "cpu.max"), fmt.Sprintf("%d 100000", 1000*percent)
	if dir := c.groups["cpu"]; dir != "" {
		file, text = filepath.Join(dir, "cpu.cfs_quota_us"), fmt.Sprint(1000*percent)
	}
	if err := os.WriteFile(file, []byte(text), 0); err != nil {
		lacks(t, "a cpu controller: "+err.Error())
	}
}

// lacks ends a test that this machine is not fit for.
func lacks(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("HOLDFAST_TEST_SKIP_NOTHING") != "" {
		t.Fatal("needs " + what)
	}
	t.Skip("skipping: needs " + what)
}

func runGroup(dir string) string { return "holdfast-" + filepath.Base(dir) }

// removeGroup removes a control group and those below, as far as they are empty.
func removeGroup(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if e.IsDir() {
			err = errors.Join(err, removeGroup(filepath.Join(dir, e.Name())))
		}
	}
	return errors.Join(err, unix.Rmdir(dir))
}
