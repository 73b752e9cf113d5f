// SPDX-License-Identifier: Apache-2.0

//go:build system && linux

package systemtest

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// installed boots a container and installs the deb.
func installed(t *testing.T, version string) *container {
	t.Helper()
	c := boot(t, debian)
	c.run("dpkg --install " + c.put(built(t, version, ".deb")))
	c.waitUnit("active")
	return c
}

// TestInstallWithThePortTaken is about the distribution's nats-server, which
// has our port.
func TestInstallWithThePortTaken(t *testing.T) {
	t.Parallel()
	c := boot(t, debian)
	c.run("systemctl start nats-server.service")
	said := c.run("dpkg --install " + c.put(built(t, older, ".deb")))
	c.wantSaid(said, "holdfast doctor")
	c.wantSaid(c.doctor(3, "ports"), "4222", "nats-server", "systemctl")
	c.wantSaid(c.run("journalctl --no-pager --unit=holdfast.service"), "127.0.0.1:4222")

	// It keeps trying, for nobody may be there, but not in a hot loop.
	begin, restarts := time.Now(), c.restarts()
	c.eventually(func() error {
		if got := c.restarts(); got < restarts+2 {
			return fmt.Errorf("got %d restarts, want it to keep trying", got-restarts)
		}
		return nil
	})
	if took := time.Since(begin); took < 5*time.Second {
		t.Errorf("got two restarts within %v, want at least RestartSec between them", took)
	}
	c.run("systemctl disable --now nats-server.service")
	c.wantService(older)
	c.wantQueue()
}

func TestInstallOnAFullDisk(t *testing.T) {
	t.Parallel()
	c := unpack(t, debian, "size=384m")
	c.start()
	deb := c.put(built(t, older, ".deb"))
	c.run(`head --bytes=$(($(df --output=avail --block-size=1 / | tail -1) - 24000000)) /dev/zero >/filler`)
	r := c.try("dpkg --install " + deb)
	if r.code == 0 || !strings.Contains(r.err, "No space left on device") {
		t.Fatalf("got exit code %d and %q, want the disk to be too small for this test", r.code, r.err)
	}
	c.run("rm /filler")
	c.run("dpkg --install " + deb)
	c.wantService(older)
	c.wantQueue()
}

func TestInstallTwice(t *testing.T) {
	t.Parallel()
	again := map[string]string{"deb": "dpkg --install %s", "rpm": "rpm --upgrade --nodeps --replacepkgs %s"}
	for name, p := range packagers {
		t.Run(name, func(t *testing.T) {
			c := boot(t, p.system)
			file := c.put(built(t, older, p.extension))
			c.run(fmt.Sprintf(p.install, file))
			c.wantService(older)
			js, acked := c.wantQueue(), acks{}
			publishSome(t, js, &acked, 20)
			c.run(fmt.Sprintf(again[name], file))
			c.wantService(older)
			wantAll(t, js, &acked)
		})
	}
}

// TestInstallWithoutSystemd is that of an image builder: nothing runs while it
// is installed, and everything at the first boot.
func TestInstallWithoutSystemd(t *testing.T) {
	t.Parallel()
	for name, p := range packagers {
		t.Run(name, func(t *testing.T) {
			c := unpack(t, p.system)
			file := c.put(built(t, older, p.extension))
			r := c.do("chroot", c.root, "sh", "-c", fmt.Sprintf(p.install, file))
			if r.code != 0 {
				t.Fatalf("got exit code %d, want 0:\n%s%s", r.code, r.out, r.err)
			}
			c.start()
			c.wantService(older)
			c.wantQueue()
		})
	}
}

// TestLeftoverUnitIsNoticed is about a unit in /etc, of a tarball for one: it
// hides the package's for ever.
func TestLeftoverUnitIsNoticed(t *testing.T) {
	t.Parallel()
	c := boot(t, debian)
	c.run("cd /root; tar --extract --file " + c.put(built(t, older, ".tar.gz")) + "; install -m 755 holdfast_*/holdfast /usr/local/bin/")
	c.run("holdfast service install")
	js, acked := c.wantQueue(), acks{}
	publishSome(t, js, &acked, 20)
	const leftover = "/etc/systemd/system/holdfast.service"
	said := c.run("dpkg --install " + c.put(built(t, newer, ".deb")))
	c.wantSaid(said, leftover, "rm "+leftover)
	c.wantSaid(c.doctor(3, "unit"), leftover, "/usr/lib/systemd/system/holdfast.service")
	status := c.try("/usr/bin/holdfast service status")
	c.wantSaid(status.out+status.err, "warning", leftover)
	if r := c.try("/usr/bin/holdfast service install"); r.code == 0 {
		t.Errorf("got exit code 0 and %q, want the service that a package has installed left alone", r.out)
	}
	// What it says is what helps.
	_, command, _ := strings.Cut(said, "  rm ")
	command, _, _ = strings.Cut(command, "\n")
	c.run("rm " + command)
	c.wantService(newer)
	wantAll(t, js, &acked)
	c.doctor(0, "unit")
}
