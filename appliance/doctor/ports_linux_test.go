// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// client sets listen.client of the configuration.
func (p *patient) client(addr string) {
	p.t.Helper()
	old := readText(p.t, p.file)
	_, rest, _ := strings.Cut(old, `client: "`)
	was, _, _ := strings.Cut(rest, `"`)
	p.write(p.file, strings.Replace(old, was, addr, 1), 0o600)
}

func portOf(t *testing.T, addr string) string {
	t.Helper()
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	return port
}

func TestPortOfAnotherBroker(t *testing.T) {
	needsRoot(t)
	for _, addr := range []string{"127.0.0.1:0", "0.0.0.0:0", "[::]:0"} {
		p := newPatient(t, minimal)
		broker := start(t, "nats-server", "listen|"+addr, nil)
		p.client("127.0.0.1:" + portOf(t, broker.said))
		f := p.isIll("ports", Fail, fmt.Sprintf(`^127.0.0.1:%s \(listen.client\) is taken by process %d \(nats-server\).*, user root$`, portOf(t, broker.said), broker.pid))
		if want := "kill " + itoa(broker.pid); f.Fix != want {
			t.Errorf("got the fix %q, want %q", f.Fix, want)
		}
		paste(t, f.Fix)
		eventually(t, "the free port", func() bool { return p.look("ports").Verdict == OK })
	}
}

// cgroup makes a group for the test in the hierarchy of systemd, or another, and
// removes it at the end.
func cgroup(t *testing.T, mounts []string, group string) string {
	t.Helper()
	needsRoot(t)
	for _, at := range mounts {
		if _, err := os.Stat(filepath.Join(at, "cgroup.procs")); err != nil {
			continue
		}
		dir := filepath.Join(at, group)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			continue
		}
		t.Cleanup(func() {
			eventually(t, "an empty group", func() bool { return os.Remove(dir) == nil })
			_ = os.Remove(filepath.Dir(dir)) // fails where others are in it
		})
		return dir
	}
	needs(t, false, "a cgroup that can be written to, one of "+strings.Join(mounts, ", "))
	return ""
}

// TestPortOfTheDistributionsServer is the first surprise on Debian: the package
// nats-server starts its service when it is installed.
func TestPortOfTheDistributionsServer(t *testing.T) {
	group := cgroup(t, []string{"/sys/fs/cgroup/systemd", "/sys/fs/cgroup", "/sys/fs/cgroup/unified"}, "hf-doctor.slice/nats-server.service")
	p := newPatient(t, minimal)
	broker := start(t, "nats-server", "listen|127.0.0.1:0", nil)
	p.write(filepath.Join(group, "cgroup.procs"), itoa(broker.pid), 0o644)
	p.client(broker.said)
	f := p.isIll("ports", Fail, `is taken by process `+itoa(broker.pid)+` \(nats-server\), unit nats-server.service, user root$`)
	if want := "systemctl disable --now nats-server"; f.Fix != want {
		t.Errorf("got the fix %q, want %q", f.Fix, want)
	}
	stub(t, "systemctl", `[ "$*" = "disable --now nats-server" ] && kill `+itoa(broker.pid))
	paste(t, f.Fix)
	eventually(t, "the free port", func() bool { return p.look("ports").Verdict == OK })
}

func TestPortOfAnyOtherProgramIsAPersonsDecision(t *testing.T) {
	needsRoot(t)
	p := newPatient(t, minimal)
	other := start(t, "webserver", "listen|127.0.0.1:0", nil)
	p.client(other.said)
	f := p.isIll("ports", Fail, `is taken by process \d+ \(webserver\)`)
	p.isComment(f)
	if !strings.Contains(f.Fix, "kill "+itoa(other.pid)) || !strings.Contains(f.Fix, "listen.client in "+p.file+":2:") {
		t.Errorf("got the fix %q, want both ways: the process, and the line of the file", f.Fix)
	}
	p.heals("ports", f, func() { p.client("127.0.0.1:0") })
}

