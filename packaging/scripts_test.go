// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

const (
	ownUnit  = "/etc/systemd/system/holdfast.service"
	defaults = "/etc/default/holdfast"
	stored   = "/var/lib/holdfast/jetstream/messages"

	tuneRecord = "/var/lib/holdfast-tune/before.json"
)

func debSituations() []situation {
	masked := map[string]string{ownUnit: "/dev/null"}
	upgrade := func(name string, env ...string) situation {
		return situation{name: name, script: "deb/postinst", args: "configure 0.0.9-1", env: env}
	}
	with := func(s situation, path, text string) situation {
		s.files = map[string]string{path: text}
		return s
	}
	out := []situation{
		{name: "new", script: "deb/postinst", args: "configure "},
		{name: "new, without systemd-sysusers", script: "deb/postinst", args: "configure ", lacks: "systemd-sysusers"},
		{name: "new, the administrator has an override", script: "deb/postinst", args: "configure ", env: []string{"OVERRIDE=0"}},
		{name: "new, the port is taken", script: "deb/postinst", args: "configure ", env: []string{"FAIL=deb-systemd-invoke*"}},
		{name: "new, disk full at the user", script: "deb/postinst", args: "configure ", env: []string{"FAIL=systemd-sysusers*"}, again: true},
		{name: "new, disk full at the links", script: "deb/postinst", args: "configure ", env: []string{"FAIL=deb-systemd-helper*"}, again: true},
		{name: "comes back after its removal", script: "deb/postinst", args: "configure 0.0.9-1", links: masked},
		upgrade("upgrade of a running node", "STATE=active", "GROUP=holdfast"),
		upgrade("upgrade of a stopped node", "STATE=inactive"),
		upgrade("upgrade of a node that recovers", "STATE=activating"),
		upgrade("upgrade, the file is broken", "STATE=active", "CHECK=3"),
		upgrade("upgrade, nobody can tell", "STATE=active", "CHECK=1"),
		upgrade("downgrade onto a newer store", "STATE=active", "FAIL=deb-systemd-invoke*"),
		upgrade("upgrade, disabled by the administrator", "STATE=active", "ENABLED=1"),
		with(upgrade("upgrade, RESTART_ON_UPGRADE", "STATE=active"), defaults, "# RESTART_ON_UPGRADE=yes\nHOLDFAST_OPTS=--a $(b) --c\n RESTART_ON_UPGRADE=\"no\" \n"),
		with(upgrade("upgrade, a unit of another installation", "STATE=active"), ownUnit, "[Unit]\n"),
	}
	tuned := map[string]string{tuneRecord: "{}"}
	byAdmin := upgrade("upgrade, masked by the administrator", "STATE=inactive", "MASKED_BY_ADMIN=1")
	byAdmin.links = masked
	return append(out, byAdmin,
		situation{name: "upgrade that did not go through", script: "deb/postinst", args: "abort-upgrade 0.2.0-1", env: []string{"STATE=active"}},
		situation{name: "removal that did not go through", script: "deb/postinst", args: "abort-remove"},
		situation{name: "deconfiguration that did not go through", script: "deb/postinst", args: "abort-deconfigure in-favour other 1", env: []string{"STATE=active"}},
		situation{name: "another postinst call", script: "deb/postinst", args: "triggered some"},
		situation{name: "before an upgrade", script: "deb/prerm", args: "upgrade 0.2.0-1"},
		situation{name: "before an upgrade whose old prerm failed", script: "deb/prerm", args: "failed-upgrade 0.0.9-1"},
		situation{name: "before a removal", script: "deb/prerm", args: "remove"},
		situation{name: "before a removal, tuned", script: "deb/prerm", args: "remove", files: tuned},
		situation{name: "before a removal, tuned, and it can't be put back", script: "deb/prerm", args: "remove", files: tuned, env: []string{"FAIL=/usr/bin/holdfast*"}},
		situation{name: "before an upgrade, tuned", script: "deb/prerm", args: "upgrade 0.2.0-1", files: tuned},
		situation{name: "before a removal, it can't be stopped", script: "deb/prerm", args: "remove", env: []string{"FAIL=deb-systemd-invoke*"}},
		situation{name: "before a removal, in another root", script: "deb/prerm", args: "remove", env: []string{"DPKG_ROOT=/mnt"}},
	)
}

func postrmSituations() []situation {
	files := map[string]string{stored: "m", "/var/lib/holdfast-tune/measured.json": "[]", "/etc/holdfast/holdfast.d/10-site.yaml": "s", "/etc/holdfast/token": "t"}
	var out []situation
	for _, args := range []string{"remove", "upgrade 0.2.0-1", "failed-upgrade 0.0.9-1", "abort-install", "abort-upgrade 0.2.0-1", "disappear other 1"} {
		out = append(out, situation{name: "after: " + args, script: "deb/postrm", args: args, files: files})
	}
	return append(out,
		situation{name: "purge", script: "deb/postrm", args: "purge", files: files},
		situation{name: "purge with nothing stored", script: "deb/postrm", args: "purge"},
		situation{name: "purge without init-system-helpers", script: "deb/postrm", args: "purge", files: files, lacks: "deb-systemd-helper"},
		situation{name: "purge, PURGE_DATA=yes", script: "deb/postrm", args: "purge", files: files, env: []string{"PURGE_DATA=yes"}},
		situation{name: "purge, PURGE_DATA=no", script: "deb/postrm", args: "purge", files: files, env: []string{"PURGE_DATA=no"}},
	)
}

