// SPDX-License-Identifier: Apache-2.0

package service

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/holdfast-mq/holdfast/appliance/diag"
	"github.com/holdfast-mq/holdfast/systemd"
)

// entry is what is known of a file or directory.
type entry struct {
	exists   bool
	mode     fs.FileMode
	uid, gid int
}

// machine is what an install or uninstall depends on.
type machine struct {
	root     bool
	running  bool   // systemd is what started this system
	foreign  string // another init, where systemd is not even installed
	tools    map[string]bool
	packaged string // the unit of a package
	unit     entry
	unitText string
	unitLink string // where the unit links to
	boot     bool   // the unit is enabled
	active   bool
	dropIns  string // the directory of drop-ins
	// what keeps the service from executing the binary
	unreachable   string
	uid, gid      int // of the user and the group holdfast; -1 when there is none
	dir, overlays entry
	config        entry
	configInPlace bool // the configuration is where the packages have it
}

// kind is what a step does.
type kind string

const (
	runCommand kind = "command"
	makeDir    kind = "directory"
	writeFile  kind = "file"
	letRead    kind = "access"
	makeLink   kind = "link"
	remove     kind = "remove"
	register   kind = "register"   // with the service manager: write, enable, reload
	unregister kind = "unregister" // disable, remove, reload
	start      kind = "start"
	stop       kind = "stop"
)

// step is one change of the machine.
type step struct {
	kind  kind
	path  string
	text  string
	mode  fs.FileMode
	group bool     // the file belongs to the group holdfast
	args  []string // of a command
	said  string   // what to tell about it when it is done; empty: nothing
}

// planInstall says what is to be done for the service to be what s wants; nothing
// means that it is. updated tells that a unit of another version is replaced.
func planInstall(m machine, s Setup) (steps []step, updated bool, err error) {
	if err := refuseInstall(m, s); err != nil {
		return nil, false, err
	}
	add := func(st step) { steps = append(steps, st) }
	users, err := planUser(m)
	if err != nil {
		return nil, false, err
	}
	steps = append(steps, users...)
	if m.configInPlace {
		steps = append(steps, planConfig(m, s)...)
	} else if !readable(m.config, m, 0o4) {
		add(giveAccess(s.Config, m.config, 0o40))
	}

	want := unitText(s.Binary, s.Config)
	updated = m.unit.exists && m.unitText != want
	if updated {
		add(step{kind: writeFile, path: oldUnit, text: m.unitText, mode: 0o644, said: "kept the unit of before as " + oldUnit})
	}
	switch {
	case !m.unit.exists && m.running:
		add(step{kind: register, path: ownUnit, text: want, said: "wrote and enabled " + ownUnit})
	case !m.unit.exists || updated:
		add(step{kind: writeFile, path: ownUnit, text: want, mode: 0o644, said: "wrote " + ownUnit})
		if m.running {
			add(step{kind: runCommand, args: []string{"systemctl", "daemon-reload"}})
		}
		fallthrough
	default:
		if !m.boot {
			add(enable(m))
		}
	}
	if m.running && !m.active && !s.NoStart {
		add(step{kind: start, said: "started"})
	}
	return steps, updated, nil
}

func enable(m machine) step {
	if m.tools["systemctl"] {
		return step{kind: runCommand, args: []string{"systemctl", "enable", unitName}, said: "enabled at boot"}
	}
	return step{kind: makeLink, path: bootLink, text: ownUnit, said: "enabled at boot: " + bootLink}
}

// refuseInstall returns why the service can't be installed here.
func refuseInstall(m machine, s Setup) error {
	const verb = "install the service"
	switch {
	case !m.root:
		return needsRoot(verb, s.Binary+" service install")
	case m.packaged != "":
		return packaged(verb, m)
	case m.foreign != "":
		return diag.Fail(diag.CodeNoSystemd, fmt.Errorf("%s: this system is started by %s, and the service is one of systemd", verb, m.foreign),
			fmt.Sprintf("have %s run `%s run --config %s` as user %s, and start it again unless it ends with exit code 78", m.foreign, s.Binary, s.Config, name))
	}
	copyIt := "install -m 755 " + s.Binary + " /usr/local/bin/holdfast, then /usr/local/bin/holdfast service install"
	if err := checkPath("run", s.Binary, copyIt); err != nil {
		return err
	}
	if m.unreachable != "" {
		return diag.Fail(diag.CodePlace, fmt.Errorf("run %s: %s", s.Binary, m.unreachable), copyIt)
	}
	if err := checkPath("read", s.Config, "use "+packagedConfig); err != nil {
		return err
	}
	if !m.configInPlace && !m.config.exists {
		return diag.Fail(diag.CodeUnreadable, fmt.Errorf("read %s: %w", s.Config, fs.ErrNotExist), "holdfast init "+s.Config)
	}
	return foreignUnit(verb, m)
}

func foreignUnit(verb string, m machine) error {
	switch {
	case m.unitLink == "/dev/null":
		return diag.Fail(diag.CodeForeignUnit, fmt.Errorf("%s: the unit is masked", verb), "systemctl unmask "+unitName)
	case m.unitLink != "":
		return diag.Fail(diag.CodeForeignUnit, fmt.Errorf("%s: %s is a link to %s, which Holdfast did not make", verb, ownUnit, m.unitLink),
			"look at it, and remove it with `rm "+ownUnit+"`")
	case m.unit.exists && !isOurs(m.unitText):
		return diag.Fail(diag.CodeForeignUnit, fmt.Errorf("%s: %s was not made by Holdfast", verb, ownUnit),
			"look at it, and move it away with `mv "+ownUnit+" "+oldUnit+"`")
	}
	return nil
}

