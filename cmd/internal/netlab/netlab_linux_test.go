// SPDX-License-Identifier: Apache-2.0

package netlab

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestMain is also the program in a network namespace of its own.
func TestMain(m *testing.M) {
	if os.Getenv("NETLAB_APART") == "" && len(Missing()) == 0 {
		self, err := os.Executable()
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		cmd := exec.Command(self, os.Args[1:]...)
		cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), "NETLAB_APART=1"), os.Stdout, os.Stderr
		Apart(cmd)
		if cmd.Run() != nil {
			os.Exit(1) // it has said why
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestHostsAreCutOffAndComeBack(t *testing.T) {
	if missing := Missing(); len(missing) > 0 {
		t.Skipf("skipping: needs %s", strings.Join(missing, ", "))
	}
	hosts, err := New(t.Context(), 2)
	if err != nil {
		t.Fatal(err)
	}
	address := hosts[0].Addr + ":7001"
	var l net.Listener
	if err := hosts[0].Do(func() error { l, err = net.Listen("tcp", address); return err }); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, "hello")
			_ = c.Close()
		}
	}()
	reach := func(h *Host) error {
		c, err := h.Dial("tcp", address)
		if err != nil {
			return err
		}
		defer c.Close()
		_, err = io.ReadAll(c)
		return err
	}
	near := net.Dialer{Timeout: dialLimit}
	for name, cut := range map[string]func() error{
		"nothing":    nil,
		"unplugged":  func() error { return hosts[0].Unplug(t.Context()) },
		"dropped":    func() error { return hosts[0].Drop(t.Context()) },
		"deaf":       func() error { return hosts[0].Deafen(t.Context(), 7001) },
		"deaf there": func() error { return hosts[1].Deafen(t.Context(), 7001) },
	} {
		if cut != nil {
			if err := cut(); err != nil {
				t.Fatal(err)
			}
		}
		if err := reach(hosts[1]); (err == nil) != (cut == nil) {
			t.Errorf("%s: got %v from the other host", name, err)
		}
		if err := reach(hosts[0]); err != nil {
			t.Errorf("%s: got %v from the host itself", name, err)
		}
		for _, h := range hosts {
			if err := h.Heal(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	c, err := near.DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatalf("got %v from the clients' side, want a connection", err)
	}
	_ = c.Close()
}
