// SPDX-License-Identifier: Apache-2.0

package service

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

// permanent is the exit code of what does not heal by itself.
const permanent = 78

func shown() []string {
	return []string{
		"LoadState", "ActiveState", "SubState", "StatusText", "MainPID", "StateChangeTimestamp", "ActiveEnterTimestamp", "FragmentPath", "DropInPaths",
		"ExecMainCode", "ExecMainStatus", "NRestarts", "NeedDaemonReload", "Result",
	}
}

// plainEnvironment has programs print what can be parsed.
func plainEnvironment() []string {
	keep := slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "LC_") || strings.HasPrefix(v, "LANG") || strings.HasPrefix(v, "TZ=") || strings.HasPrefix(v, "SYSTEMD_")
	})
	return append(keep, "LC_ALL=C", "TZ=UTC")
}

// show asks systemd for what it knows of the service.
func show(ctx context.Context) (map[string]string, error) {
	c := exec.CommandContext(ctx, "systemctl", "show", "--no-pager", "--property="+strings.Join(shown(), ","), unitName)
	c.Env = plainEnvironment()
	out, err := c.Output()
	if err != nil {
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && len(exit.Stderr) > 0 {
			err = fmt.Errorf("%w: %s", err, bytes.TrimSpace(exit.Stderr))
		}
		return nil, diag.Fail(diag.CodeService, fmt.Errorf("ask systemd: systemctl show: %w", err), "see `systemctl status "+unitName+"`")
	}
	props := map[string]string{}
	for line := range strings.Lines(string(out)) {
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		props[key] = value
	}
	return props, nil
}

// stateOf puts systemd's words into ours.
func stateOf(p map[string]string) State {
	s := State{Status: p["StatusText"], Unit: p["FragmentPath"]}
	switch {
	case p["LoadState"] == "not-found" || p["LoadState"] == "":
		return State{State: StateNotInstalled}
	case p["ActiveState"] == "active":
		s.State = StateRunning
	case p["ActiveState"] == "reloading":
		s.State = StateReloading
	case p["ActiveState"] == "activating":
		s.State = StateStarting
	case p["ActiveState"] == "deactivating":
		s.State = StateStopping
	case p["ActiveState"] == "failed":
		s.State = StateFailed
	default:
		s.State = StateStopped
	}
	s.PID, _ = strconv.Atoi(p["MainPID"])
	s.Restarts, _ = strconv.Atoi(p["NRestarts"])
	if s.PID == 0 {
		if killed(p) {
			s.Signal, _ = strconv.Atoi(p["ExecMainStatus"])
		} else {
			s.Exit, _ = strconv.Atoi(p["ExecMainStatus"])
		}
		if strings.HasPrefix(s.Status, "ready") {
			s.Status = "" // of a process that is no more, and had no time for another word
		}
	}
	since := p["StateChangeTimestamp"]
	if s.State == StateRunning || s.State == StateReloading {
		since = p["ActiveEnterTimestamp"] // a reload is a change of state, too
	}
	if at, err := time.Parse("Mon 2006-01-02 15:04:05 MST", since); err == nil {
		s.Since = &at
	}
	s.DropIns = strings.Fields(p["DropInPaths"])
	if p["LoadState"] == "masked" {
		s.Warnings = append(s.Warnings, "the unit is masked and can't be started: systemctl unmask "+unitName)
	}
	if p["NeedDaemonReload"] == "yes" {
		s.Warnings = append(s.Warnings, "the unit has changed and systemd has not read it: systemctl daemon-reload")
	}
	if s.State == StateStarting && p["SubState"] == "auto-restart" {
		s.Warnings = append(s.Warnings, fmt.Sprintf("the last try ended with %s, and the next one comes within seconds: journalctl -u %s", s.ending(), name))
	}
	if s.State == StateFailed {
		s.Warnings = append(s.Warnings, failedHint(s, p["Result"]))
	}
	return s
}

