// SPDX-License-Identifier: Apache-2.0

package service

import (
	"io/fs"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-mq/holdfast/appliance/diag"
	"github.com/holdfast-mq/holdfast/systemd"
)

// fresh is a machine with systemd and nothing of Holdfast.
func fresh() machine {
	return machine{
		root: true, running: true, uid: -1, gid: -1, configInPlace: true,
		tools: map[string]bool{"systemctl": true, "systemd-sysusers": true, "useradd": true, "groupadd": true},
	}
}

// settled is one on which everything is installed.
func settled() machine {
	m := fresh()
	m.uid, m.gid, m.boot, m.active = 998, 997, true, true
	m.dir = entry{exists: true, mode: fs.ModeDir | 0o750, gid: 997}
	m.overlays, m.config = m.dir, entry{exists: true, mode: 0o640, gid: 997}
	m.unit, m.unitText = entry{exists: true}, unitText(setup().Binary, packagedConfig)
	return m
}

func setup() Setup {
	return Setup{Binary: "/usr/local/bin/holdfast", Config: packagedConfig, Starter: []byte("starter")}
}

func with(m machine, change func(*machine)) machine {
	change(&m)
	return m
}

// brief is a plan as a person would note it down.
func brief(steps []step) []string {
	out := []string{}
	for _, s := range steps {
		line := string(s.kind)
		if s.path != "" {
			line += " " + s.path
		}
		if len(s.args) > 0 {
			line += " " + strings.Join(s.args, " ")
		}
		if s.mode != 0 {
			line += " " + s.mode.String()
		}
		if s.group {
			line += " group"
		}
		out = append(out, line)
	}
	return out
}

func TestInstallDoesWhatIsMissing(t *testing.T) {
	for name, c := range map[string]struct {
		m       machine
		s       Setup
		updated bool
		want    []string
	}{
		"nothing there": {m: fresh(), s: setup(), want: []string{
			"command systemd-sysusers -",
			"directory /etc/holdfast -rwxr-x--- group", "directory /etc/holdfast/holdfast.d -rwxr-x--- group",
			"file /etc/holdfast/holdfast.yaml -rw-r----- group",
			"register /etc/systemd/system/holdfast.service", "start",
		}},
		"everything there": {m: settled(), s: setup(), want: []string{}},
		"stopped":          {m: with(settled(), func(m *machine) { m.active = false }), s: setup(), want: []string{"start"}},
		"stopped and not to start": {
			m: with(settled(), func(m *machine) { m.active = false }), s: Setup{Binary: setup().Binary, Config: packagedConfig, NoStart: true}, want: []string{},
		},
		"disabled": {m: with(settled(), func(m *machine) { m.boot = false }), s: setup(), want: []string{"command systemctl enable holdfast.service"}},
		"an older unit": {
			m: with(settled(), func(m *machine) { m.unitText = strings.Replace(m.unitText, "WatchdogSec=60s\n", "", 1) }), s: setup(), updated: true,
			want: []string{"file /etc/systemd/system/holdfast.service.old -rw-r--r--", "file /etc/systemd/system/holdfast.service -rw-r--r--", "command systemctl daemon-reload"},
		},
		"no systemd-sysusers": {
			m: with(settled(), func(m *machine) { m.uid, m.tools = -1, map[string]bool{"useradd": true, "groupadd": true} }), s: setup(),
			want: []string{"command useradd --system --gid holdfast --home-dir /var/lib/holdfast --no-create-home --shell /usr/sbin/nologin holdfast"},
		},
		"systemd does not run": {
			m: with(fresh(), func(m *machine) { m.running, m.uid, m.gid = false, 998, 997 }), s: setup(),
			want: []string{
				"directory /etc/holdfast -rwxr-x--- group", "directory /etc/holdfast/holdfast.d -rwxr-x--- group", "file /etc/holdfast/holdfast.yaml -rw-r----- group",
				"file /etc/systemd/system/holdfast.service -rw-r--r--", "command systemctl enable holdfast.service",
			},
		},
		"no systemctl either": {
			m: with(settled(), func(m *machine) { m.running, m.boot, m.tools = false, false, nil }), s: setup(),
			want: []string{"link /etc/systemd/system/multi-user.target.wants/holdfast.service"},
		},
		"a configuration that the service can't read": {
			m: with(settled(), func(m *machine) { m.config = entry{exists: true, mode: 0o600} }), s: setup(),
			want: []string{"access /etc/holdfast/holdfast.yaml -rw-r----- group"},
		},
		"a directory that the service can't enter": {
			m: with(settled(), func(m *machine) { m.dir = entry{exists: true, mode: fs.ModeDir | 0o700} }), s: setup(),
			want: []string{"access /etc/holdfast -rwxr-x--- group"},
		},
		"a configuration elsewhere": {
			m: with(settled(), func(m *machine) {
				m.configInPlace, m.config = false, entry{exists: true, mode: 0o644}
				m.unitText = unitText(setup().Binary, "/opt/queue.yaml")
			}),
			s: Setup{Binary: setup().Binary, Config: "/opt/queue.yaml"}, want: []string{},
		},
	} {
		steps, updated, err := planInstall(c.m, c.s)
		if diff := cmp.Diff(c.want, brief(steps)); diff != "" || err != nil || updated != c.updated {
			t.Errorf("%s: got %v, updated %v, want updated %v and (-want +got):\n%s", name, err, updated, c.updated, diff)
		}
	}
}

