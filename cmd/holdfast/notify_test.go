// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestFailedStartTellsSystemdWhy is what makes `systemctl status` enough.
func TestFailedStartTellsSystemdWhy(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = taken.Close() })
	for name, c := range map[string]struct {
		text string
		code int
		want []string
	}{
		"configuration": {"node: {data_dir: data}\nlistne: {}\n", exitPermanent, []string{"STATUS=configuration not valid: ", "holdfast.yaml:2:1: listne: "}},
		"port": {
			"node: {data_dir: data}\nlisten: {client: \"" + taken.Addr().String() + "\", http: \"127.0.0.1:0\"}\n", exitFailed,
			[]string{"STATUS=failed: listen on " + taken.Addr().String(), "; stop it, or set listen.client"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			home := t.TempDir()
			socket := filepath.Join(home, "notify")
			conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = conn.Close() })
			t.Setenv("NOTIFY_SOCKET", socket)
			file := filepath.Join(home, "holdfast.yaml")
			if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			if got := run([]string{"run", "--allow-unsafe-storage", "--config", file}, stdio{in: os.Stdin, out: io.Discard, err: io.Discard}); got != c.code {
				t.Errorf("got exit code %d, want %d", got, c.code)
			}
			last := ""
			for buf := make([]byte, 4096); ; {
				if err := conn.SetReadDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
					t.Fatal(err)
				}
				n, err := conn.Read(buf)
				if err != nil {
					break // all datagrams were there when run returned
				}
				last = string(buf[:n])
			}
			for _, want := range c.want {
				if !strings.Contains(last, want) {
					t.Errorf("got %q as the last word, want %q in it", last, want)
				}
			}
		})
	}
}
