// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// look reads what a plan depends on. s may be the zero Setup.
func look(ctx context.Context, s Setup) (machine, error) {
	m := machine{root: os.Geteuid() == 0, running: systemdRuns(), uid: -1, gid: -1, tools: map[string]bool{}}
	if !m.root {
		return m, nil // others may not even look
	}
	for _, tool := range []string{"systemctl", "systemd-sysusers", "useradd", "groupadd"} {
		_, err := exec.LookPath(tool)
		m.tools[tool] = err == nil
	}
	if !m.running && !m.tools["systemctl"] && !present("/usr/lib/systemd/systemd") && !present("/lib/systemd/systemd") {
		m.foreign = otherInit()
	}
	if i := slices.IndexFunc(packagedUnits(), present); i >= 0 {
		m.packaged = packagedUnits()[i]
	}
	if err := m.lookAtUnit(); err != nil {
		return m, err
	}
	if _, err := os.Lstat(bootLink); err == nil {
		m.boot = true
	}
	if m.running {
		st, err := show(ctx)
		if err != nil {
			return m, err
		}
		m.active = st["ActiveState"] != "inactive" && st["ActiveState"] != "failed" && st["ActiveState"] != ""
	}
	if present(ownUnit + ".d") {
		m.dropIns = ownUnit + ".d"
	}
	m.uid, m.gid = ids()
	if s.Binary != "" {
		m.unreachable = unreachable(s.Binary)
	}
	m.configInPlace = s.Config == packagedConfig
	for path, e := range map[string]*entry{configDir: &m.dir, overlays: &m.overlays, s.Config: &m.config} {
		if path == "" {
			continue
		}
		found, err := lookAt(path)
		if err != nil {
			return m, err
		}
		*e = found
	}
	return m, nil
}

func (m *machine) lookAtUnit() error {
	info, err := os.Lstat(ownUnit)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("look at the unit: %w", err)
	case info.Mode()&fs.ModeSymlink != 0:
		m.unitLink, err = os.Readlink(ownUnit)
		return err
	}
	text, err := os.ReadFile(ownUnit)
	if err != nil {
		return fmt.Errorf("look at the unit: %w", err)
	}
	m.unit.exists, m.unitText = true, string(text)
	return nil
}

// systemdRuns is sd_booted(3).
func systemdRuns() bool { return present("/run/systemd/system") }

func present(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// otherInit names what starts this system, where it is known to start services. In
// a container the first process is anything, and starts none.
func otherInit() string {
	if present("/run/openrc") || present("/sbin/openrc-run") {
		return "OpenRC"
	}
	comm, err := os.ReadFile("/proc/1/comm")
	if err != nil {
		return ""
	}
	switch first := strings.TrimSpace(string(comm)); first {
	case "init":
		return "SysV init"
	case "runit", "s6-svscan", "procd", "dinit", "upstart":
		return first
	}
	return ""
}

// ids are those of the service's user and group, -1 for what does not exist.
func ids() (uid, gid int) {
	uid, gid = -1, -1
	if u, err := user.Lookup(name); err == nil {
		if n, err := strconv.Atoi(u.Uid); err == nil {
			uid = n
		}
	}
	if g, err := user.LookupGroup(name); err == nil {
		if n, err := strconv.Atoi(g.Gid); err == nil {
			gid = n
		}
	}
	return uid, gid
}

func lookAt(path string) (entry, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return entry{}, nil
	case err != nil:
		return entry{}, fmt.Errorf("look at %s: %w", path, err)
	}
	e := entry{exists: true, mode: info.Mode()}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		e.uid, e.gid = int(st.Uid), int(st.Gid)
	}
	return e, nil
}

// unreachable says why a user without privileges could not execute a file.
func unreachable(path string) string {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return err.Error()
	case info.Mode().Perm()&0o005 != 0o005:
		return "only some users may execute it (mode " + info.Mode().Perm().String() + ")"
	}
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		if info, err := os.Stat(dir); err == nil && info.Mode().Perm()&0o001 == 0 {
			return "only some users may enter " + dir
		}
		if dir == "/" {
			return ""
		}
	}
}