func TestInstallRefuses(t *testing.T) {
	at := func(binary, config string) Setup { return Setup{Binary: binary, Config: config} }
	for name, c := range map[string]struct {
		m    machine
		s    Setup
		code diag.Code
		want string
	}{
		"not root":            {with(fresh(), func(m *machine) { m.root = false }), setup(), diag.CodeNeedsRoot, "sudo /usr/local/bin/holdfast service install"},
		"a package":           {with(fresh(), func(m *machine) { m.packaged = "/usr/lib/systemd/system/holdfast.service" }), setup(), diag.CodePackaged, "systemctl enable --now holdfast"},
		"a shadowed package":  {with(settled(), func(m *machine) { m.packaged = "/usr/lib/systemd/system/holdfast.service" }), setup(), diag.CodePackaged, "holdfast service uninstall"},
		"another init":        {with(fresh(), func(m *machine) { m.running, m.foreign = false, "OpenRC" }), setup(), diag.CodeNoSystemd, "have OpenRC run"},
		"a home directory":    {fresh(), at("/home/ann/holdfast", packagedConfig), diag.CodePlace, "install -m 755 /home/ann/holdfast /usr/local/bin/holdfast"},
		"root's directory":    {fresh(), at("/root/holdfast", packagedConfig), diag.CodePlace, "install -m 755"},
		"a private /tmp":      {fresh(), at("/tmp/holdfast", packagedConfig), diag.CodePlace, "install -m 755"},
		"a specifier":         {fresh(), at("/opt/%h/holdfast", packagedConfig), diag.CodePlace, "letters, digits"},
		"a blank":             {fresh(), at("/opt/hold fast", packagedConfig), diag.CodePlace, "letters, digits"},
		"a template":          {fresh(), at("/opt/{{Name}}", packagedConfig), diag.CodePlace, "letters, digits"},
		"only for some":       {with(fresh(), func(m *machine) { m.unreachable = "only some users may enter /opt" }), setup(), diag.CodePlace, "install -m 755"},
		"a hidden file":       {fresh(), at("/usr/bin/holdfast", "/root/holdfast.yaml"), diag.CodePlace, "/etc/holdfast/holdfast.yaml"},
		"a file that is not":  {with(fresh(), func(m *machine) { m.configInPlace = false }), at("/usr/bin/holdfast", "/etc/queue.yaml"), diag.CodeUnreadable, "holdfast init /etc/queue.yaml"},
		"masked":              {with(fresh(), func(m *machine) { m.unitLink = "/dev/null" }), setup(), diag.CodeForeignUnit, "systemctl unmask"},
		"a link":              {with(fresh(), func(m *machine) { m.unitLink = "/opt/x.service" }), setup(), diag.CodeForeignUnit, "rm /etc/systemd/system/holdfast.service"},
		"somebody's unit":     {with(settled(), func(m *machine) { m.unitText = "[Service]\nExecStart=/opt/holdfast run --config /x\n" }), setup(), diag.CodeForeignUnit, "mv "},
		"no tool for users":   {with(fresh(), func(m *machine) { m.tools = map[string]bool{"systemctl": true} }), setup(), diag.CodeService, "create a system user"},
		"a user without tool": {with(fresh(), func(m *machine) { m.gid, m.tools = 997, nil }), setup(), diag.CodeService, "create a system user"},
	} {
		steps, _, err := planInstall(c.m, c.s)
		if len(steps) > 0 || diag.CodeOf(err) != c.code || !strings.Contains(diag.Hint(err), c.want) {
			t.Errorf("%s: got steps %v, %s %v, hint %q, want none, %s and %q in the hint", name, brief(steps), diag.CodeOf(err), err, diag.Hint(err), c.code, c.want)
		}
	}
}