func TestPortOfTheNodeItselfIsWell(t *testing.T) {
	p := newPatient(t, minimal)
	node := start(t, "holdfast", "listen|127.0.0.1:0", nil)
	p.client(node.said)
	p.ask = func(context.Context) (Node, error) { return Node{PID: node.pid, Ready: true}, nil }
	if r := p.isWell("ports"); !strings.HasPrefix(r.Evidence, "the node listens on "+node.said) {
		t.Errorf("got %q, want the address", r.Evidence)
	}
}

// TestPortBelow1024NeedsACapability has the setting recorded: in containers everybody
// may open every port.
func TestPortBelow1024NeedsACapability(t *testing.T) {
	p := newService(t)
	if err := os.Remove(filepath.Join(p.root, "proc")); err != nil {
		t.Fatal(err)
	}
	p.write(filepath.Join(p.root, "proc/sys/net/ipv4/ip_unprivileged_port_start"), "1024\n", 0o644)
	if err := os.Symlink("/proc/net", filepath.Join(p.root, "proc/net")); err != nil {
		t.Fatal(err)
	}
	p.client("127.0.0.1:1")
	p.heals("ports", p.isIll("ports", Fail, `^127.0.0.1:1 \(listen.client\) is below 1024`))
}

// TestNamesThatNobodyKnows asks the real resolver, which knows only the hosts file
// that is mounted here.
func TestNamesThatNobodyKnows(t *testing.T) {
	if !inOwnMounts(t) {
		return
	}
	dir := t.TempDir()
	for _, f := range []string{"hosts", "resolv.conf"} {
		file := filepath.Join(dir, f)
		if err := os.WriteFile(file, []byte("127.0.0.1 localhost\n")[:map[string]int{"hosts": 20, "resolv.conf": 0}[f]], 0o644); err != nil {
			t.Fatal(err)
		}
		mustRun(t, "mount", "--bind", file, "/etc/"+f)
		t.Cleanup(func() { _ = exec.Command("umount", "/etc/"+f).Run() }) // else the kernel does
	}
	p := newPatient(t, strings.Replace(minimal, `client: "127.0.0.1:0"`, `client: "0.0.0.0:0", advertise: ["n1.plant:4222", 192.0.2.9]`, 1))
	p.anew = true
	f := p.isIll("names", Warn, `^n1.plant \(listen.advertise\) does not resolve: `)
	p.isComment(f)
	_, command, _ := strings.Cut(f.Fix, "\n# ")
	human := func(address string) func() {
		return func() { paste(t, strings.Replace(command, "ITS-ADDRESS", address, 1)) }
	}
	p.heals("names", f, human("192.0.2.7"))
	if r := p.isWell("names"); !strings.Contains(r.Evidence, "n1.plant is 192.0.2.7") {
		t.Errorf("got %q, want what the name resolves to", r.Evidence)
	}
	// Debian's installer gives the machine's own name to 127.0.1.1.
	paste(t, "echo '127.0.0.1 localhost' > /etc/hosts")
	human("127.0.1.1")()
	p.heals("names", p.isIll("names", Warn, `^n1.plant \(listen.advertise\) is 127.0.1.1 here`), func() { paste(t, "sed 's/127.0.1.1/192.0.2.7/' /etc/hosts > h && cat h > /etc/hosts") })
}

func TestListenerThatNobodyKnowsOrHas(t *testing.T) {
	p := newPatient(t, minimal)
	p.client("192.0.2.200:4222")
	f := p.isIll("names", Warn, `^no interface of this machine has 192.0.2.200 \(listen.client\); it has `)
	p.isComment(f)
	p.heals("names", f, func() { p.client("127.0.0.1:0") })
	p.client("no-such-host.invalid:4222")
	p.isIll("names", Fail, `^no-such-host.invalid \(listen.client\) does not resolve`)
}
