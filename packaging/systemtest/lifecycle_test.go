// SPDX-License-Identifier: Apache-2.0

//go:build system && linux

package systemtest

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
)

const data = "/var/lib/holdfast"

// prop asks systemd for a property of the unit.
func (c *container) prop(name string) string {
	return strings.TrimSpace(c.try("systemctl show --property=" + name + " --value holdfast.service").out)
}

// waitUnit waits for an ActiveState of the unit.
func (c *container) waitUnit(state string) {
	c.t.Helper()
	c.eventually(func() error {
		if got := c.prop("ActiveState"); got != state {
			return fmt.Errorf("holdfast.service is %q (%s), want %q", got, c.prop("Result"), state)
		}
		return nil
	})
}

func (c *container) restarts() int {
	c.t.Helper()
	n, err := strconv.Atoi(c.prop("NRestarts"))
	if err != nil {
		c.t.Fatal(err)
	}
	return n
}

// wantService fails unless the service is what a fresh installation promises.
func (c *container) wantService(version string) {
	c.t.Helper()
	c.waitUnit("active")
	if got := strings.TrimSpace(c.try("systemctl is-enabled holdfast.service").out); got != "enabled" {
		c.t.Errorf("got %q, want the service enabled: it has to come back at boot", got)
	}
	c.wantRunning(version)
	sockets := 0
	for line := range strings.Lines(c.run("ss --no-header --tcp --udp --listening --numeric --processes")) {
		f := strings.Fields(line)
		if !strings.Contains(line, "holdfast") {
			continue
		}
		sockets++
		if !strings.HasPrefix(f[4], "127.0.0.1:") {
			c.t.Errorf("got a socket on %s, want the loopback only", f[4])
		}
	}
	if sockets == 0 {
		c.t.Error("got no listening socket of holdfast, want some on the loopback")
	}
}

// wantRunning asks the process itself: the file may be another already.
func (c *container) wantRunning(version string) {
	c.t.Helper()
	c.eventually(func() error {
		got := c.run("/proc/$(systemctl show --property=MainPID --value holdfast.service)/exe version")
		if !strings.Contains(got, version) {
			return fmt.Errorf("got %q from the running process, want %s", got, version)
		}
		return nil
	})
}

// kill ends the node the hard way, and waits until systemd brought it back.
func (c *container) kill() {
	c.t.Helper()
	before, restarts := c.prop("MainPID"), c.restarts()
	c.run("kill -KILL " + before)
	c.eventually(func() error {
		if now := c.prop("MainPID"); now == before || now == "0" || c.restarts() != restarts+1 {
			return fmt.Errorf("got process %s, restarts %d, want another than %s, and one restart more than %d", now, c.restarts(), before, restarts)
		}
		return nil
	})
	c.waitUnit("active")
}

// wantGone fails unless nothing runs and nothing starts at boot.
func (c *container) wantGone() {
	c.t.Helper()
	c.eventually(func() error {
		if got := c.prop("ActiveState"); got != "inactive" && got != "failed" {
			return errors.New("holdfast.service is " + got)
		}
		return nil
	})
	if r := c.try("ps -C holdfast -o args="); r.out != "" {
		c.t.Errorf("got %q, want no process left", r.out)
	}
	c.want(false, "/usr/bin/holdfast", "/usr/lib/systemd/system/holdfast.service")
	if got := strings.TrimSpace(c.try("systemctl is-enabled holdfast.service").out); got == "enabled" {
		c.t.Error("got holdfast.service enabled, want nothing that starts at boot")
	}
}

func (c *container) exists(path string) bool { return c.try("test -e "+path).code == 0 }

// want fails unless a path is there, or is not.
func (c *container) want(there bool, paths ...string) {
	c.t.Helper()
	for _, path := range paths {
		if got := c.exists(path); got != there {
			c.t.Errorf("%s: got exists %v, want %v", path, got, there)
		}
	}
}

// wantQueue fails unless the starter's queue is there, for a stock client.
func (c *container) wantQueue() jetstream.JetStream {
	c.t.Helper()
	js := c.client("main/admin")
	if _, err := js.Consumer(c.t.Context(), "JOBS", "worker"); err != nil {
		c.t.Fatalf("look for the starter's queue: %v", err)
	}
	return js
}

// packager is how one kind of package is handled by hand.
type packager struct {
	system                   func() (string, error)
	extension                string
	install, upgrade, remove string
}

// Debian's rpm has a database without a package in it: nothing that one needs.
var packagers = map[string]packager{
	"deb": {debian, ".deb", "dpkg --install %s", "dpkg --install %s", "dpkg --remove holdfast"},
	"rpm": {debianWithRPM, ".rpm", "rpm --install --nodeps %s", "rpm --upgrade --nodeps %s", "rpm --erase holdfast"},
}

// TestPackageLifecycle is the life of a queue, from the first installation to
// the last: nothing that was acknowledged is lost on the way.
func TestPackageLifecycle(t *testing.T) {
	for name, p := range packagers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := boot(t, p.system)
			old, recent := c.put(built(t, older, p.extension)), c.put(built(t, newer, p.extension))
			var acked acks

			c.run(fmt.Sprintf(p.install, old))
			c.wantService(older)
			js := c.wantQueue()
			publishSome(t, js, &acked, 20)
			c.kill()
			wantAll(t, js, &acked)
			c.reboot()
			c.wantService(older)
			wantAll(t, js, &acked)

			l := startLoad(t, js, &acked)
			l.more(c, 50)
			c.run(fmt.Sprintf(p.upgrade, recent))
			c.wantService(newer)
			l.more(c, 50)
			l.stop()
			wantAll(t, js, &acked)

			c.run(p.remove)
			c.wantGone()
			c.want(true, data+"/VERSION", data+"/jetstream")
			// dpkg leaves the configuration, rpm what was edited in it.
			c.want(name == "deb", "/etc/holdfast/holdfast.yaml", "/etc/default/holdfast")

			c.run(fmt.Sprintf(p.install, recent))
			c.wantService(newer)
			wantAll(t, js, &acked)
		})
	}
}

// TestPurgeKeepsMessagesUnlessAsked: they are not configuration.
func TestPurgeKeepsMessagesUnlessAsked(t *testing.T) {
	t.Parallel()
	c := installed(t, older)
	js, acked := c.wantQueue(), acks{}
	publishSome(t, js, &acked, 20)
	c.write("/etc/holdfast/holdfast.d/site.yaml", "log: {level: info}\n")
	said := c.run("dpkg --purge holdfast")
	c.wantSaid(said, "messages and keys are kept in "+data)
	c.wantGone()
	c.want(true, data+"/VERSION", data+"/jetstream")
	c.want(false, "/etc/holdfast", "/etc/default/holdfast", "/etc/systemd/system/multi-user.target.wants/holdfast.service")

	deb := "/root/" + filepath.Base(built(t, older, ".deb"))
	c.run("dpkg --install " + deb)
	c.wantService(older)
	wantAll(t, js, &acked)
	c.run("PURGE_DATA=yes dpkg --purge holdfast")
	c.wantGone()
	c.want(false, "/etc/holdfast", data)
	c.run("id holdfast") // its number given to somebody else would be a key
	c.run("dpkg --install " + deb)
	c.wantService(older)
}
