// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/holdfast-mq/holdfast/appliance/diag"
	"github.com/holdfast-mq/holdfast/systemd"
)

const (
	tuneName = name + "-tune.service"
	tuneUnit = "/etc/systemd/system/" + tuneName
	tuneLink = "/etc/systemd/system/multi-user.target.wants/" + tuneName
)

// tuning is what it depends on whether settings are made at boot.
type tuning struct {
	running   bool // systemd
	systemctl bool
	packaged  bool   // a package has brought the unit
	own       bool   // there is one in /etc
	text      string // of the one in /etc
	boot      bool   // it is enabled
}

// TuneAtBoot has `holdfast tune --boot` run at each boot, before the node, or no longer.
// It returns what was done.
func TuneAtBoot(ctx context.Context, binary string, on bool) ([]string, error) {
	m, err := look(ctx, Setup{})
	if err != nil {
		return nil, err
	}
	t := tuning{running: m.running, systemctl: m.tools["systemctl"]}
	for _, dir := range []string{"/usr/lib/systemd/system/", "/lib/systemd/system/"} {
		t.packaged = t.packaged || present(dir+tuneName)
	}
	text, err := os.ReadFile(tuneUnit)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("look at the unit: %w", err)
	}
	t.own, t.text = err == nil, string(text)
	_, err = os.Lstat(tuneLink)
	t.boot = err == nil
	if on && m.foreign != "" {
		return nil, diag.Fail(diag.CodeNoSystemd, fmt.Errorf("tune at boot: this system is started by %s", m.foreign),
			fmt.Sprintf("have %s run `%s tune --boot` as root before the node", m.foreign, binary))
	}
	steps, err := planTune(t, binary, on)
	if err != nil {
		return nil, err
	}
	return execute(ctx, steps)
}

// planTune says what is to be done for the settings to be made at boot, or not.
func planTune(t tuning, binary string, on bool) ([]step, error) {
	if t.own && !isOurTune(t.text) {
		return nil, diag.Fail(diag.CodeForeignUnit, fmt.Errorf("tune at boot: %s was not made by Holdfast", tuneUnit), "look at it, and move it away")
	}
	var steps []step
	add := func(s step) { steps = append(steps, s) }
	reload := func() {
		if t.running {
			add(step{kind: runCommand, args: []string{"systemctl", "daemon-reload"}})
		}
	}
	if !on {
		switch {
		case t.boot && t.systemctl:
			add(step{kind: runCommand, args: []string{"systemctl", "disable", tuneName}, said: "no longer at boot"})
		case t.boot:
			add(step{kind: remove, path: tuneLink, said: "no longer at boot"})
		}
		if t.own {
			add(step{kind: remove, path: tuneUnit, said: "removed " + tuneUnit})
			reload()
		}
		return steps, nil
	}
	text := strings.Replace(systemd.Tune, "ExecStart="+packagedBinary+" ", "ExecStart="+binary+" ", 1)
	if !t.packaged && t.text != text {
		if err := checkPath("run", binary, "install -m 755 "+binary+" /usr/local/bin/holdfast, then use that one"); err != nil {
			return nil, err
		}
		add(step{kind: writeFile, path: tuneUnit, text: text, mode: 0o644, said: "wrote " + tuneUnit})
		reload()
	}
	switch {
	case t.boot:
	case t.systemctl:
		add(step{kind: runCommand, args: []string{"systemctl", "enable", tuneName}, said: "again at each boot: " + tuneName})
	default:
		unit := tuneUnit
		if t.packaged {
			unit = "/usr/lib/systemd/system/" + tuneName
		}
		add(step{kind: makeLink, path: tuneLink, text: unit, said: "again at each boot: " + tuneLink})
	}
	return steps, nil
}

func isOurTune(text string) bool {
	return strings.Contains(text, "github.com/holdfast-mq/holdfast") && strings.Contains(text, " tune --boot\n")
}
