// SPDX-License-Identifier: Apache-2.0

//go:build system && linux

package systemtest

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestKillsInARow are more than systemd takes by default before it gives up.
func TestKillsInARow(t *testing.T) {
	t.Parallel()
	c := installed(t, older)
	c.dropIn("RestartSec=100ms")
	js, acked := c.wantQueue(), acks{}
	l := startLoad(t, js, &acked)
	for range 7 {
		l.more(c, 5)
		c.kill()
	}
	l.more(c, 5)
	l.stop()
	c.wantService(older)
	wantAll(t, js, &acked)
}

// TestWatchdogEndsANodeThatHangs stops the process with a signal, which no
// node notices.
func TestWatchdogEndsANodeThatHangs(t *testing.T) {
	t.Parallel()
	c := installed(t, older)
	c.dropIn("WatchdogSec=3s\nRestartSec=100ms")
	c.run("systemctl restart holdfast.service")
	js, acked := c.wantQueue(), acks{}
	publishSome(t, js, &acked, 20)
	before := c.prop("MainPID")
	c.run("kill -STOP " + before)
	c.eventually(func() error {
		if now := c.prop("MainPID"); now == before || now == "0" {
			return fmt.Errorf("got process %s, want another than the one that hangs", now)
		}
		return nil
	})
	c.wantService(older)
	c.wantSaid(c.run("journalctl --no-pager --unit=holdfast.service"), "Watchdog timeout (limit 3s)")
	wantAll(t, js, &acked)

	// A node that is well lives on under the same watchdog.
	pid, fed := c.prop("MainPID"), c.prop("WatchdogTimestampMonotonic")
	seen := 0
	c.eventually(func() error {
		if now := c.prop("WatchdogTimestampMonotonic"); now != fed {
			fed = now
			seen++
		}
		if seen < 4 {
			return fmt.Errorf("got %d signs of life, want them to come", seen)
		}
		return nil
	})
	if got := c.prop("MainPID"); got != pid {
		t.Errorf("got process %s, want %s to live on", got, pid)
	}
}

func TestDropInWithoutNetlinkIsFound(t *testing.T) {
	t.Parallel()
	c := installed(t, older)
	c.doctor(0, "unit")
	c.dropIn("RestrictAddressFamilies=\nRestrictAddressFamilies=AF_UNIX AF_INET AF_INET6")
	c.run("systemctl restart holdfast.service")
	c.wantService(older) // it runs, on the loopback
	c.wantQueue()
	c.wantSaid(c.doctor(3, "unit"), "AF_NETLINK", "test.conf")
}

// TestSandboxHolds looks at the process and not at the unit.
func TestSandboxHolds(t *testing.T) {
	t.Parallel()
	c := installed(t, older)
	status := c.run("cat /proc/$(systemctl show --property=MainPID --value holdfast.service)/status")
	for _, want := range []string{"CapEff:\t0000000000000000", "CapBnd:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2"} {
		c.wantSaid(status, want)
	}
	uid := strings.TrimSpace(c.run("id --user holdfast"))
	c.wantSaid(status, fmt.Sprintf("Uid:\t%s\t%s\t%s\t%s", uid, uid, uid, uid))

	// As root, so that it is the mount that forbids it; then as the service.
	inside := "nsenter --mount --target $(systemctl show --property=MainPID --value holdfast.service) -- "
	as := "setpriv --reuid=holdfast --regid=holdfast --clear-groups --no-new-privs "
	for _, path := range []string{"/etc/new", "/usr/new", "/etc/holdfast/new", "/var/new"} {
		for _, who := range []string{"", as} {
			r := c.try(inside + who + "sh -c 'echo x >" + path + "'")
			if r.code == 0 || !strings.Contains(r.err, "Read-only file system") {
				t.Errorf("write %s (%s): got exit code %d and %q, want a read-only file system", path, who, r.code, r.err)
			}
		}
	}
	c.run(inside + as + "sh -c 'echo x >" + data + "/new && rm " + data + "/new'")

	said := c.run("systemd-analyze security --no-pager --threshold=15 holdfast.service")
	t.Log(strings.TrimSpace(said[strings.LastIndex(strings.TrimSpace(said), "\n")+1:]))
	if got := c.run("systemd-analyze verify --man=no /usr/lib/systemd/system/holdfast.service"); got != "" {
		t.Errorf("got %q, want a unit without a flaw", got)
	}
}

func TestSecretsAreTheNodesAlone(t *testing.T) {
	t.Parallel()
	c := installed(t, older)
	c.wantQueue()
	if got := c.run("find " + data + " -type f -perm /077 -ls; find " + data + " -type d -perm /027 -ls; find " + data + " ! -user holdfast -ls"); got != "" {
		t.Errorf("got files that others can read:\n%s", got)
	}
	got := c.run("stat --format='%a %U:%G %n' " + data + " /etc/holdfast/holdfast.yaml /etc/holdfast/holdfast.d /run/holdfast/admin.sock")
	want := "750 holdfast:holdfast /var/lib/holdfast\n640 root:holdfast /etc/holdfast/holdfast.yaml\n750 root:holdfast /etc/holdfast/holdfast.d\n660 holdfast:holdfast /run/holdfast/admin.sock\n"
	if got != want {
		t.Errorf("got\n%s, want\n%s", got, want)
	}
}

// TestLongRecoveryOutlivesTheStartTimeout has a store to read through, as after
// a power cut, on a machine that is slow.
func TestLongRecoveryOutlivesTheStartTimeout(t *testing.T) {
	c := installed(t, older)
	js, acked := c.wantQueue(), acks{}
	publishSome(t, js, &acked, 20)
	const many, limit = 200_000, 15 * time.Second
	publishMany(t, js, many)
	c.dropIn("TimeoutStartSec=15s\nRestart=no")
	c.run("systemctl kill --signal=KILL holdfast.service")
	c.waitUnit("failed")
	c.run("systemctl reset-failed holdfast.service; find " + data + " -name index.db -delete")

	// Before the recovery nothing asks for more time, so that has to fit.
	c.slowDown(t, 6)
	c.run("systemctl start --no-block holdfast.service")
	begin := time.Now()
	c.eventually(func() error {
		if got := c.prop("StatusText"); !strings.HasPrefix(got, "checking") && !strings.HasPrefix(got, "recovering") {
			return fmt.Errorf("got status %q, want how far the start is", got)
		}
		return nil
	})
	c.slowDown(t, 1)
	c.eventually(func() error {
		if got := time.Since(begin); got < limit+2*time.Second {
			return fmt.Errorf("the start takes %v, which is within its limit", got)
		}
		return nil
	})
	said := c.try("systemctl status --no-pager holdfast.service").out
	c.wantSaid(said, "Active: activating")
	// Which of the two takes long depends on the machine.
	if !strings.Contains(said, "Status: \"checking") && !strings.Contains(said, "Status: \"recovering") {
		t.Errorf("got %q, want how far the start is", said)
	}
	c.slowDown(t, 100)
	c.waitUnit("active")
	if c.restarts() != 0 {
		t.Errorf("got %d restarts, want the first start to get through", c.restarts())
	}
	stream, err := js.Stream(t.Context(), "JOBS")
	if err != nil {
		t.Fatal(err)
	}
	if got := stream.CachedInfo().State.Msgs; got != 20+many {
		t.Errorf("got %d messages, want %d", got, 20+many)
	}
	wantAmong(t, stream, &acked, 1, 20)
}