func TestUninstallKeepsWhatIsNotTheService(t *testing.T) {
	packaged := "/usr/lib/systemd/system/holdfast.service"
	for name, c := range map[string]struct {
		m    machine
		want []string
		code diag.Code
	}{
		"running":       {m: settled(), want: []string{"stop", "unregister"}},
		"stopped":       {m: with(settled(), func(m *machine) { m.active = false }), want: []string{"unregister"}},
		"not installed": {m: fresh(), want: []string{}},
		"a link to nothing": {
			m: with(fresh(), func(m *machine) { m.boot = true }), want: []string{"remove /etc/systemd/system/multi-user.target.wants/holdfast.service"},
		},
		"systemd does not run": {
			m:    with(settled(), func(m *machine) { m.running, m.active = false, false }),
			want: []string{"remove /etc/systemd/system/multi-user.target.wants/holdfast.service", "remove /etc/systemd/system/holdfast.service"},
		},
		"a shadow of the package's": {
			m:    with(settled(), func(m *machine) { m.packaged = packaged }),
			want: []string{"remove /etc/systemd/system/holdfast.service", "command systemctl daemon-reload", "command systemctl reenable holdfast.service"},
		},
		"the package":     {m: with(fresh(), func(m *machine) { m.packaged = packaged }), want: []string{}, code: diag.CodePackaged},
		"somebody's unit": {m: with(settled(), func(m *machine) { m.unitText = "[Service]\n" }), want: []string{}, code: diag.CodeForeignUnit},
		"not root":        {m: with(settled(), func(m *machine) { m.root = false }), want: []string{}, code: diag.CodeNeedsRoot},
	} {
		steps, err := planUninstall(c.m, "/usr/local/bin/holdfast")
		if diff := cmp.Diff(c.want, brief(steps)); diff != "" || diag.CodeOf(err) != c.code {
			t.Errorf("%s: got %v, want %q and (-want +got):\n%s", name, err, c.code, diff)
		}
	}
}

func TestUnitDiffersOnlyInItsPaths(t *testing.T) {
	if got := unitText(packagedBinary, packagedConfig); got != systemd.Unit {
		t.Errorf("got another text for the packaged paths:\n%s", cmp.Diff(systemd.Unit, got))
	}
	got := unitText("/usr/local/bin/holdfast", "/etc/queue.yaml")
	want := strings.Replace(systemd.Unit, "/usr/bin/holdfast run --config /etc/holdfast/holdfast.yaml", "/usr/local/bin/holdfast run --config /etc/queue.yaml", 1)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("got (-want +got):\n%s", diff)
	}
	if !isOurs(got) || unitConfig(got) != "/etc/queue.yaml" {
		t.Errorf("got ours %v with %q, want our own unit to be known by its text", isOurs(got), unitConfig(got))
	}
	if strings.Contains(systemd.Unit, "{{") {
		t.Error("the unit has the marks of a template, which the service library would fill in")
	}
}

