// SPDX-License-Identifier: Apache-2.0

//go:build system && linux

package systemtest

import (
	"fmt"
	"strings"
	"testing"
)

const configFile = "/etc/holdfast/holdfast.yaml"

// wantGivenUp fails unless the service has stopped for good, and says why.
func (c *container) wantGivenUp(words ...string) {
	c.t.Helper()
	c.eventually(func() error {
		if state, code := c.prop("ActiveState"), c.prop("ExecMainStatus"); state != "failed" || code != "78" {
			return fmt.Errorf("got %s with exit code %s, want failed with 78", state, code)
		}
		return nil
	})
	// A restart would be scheduled by now: the states are left at once.
	if got := c.prop("SubState"); got != "failed" || c.restarts() != 0 {
		c.t.Errorf("got state %q and %d restarts, want no try to start what can't", got, c.restarts())
	}
	r := c.try("systemctl status --no-pager --full holdfast.service")
	c.wantSaid(r.out, words...)
}

// TestUpgradeWithABrokenConfigurationLeavesTheOldNodeRunning, whatever the policy.
func TestUpgradeWithABrokenConfigurationLeavesTheOldNodeRunning(t *testing.T) {
	t.Parallel()
	for name, p := range packagers {
		t.Run(name, func(t *testing.T) {
			c := boot(t, p.system)
			c.run(fmt.Sprintf(p.install, c.put(built(t, older, p.extension))))
			c.wantService(older)
			js, acked := c.wantQueue(), acks{}
			publishSome(t, js, &acked, 20)
			good := c.run("cat " + configFile)
			lines := strings.Count(good, "\n")
			c.run(`sed -i s/^RESTART_ON_UPGRADE=.*/RESTART_ON_UPGRADE=yes/ /etc/default/holdfast /etc/sysconfig/holdfast 2>/dev/null || true`)
			c.run("echo 'acounts: {}' >>" + configFile)

			where := fmt.Sprintf("%s:%d:1", configFile, lines+1)
			said := c.run(fmt.Sprintf(p.upgrade, c.put(built(t, newer, p.extension))))
			c.wantSaid(said, where, "acounts", "systemctl restart holdfast")
			c.wantRunning(older)
			publishSome(t, js, &acked, 20)

			// Somebody restarts it all the same.
			c.try("systemctl restart holdfast.service")
			c.wantGivenUp(where)
			c.run("sed -i '$d' " + configFile)
			if got := c.run("cat " + configFile); got != good {
				t.Fatalf("got %q, want the file as it was", got)
			}
			c.run("systemctl restart holdfast.service")
			c.wantService(newer)
			wantAll(t, js, &acked)
		})
	}
}

func TestUpgradeWaitsWhenToldTo(t *testing.T) {
	t.Parallel()
	c := installed(t, older)
	c.run("sed -i s/^RESTART_ON_UPGRADE=.*/RESTART_ON_UPGRADE=no/ /etc/default/holdfast")
	said := c.run("dpkg --install " + c.put(built(t, newer, ".deb")))
	c.wantSaid(said, "RESTART_ON_UPGRADE", "systemctl restart holdfast")
	c.wantRunning(older)
	c.run("systemctl restart holdfast")
	c.wantService(newer)
}

// TestDowngradeOntoANewerStoreIsRefused, and going up again works.
func TestDowngradeOntoANewerStoreIsRefused(t *testing.T) {
	t.Parallel()
	c := installed(t, newer)
	js, acked := c.wantQueue(), acks{}
	publishSome(t, js, &acked, 20)
	// What a later version would leave, once its format is another.
	c.run(`sed -i.bak -e 's/"format": [0-9]*/"format": 99/' -e 's/"written_by": "[^"]*"/"written_by": "9.9.9"/' ` + data + "/VERSION")
	said := c.run("dpkg --force-downgrade --install " + c.put(built(t, older, ".deb")))
	c.wantSaid(said, "9.9.9", data)
	c.wantRunning(newer) // the process that can read it
	c.try("systemctl restart holdfast.service")
	c.wantGivenUp("9.9.9", data)

	c.run("mv " + data + "/VERSION.bak " + data + "/VERSION")
	c.run("dpkg --install " + c.put(built(t, newer, ".deb")))
	c.run("systemctl start holdfast.service")
	c.wantService(newer)
	wantAll(t, js, &acked)
}

// TestDowngradeOfTheSameFormatWorks is the way back from a version that one
// does not like.
func TestDowngradeOfTheSameFormatWorks(t *testing.T) {
	t.Parallel()
	c := installed(t, newer)
	js, acked := c.wantQueue(), acks{}
	publishSome(t, js, &acked, 20)
	c.run("dpkg --force-downgrade --install " + c.put(built(t, older, ".deb")))
	c.wantService(older)
	wantAll(t, js, &acked)
}