// packaged refuses what is the package manager's to do.
func packaged(verb string, m machine) error {
	hint := "systemctl enable --now " + name
	if m.unit.exists {
		hint = ownUnit + " comes before the package's: remove it with `" + name + " service uninstall`, then " + hint
	}
	return diag.Fail(diag.CodePackaged, fmt.Errorf("%s: a package has installed it already (%s)", verb, m.packaged), hint)
}

func needsRoot(verb, command string) error {
	return diag.Fail(diag.CodeNeedsRoot, fmt.Errorf("%s: only root may", verb), "sudo "+command)
}

func planUser(m machine) ([]step, error) {
	const said = "created the user and group " + name
	switch {
	case m.uid >= 0 && m.gid >= 0:
		return nil, nil
	case m.tools["systemd-sysusers"]:
		return []step{{kind: runCommand, args: []string{"systemd-sysusers", "-"}, text: systemd.Sysusers, said: said}}, nil
	case !m.tools["useradd"] || !m.tools["groupadd"]:
		return nil, diag.Fail(diag.CodeService, errors.New("create the user "+name+": neither systemd-sysusers nor useradd is here"),
			"create a system user and group "+name+" with home "+dataDir+", then run this again")
	}
	var steps []step
	if m.gid < 0 {
		steps = append(steps, step{kind: runCommand, args: []string{"groupadd", "--system", name}})
	}
	if m.uid < 0 {
		steps = append(steps, step{kind: runCommand, args: []string{
			"useradd", "--system", "--gid", name, "--home-dir", dataDir, "--no-create-home", "--shell", "/usr/sbin/nologin", name,
		}})
	}
	steps[len(steps)-1].said = said
	return steps, nil
}

// planConfig makes the configuration directory what the packages have.
func planConfig(m machine, s Setup) []step {
	var steps []step
	switch {
	case !m.dir.exists:
		steps = append(steps, step{kind: makeDir, path: configDir, mode: 0o750, group: true})
	case !readable(m.dir, m, 0o5):
		steps = append(steps, giveAccess(configDir, m.dir, 0o50))
	}
	if !m.overlays.exists {
		steps = append(steps, step{kind: makeDir, path: overlays, mode: 0o750, group: true})
	}
	switch {
	case !m.config.exists:
		steps = append(steps, step{kind: writeFile, path: s.Config, text: string(s.Starter), mode: 0o640, group: true, said: "wrote the starter configuration " + s.Config})
	case !readable(m.config, m, 0o4):
		steps = append(steps, giveAccess(s.Config, m.config, 0o40))
	}
	return steps
}

func giveAccess(path string, e entry, bits fs.FileMode) step {
	return step{kind: letRead, path: path, mode: e.mode.Perm() | bits, group: true, said: "gave the group " + name + " access to " + path}
}

// readable reports whether the service's user has the permissions (4 read, 1 enter).
func readable(e entry, m machine, bits fs.FileMode) bool {
	switch p := e.mode.Perm(); {
	case !e.exists:
		return true
	case e.uid == m.uid:
		return p>>6&bits == bits
	case e.gid == m.gid:
		return p>>3&bits == bits
	default:
		return p&bits == bits
	}
}

// planUninstall says what is to be done for the service to be gone, but for data,
// configuration and user.
func planUninstall(m machine, binary string) ([]step, error) {
	const verb = "uninstall the service"
	switch {
	case !m.root:
		return nil, needsRoot(verb, binary+" service uninstall")
	case !m.unit.exists && m.unitLink == "" && m.packaged != "":
		return nil, diag.Fail(diag.CodePackaged, fmt.Errorf("%s: a package has installed it (%s)", verb, m.packaged),
			"remove the package: apt remove holdfast, or dnf remove holdfast; both keep the messages")
	}
	if err := foreignUnit(verb, m); err != nil {
		return nil, err
	}
	removed := step{kind: remove, path: ownUnit, said: "removed " + ownUnit}
	switch {
	case !m.unit.exists:
		if m.boot {
			return []step{{kind: remove, path: bootLink, said: "removed " + bootLink}}, nil
		}
		return nil, nil
	case m.packaged != "":
		return planUnshadow(m, removed), nil
	case m.running:
		var steps []step
		if m.active {
			steps = append(steps, step{kind: stop, said: "stopped"})
		}
		return append(steps, step{kind: unregister, said: "disabled and removed " + ownUnit}), nil
	}
	var steps []step
	if m.boot {
		steps = append(steps, step{kind: remove, path: bootLink})
	}
	return append(steps, removed), nil
}

// planUnshadow hands the service over to the package's unit.
func planUnshadow(m machine, removed step) []step {
	steps := []step{removed}
	if m.running {
		steps = append(steps, step{kind: runCommand, args: []string{"systemctl", "daemon-reload"}})
	}
	switch {
	case m.boot && m.tools["systemctl"]:
		steps = append(steps, step{kind: runCommand, args: []string{"systemctl", "reenable", unitName}, said: "enabled " + m.packaged})
	case m.boot:
		steps = append(steps, step{kind: remove, path: bootLink},
			step{kind: makeLink, path: bootLink, text: m.packaged, said: "enabled " + m.packaged})
	}
	return steps
}
