// SPDX-License-Identifier: Apache-2.0

//go:build system && linux

package systemtest

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// bootLAN starts three machines n1, n2 and n3 on a network of their own, each with an
// address, and the names of all as an installer and an administrator write them.
func bootLAN(t *testing.T) []*container {
	t.Helper()
	nodes := make([]*container, 3)
	for i := range nodes {
		nodes[i] = unpack(t, debian)
		nodes[i].host = fmt.Sprintf("n%d", i+1)
		hosts := "127.0.0.1 localhost\n127.0.1.1 " + nodes[i].host + "\n"
		for j := range nodes {
			hosts += fmt.Sprintf("%s n%d\n", address(j), j+1)
		}
		nodes[i].write("/etc/hosts", hosts)
		nodes[i].write("/etc/hostname", nodes[i].host+"\n") // systemd goes by it
		nodes[i].powerOn()
	}
	for _, c := range nodes {
		c.waitUp()
	}
	connect(t, nodes)
	return nodes
}

func address(i int) string { return fmt.Sprintf("10.99.0.%d", i+1) }

// connect puts machines on a switch, which is a network namespace. It ends with the
// process in it, and so with the tests.
func connect(t *testing.T, nodes []*container) {
	t.Helper()
	sw := exec.Command("sleep", "infinity")
	sw.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	if err := sw.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = sw.Process.Kill()
		_ = sw.Wait()
	})
	var b strings.Builder
	b.WriteString("ip link add br0 type bridge; ip link set br0 up\n")
	for i, c := range nodes {
		pid, err := c.leader()
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "ip link add port%d type veth peer name eth0 netns %d; ip link set port%d master br0 up\n", i, pid, i)
	}
	if r := nodes[0].do("nsenter", "--target", strconv.Itoa(sw.Process.Pid), "--net", "--", "sh", "-ec", b.String()); r.code != 0 {
		t.Fatalf("connect the machines: got exit code %d: %s%s", r.code, r.out, r.err)
	}
	for i, c := range nodes {
		c.run("ip address add " + address(i) + "/24 dev eth0; ip link set eth0 up")
	}
}
