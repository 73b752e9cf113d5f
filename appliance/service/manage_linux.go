// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"errors"
	"fmt"
	"os"

	kardianos "github.com/kardianos/service"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

// Install makes Holdfast a service that starts at boot, and starts it. What is so
// already is left as it is.
func Install(ctx context.Context, s Setup) (Outcome, error) {
	out := Outcome{Done: []string{}, Notes: []string{}}
	m, err := look(ctx, s)
	if err != nil {
		return out, err
	}
	steps, updated, err := planInstall(m, s)
	if err != nil {
		return out, err
	}
	if m.config.exists && s.Check != nil {
		if err := s.Check(); err != nil {
			return out, err
		}
	}
	if out.Done, err = execute(ctx, steps); err != nil {
		return out, err
	}
	switch {
	case len(steps) == 0:
		out.Outcome = "already installed"
	case updated:
		out.Outcome = "updated"
	default:
		out.Outcome = "installed"
	}
	out.Notes = append(out.Notes, installNotes(m, s, updated)...)
	return out, nil
}

func installNotes(m machine, s Setup, updated bool) []string {
	var notes []string
	if updated && m.active {
		notes = append(notes, "the service runs on under the old unit until it is restarted: "+name+" service restart")
	}
	if !m.running {
		notes = append(notes,
			"systemd does not run here: the service starts when this system is booted with it",
			fmt.Sprintf("to run it now, in the foreground: install -d -m 0750 -o %[1]s -g %[1]s %[2]s && setpriv --reuid %[1]s --regid %[1]s --init-groups %[3]s run --config %[4]s",
				name, dataDir, s.Binary, s.Config))
	}
	return notes
}

// Uninstall removes the service, and neither messages nor configuration. dir is where
// the messages are.
func Uninstall(ctx context.Context, dir string) (Outcome, error) {
	out := Outcome{Done: []string{}, Notes: []string{}}
	m, err := look(ctx, Setup{Config: packagedConfig})
	if err != nil {
		return out, err
	}
	own, err := os.Executable()
	if err != nil {
		own = name
	}
	steps, err := planUninstall(m, own)
	if err != nil {
		return out, err
	}
	if out.Done, err = execute(ctx, steps); err != nil {
		return out, err
	}
	out.Outcome = "removed"
	if len(steps) == 0 {
		out.Outcome = "not installed"
	}
	if m.packaged != "" {
		out.Notes = append(out.Notes, "the package's unit "+m.packaged+" counts from the next start: systemctl restart "+name)
		return out, nil
	}
	out.Notes = append(out.Notes, kept(m, dir)...)
	return out, nil
}

// kept says what an uninstall left, and how to remove that too.
func kept(m machine, dir string) []string {
	var notes []string
	if present(dir) {
		notes = append(notes, "kept the messages and keys in "+dir+"; to destroy them: rm -r "+dir)
	}
	if m.dir.exists {
		notes = append(notes, "kept the configuration in "+configDir+"; to remove it: rm -r "+configDir)
	}
	if m.dropIns != "" {
		notes = append(notes, "kept the drop-ins in "+m.dropIns)
	}
	if m.uid >= 0 {
		notes = append(notes, "kept the user "+name+", to whom the messages belong; to remove it once they are gone: userdel "+name)
	}
	return notes
}

// Start starts the service and waits until it is ready.
func Start(ctx context.Context) (State, error) { return order(ctx, "start", kardianos.Service.Start) }

// Stop stops the service and waits for its end.
func Stop(ctx context.Context) (State, error) { return order(ctx, "stop", kardianos.Service.Stop) }

// Restart stops and starts the service, and waits until it is ready.
func Restart(ctx context.Context) (State, error) {
	return order(ctx, "restart", kardianos.Service.Restart)
}

func order(ctx context.Context, verb string, do func(kardianos.Service) error) (State, error) {
	s, err := Status(ctx)
	switch {
	case err != nil:
		return s, err
	case s.State == StateNotInstalled:
		return s, diag.Fail(diag.CodeNotInstalled, errors.New(verb+" the service: it is not installed"), "sudo "+name+" service install")
	case s.State == StateNoSystemd:
		return s, diag.Fail(diag.CodeNoSystemd, errors.New(verb+" the service: systemd does not run here"),
			name+" run --config "+packagedConfig+" runs a node in the foreground")
	case os.Geteuid() != 0:
		return s, needsRoot(verb+" the service", name+" service "+verb)
	}
	if err := control(ctx, verb, do); err != nil {
		return s, err
	}
	return Status(ctx)
}

// InstalledConfig is the configuration that the installed unit names; empty when
// none of ours is installed.
func InstalledConfig() string {
	for _, path := range append([]string{ownUnit}, packagedUnits()...) {
		if text, err := os.ReadFile(path); err == nil && isOurs(string(text)) {
			return unitConfig(string(text))
		}
	}
	return ""
}
