// SPDX-License-Identifier: Apache-2.0

//go:build system && linux

package systemtest

import (
	"strings"
	"testing"
)

// TestPeopleAroundAnInstalledServiceAreToldRight is what somebody types who does not
// know Holdfast: as another user, with the service stopped, in the wrong directory.
func TestPeopleAroundAnInstalledServiceAreToldRight(t *testing.T) {
	t.Parallel()
	c := installed(t, older)
	c.waitUnit("active")
	says := func(script string, words ...string) string {
		t.Helper()
		r := c.try(script)
		if r.code == 0 {
			t.Errorf("%s: got exit code 0, want it to fail", script)
		}
		c.wantSaid(r.out+r.err, words...)
		return r.out + r.err
	}

	// Root measures the disk, which is not to break anything.
	c.run("holdfast bench disk --for 100ms --space 8MiB")
	c.doctor(0, "access write-cache")

	for what, script := range map[string]string{"deb": "true", "tarball's modes": "chgrp holdfast /etc/holdfast && chmod 0750 /etc/holdfast"} {
		c.run(script)
		said := says("cd / && setpriv --reuid=65534 --regid=65534 --clear-groups holdfast status", "may not read /etc/holdfast", "usermod -aG holdfast")
		if said == "" {
			t.Errorf("%s: got nothing", what)
		}
	}

	c.run("systemctl stop holdfast.service")
	if said := says("cd / && holdfast status", "holdfast service status", "systemctl start holdfast"); strings.Contains(said, "holdfast run") {
		t.Errorf("got %q, want no other node suggested where a service is installed", said)
	}

	// A directory that somebody tried the starter in.
	c.run("mkdir -p /srv/tried/holdfast-data && systemctl start holdfast.service")
	says("cd /srv/tried && holdfast status", "another node's than the service", "--config "+configFile)
	c.run("cd /srv/tried && holdfast status --config " + configFile)

	// Installed again onto a file that is broken: which line is said by the package.
	c.run("dpkg --remove holdfast && echo 'acounts: {}' >>" + configFile)
	c.wantSaid(c.run("dpkg --install "+c.put(built(t, older, ".deb"))+" 2>&1"), configFile, "acounts")
}