func rpmSituations() []situation {
	upgrade := func(name string, env ...string) situation {
		return situation{name: name, script: "rpm/post", args: "2", env: env}
	}
	policy := upgrade("upgrade, RESTART_ON_UPGRADE", "STATE=active")
	policy.files = map[string]string{"/etc/sysconfig/holdfast": "RESTART_ON_UPGRADE='no'\n"}
	shadow := situation{name: "new, a unit of another installation", script: "rpm/post", args: "1", files: map[string]string{ownUnit: "[Unit]\n"}}
	data, tuned := map[string]string{stored: "m"}, map[string]string{tuneRecord: "{}"}
	return []situation{
		{name: "before a new one", script: "rpm/pre", args: "1"},
		{name: "before a new one, disk full", script: "rpm/pre", args: "1", env: []string{"FAIL=useradd*"}, again: true},
		{name: "before an upgrade", script: "rpm/pre", args: "2", env: []string{"USER_EXISTS=0"}},
		{name: "new", script: "rpm/post", args: "1"},
		{name: "new, in a container without systemd", script: "rpm/post", args: "1", lacks: "systemctl"},
		{name: "new, disabled by a preset of this site", script: "rpm/post", args: "1", env: []string{"ENABLED=1"}},
		{name: "new, the port is taken", script: "rpm/post", args: "1", env: []string{"FAIL=systemctl start*"}},
		{name: "new, disk full", script: "rpm/post", args: "1", env: []string{"FAIL=systemctl*"}},
		shadow,
		upgrade("upgrade of a running node", "STATE=active"),
		upgrade("upgrade of a stopped node"),
		upgrade("upgrade of a node that recovers", "STATE=activating"),
		upgrade("upgrade, the file is broken", "STATE=active", "CHECK=3"),
		upgrade("upgrade, nobody can tell", "STATE=active", "CHECK=1"),
		upgrade("downgrade onto a newer store", "STATE=active", "FAIL=systemctl try-restart*"),
		policy,
		{name: "before the old version goes", script: "rpm/preun", args: "1"},
		{name: "before a removal", script: "rpm/preun", args: "0"},
		{name: "before a removal, tuned", script: "rpm/preun", args: "0", files: tuned},
		{name: "before the old version goes, tuned", script: "rpm/preun", args: "1", files: tuned},
		{name: "before a removal, in a container without systemd", script: "rpm/preun", args: "0", lacks: "systemctl"},
		{name: "after the old version went", script: "rpm/postun", args: "1", files: data},
		{name: "after a removal", script: "rpm/postun", args: "0", files: data},
		{name: "after a removal, nothing stored", script: "rpm/postun", args: "0"},
	}
}

// matrix runs every situation on a machine that systemd runs, and in a chroot.
func matrix(t *testing.T, situations []situation) string {
	t.Helper()
	var out strings.Builder
	for _, s := range situations {
		for _, systemd := range []bool{true, false} {
			where := "chroot"
			if systemd {
				where = "systemd"
			}
			w := newWorld(t, s, systemd)
			fmt.Fprintf(&out, "# %s: %s %s (%s)\n%s", s.name, s.script, s.args, where, w.run(t, s.script, strings.Split(s.args, " ")...))
			if s.again {
				w.env = append(w.env, "FAIL=")
				fmt.Fprintf(&out, "# ... and again\n%s", w.run(t, s.script, strings.Split(s.args, " ")...))
			}
			if s.script == "deb/postrm" || s.script == "rpm/postun" {
				fmt.Fprintf(&out, "left: %s\n", w.left(t, "/etc/holdfast", "/var/lib"))
			}
			out.WriteString("\n")
		}
	}
	return out.String()
}

func TestDebScripts(t *testing.T) {
	golden(t, "scripts-deb.golden", matrix(t, debSituations()))
}

func TestDebPostrm(t *testing.T) {
	golden(t, "scripts-deb-postrm.golden", matrix(t, postrmSituations()))
}

func TestRPMScripts(t *testing.T) {
	golden(t, "scripts-rpm.golden", matrix(t, rpmSituations()))
}

// TestPurgeEmptiesALink: a mount point is like it, neither goes like a directory.
func TestPurgeEmptiesALink(t *testing.T) {
	w := newWorld(t, situation{
		env: []string{"PURGE_DATA=yes"}, files: map[string]string{"/srv/queue/jetstream/messages": "m"},
	}, true)
	if err := os.Symlink(w.root+"/srv/queue", w.root+"/var/lib/holdfast"); err != nil {
		t.Fatal(err)
	}
	got := w.run(t, "deb/postrm", "purge")
	if want := "holdfast: the directory /var/lib/holdfast itself is still there\nexit 0\n"; !strings.HasSuffix(got, want) {
		t.Errorf("got %s, want it to end in %s", got, want)
	}
	if got := w.left(t, "/srv/queue"); got != "/srv/queue" {
		t.Errorf("got %s left, want nothing in it", got)
	}
}