// killed reports whether a signal ended the process: CLD_KILLED or CLD_DUMPED of
// sigaction(2).
func killed(p map[string]string) bool { return p["ExecMainCode"] == "2" || p["ExecMainCode"] == "3" }

// ending is how the process ended, in words.
func (s State) ending() string {
	if s.Signal != 0 {
		return fmt.Sprintf("signal %d", s.Signal)
	}
	return fmt.Sprintf("exit code %d", s.Exit)
}

func failedHint(s State, result string) string {
	switch {
	case result == "watchdog":
		return "the server did not answer and was ended: journalctl -u " + name + " shows what it was doing"
	case s.Exit == permanent:
		return "exit code 78 does not heal by itself: correct what the status says, then " + name + " service start"
	}
	return "journalctl -u " + name + " shows what led to it"
}

// Status asks how the service is. It needs no privileges.
func Status(ctx context.Context) (State, error) {
	m := machine{running: systemdRuns()}
	if err := m.lookAtUnit(); err != nil {
		return State{}, err
	}
	packaged := ""
	if i := slices.IndexFunc(packagedUnits(), present); i >= 0 {
		packaged = packagedUnits()[i]
	}
	s := State{State: StateNoSystemd}
	if m.running {
		p, err := show(ctx)
		if err != nil {
			return State{}, err
		}
		s = stateOf(p)
	} else {
		switch {
		case m.unit.exists:
			s.Unit = ownUnit
		case packaged != "":
			s.Unit = packaged
		default:
			s.State = StateNotInstalled
		}
	}
	_, err := os.Lstat(bootLink)
	s.Enabled = err == nil && s.State != StateNotInstalled
	if m.unit.exists && packaged != "" {
		s.Unit, s.Shadows = ownUnit, packaged
		s.Warnings = append(s.Warnings, fmt.Sprintf("%s comes before the unit of the package, %s: %s service uninstall removes it and keeps everything else", ownUnit, packaged, name))
	}
	return s, nil
}

// systemctlFailed says why the service did not do what it was told: the node's own
// last word, where it had one.
func systemctlFailed(ctx context.Context, verb string, cause error) error {
	hint := "journalctl -u " + name + " -n 50"
	p, err := show(ctx)
	if err != nil {
		return diag.Fail(diag.CodeService, fmt.Errorf("%s the service: systemctl: %w", verb, cause), hint)
	}
	s := stateOf(p)
	switch {
	case s.Status != "" && s.Exit == permanent:
		return diag.Fail(diag.CodeService, fmt.Errorf("%s the service: %s", verb, s.Status), "correct that, then "+name+" service start")
	case s.Status != "" && verb != "stop":
		return diag.Fail(diag.CodeService, fmt.Errorf("%s the service: %s", verb, s.Status), hint+"; systemd goes on trying every 5 s")
	case s.State == StateFailed:
		return diag.Fail(diag.CodeService, fmt.Errorf("%s the service: it ended with %s", verb, s.ending()), hint)
	}
	return diag.Fail(diag.CodeService, fmt.Errorf("%s the service: systemctl: %w", verb, cause), hint)
}

// Environment is what the unit's environment files set for the service.
func Environment() []string {
	var env []string
	for _, dir := range []string{"/etc/default", "/etc/sysconfig"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			continue // both are optional
		}
		env = append(env, parseEnvironment(string(text))...)
	}
	return env
}

// parseEnvironment reads NAME=VALUE lines as EnvironmentFile= does, but for values of
// several lines.
func parseEnvironment(text string) []string {
	var env []string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		key, value, ok := strings.Cut(line, "=")
		if !ok || strings.HasPrefix(line, "#") || strings.HasPrefix(line, ";") {
			continue
		}
		if n := len(value); n >= 2 && (value[0] == '"' || value[0] == '\'') && value[n-1] == value[0] {
			value = value[1 : n-1]
		}
		env = append(env, strings.TrimSpace(key)+"="+value)
	}
	return env
}
