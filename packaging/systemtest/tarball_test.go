// SPDX-License-Identifier: Apache-2.0

//go:build system && linux

package systemtest

import "testing"

// TestTarballLifecycle is the life of a queue without a package: the service is
// the same, and so is what stays.
func TestTarballLifecycle(t *testing.T) {
	t.Parallel()
	c := boot(t, debian)
	unpackBinary := func(version string) {
		c.run("cd /root; rm -rf holdfast_*/; tar --extract --file " + c.put(built(t, version, ".tar.gz")) +
			"; install -m 755 holdfast_*/holdfast /usr/local/bin/; rm holdfast_*.tar.gz")
	}
	unpackBinary(older)
	home := c.try("/root/holdfast_*/holdfast service install")
	if home.code == 0 {
		t.Errorf("got exit code 0 and %q, want a binary below /root refused: the service can't execute it", home.out)
	}
	c.wantSaid(home.err, "install -m 755", "/usr/local/bin")

	c.run("holdfast service install")
	c.wantService(older)
	js, acked := c.wantQueue(), acks{}
	publishSome(t, js, &acked, 20)
	pid := c.prop("MainPID")
	c.wantSaid(c.run("holdfast service install"), "already installed")
	if got := c.prop("MainPID"); got != pid {
		t.Errorf("got process %s, want a second install to leave %s running", got, pid)
	}
	c.wantSaid(c.run("holdfast service status"), "running", pid, "/etc/systemd/system/holdfast.service")
	if got := c.run("systemd-analyze verify --man=no /etc/systemd/system/holdfast.service"); got != "" {
		t.Errorf("got %q, want a unit without a flaw", got)
	}
	c.kill()
	c.reboot()
	c.wantService(older)
	wantAll(t, js, &acked)

	l := startLoad(t, js, &acked)
	l.more(c, 50)
	unpackBinary(newer)
	c.run("holdfast service upgrade-check && holdfast service restart")
	c.wantService(newer)
	l.more(c, 50)
	l.stop()

	c.wantSaid(c.run("holdfast service uninstall"), data)
	c.wantGone()
	c.run("holdfast service uninstall") // and that is all right, too
	if r := c.try("holdfast service status"); r.code != 3 {
		t.Errorf("service status: got exit code %d and %q, want 3", r.code, r.out)
	}
	c.run("holdfast service install")
	c.wantService(newer)
	wantAll(t, js, &acked)
}