func TestStateIsWhatSystemdSays(t *testing.T) {
	show := func(more ...string) map[string]string {
		p := map[string]string{"LoadState": "loaded", "ActiveState": "active", "FragmentPath": ownUnit, "StateChangeTimestamp": "Tue 2026-11-03 10:11:12 UTC", "ActiveEnterTimestamp": "Tue 2026-11-03 08:00:00 UTC"}
		for i := 0; i < len(more); i += 2 {
			p[more[i]] = more[i+1]
		}
		return p
	}
	for name, c := range map[string]struct {
		props map[string]string
		state string
		warns string
	}{
		"running":       {show("MainPID", "812", "StatusText", "ready"), StateRunning, ""},
		"not installed": {map[string]string{"LoadState": "not-found", "ActiveState": "inactive"}, StateNotInstalled, ""},
		"stopped":       {show("ActiveState", "inactive"), StateStopped, ""},
		"starting":      {show("ActiveState", "activating", "SubState", "start"), StateStarting, ""},
		"crashing":      {show("ActiveState", "activating", "SubState", "auto-restart", "ExecMainStatus", "1"), StateStarting, "exit code 1"},
		"killed":        {show("ActiveState", "activating", "SubState", "auto-restart", "ExecMainCode", "2", "ExecMainStatus", "9"), StateStarting, "ended with signal 9"},
		"reloading":     {show("ActiveState", "reloading"), StateReloading, ""},
		"stopping":      {show("ActiveState", "deactivating"), StateStopping, ""},
		"failed":        {show("ActiveState", "failed", "ExecMainStatus", "78"), StateFailed, "does not heal by itself"},
		"hung":          {show("ActiveState", "failed", "Result", "watchdog"), StateFailed, "did not answer"},
		"masked":        {show("LoadState", "masked", "ActiveState", "inactive"), StateStopped, "unmask"},
		"changed":       {show("NeedDaemonReload", "yes"), StateRunning, "daemon-reload"},
	} {
		s := stateOf(c.props)
		if all := strings.Join(s.Warnings, "\n"); s.State != c.state || !strings.Contains(all, c.warns) || c.warns == "" && all != "" {
			t.Errorf("%s: got %q with warnings %q, want %q with %q", name, s.State, all, c.state, c.warns)
		}
		// A node that was reloaded runs since it was started.
		hour := 10
		if s.State == StateRunning || s.State == StateReloading {
			hour = 8
		}
		if s.State != StateNotInstalled && (s.Since == nil || s.Since.Hour() != hour) {
			t.Errorf("%s: got since %v, want the time that systemd shows, at %d h", name, s.Since, hour)
		}
	}
}

func TestLastWordOfAProcessIsShownOnlyWhileItIsTrue(t *testing.T) {
	p := map[string]string{"LoadState": "loaded", "ActiveState": "activating", "SubState": "auto-restart", "StatusText": "ready, 1 stream, bootstrap ok"}
	if got := stateOf(p).Status; got != "" {
		t.Errorf("got %q of a process that was killed, want nothing", got)
	}
	p["StatusText"] = "failed: listen on 127.0.0.1:4222: address already in use"
	if got := stateOf(p).Status; got != p["StatusText"] {
		t.Errorf("got %q, want why the start failed", got)
	}
}

func TestEnvironmentIsReadAsSystemdDoes(t *testing.T) {
	got := parseEnvironment("# comment\n; another\n\nHOLDFAST_LISTEN__CLIENT=127.0.0.1:4333\nHOLDFAST_OPTS=\"--data-dir /data\"\n  A='b c'\nno value\nB=\n")
	want := []string{"HOLDFAST_LISTEN__CLIENT=127.0.0.1:4333", "HOLDFAST_OPTS=--data-dir /data", "A=b c", "B="}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("got (-want +got):\n%s", diff)
	}
}
