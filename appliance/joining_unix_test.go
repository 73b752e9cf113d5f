// SPDX-License-Identifier: Apache-2.0

//go:build unix

package appliance

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-mq/holdfast/appliance/config"
	"github.com/holdfast-mq/holdfast/appliance/porttest"
	"github.com/holdfast-mq/holdfast/appliance/service"
)

// TestANodeThatWaitsForOthersGivesSignsOfLife: systemd kills a node that has said READY=1
// and gives none.
func TestANodeThatWaitsForOthersGivesSignsOfLife(t *testing.T) {
	home := t.TempDir()
	socket := filepath.Join(home, "n")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	t.Setenv("NOTIFY_SOCKET", socket)
	t.Setenv("WATCHDOG_USEC", "400000")
	secret := filepath.Join(home, "secret")
	if err := os.WriteFile(secret, []byte(strings.Repeat("s", 40)), 0o600); err != nil {
		t.Fatal(err)
	}
	addr := fmt.Sprintf("127.0.0.1:%d", porttest.Free(t, 2))
	file := filepath.Join(home, "holdfast.yaml")
	text := "node: {data_dir: " + filepath.Join(home, "data") + "}\nlisten: {http: \"127.0.0.1:0\"}\ncluster: {name: c, listen: \"" + addr + "\", advertise: \"" + addr +
		"\", peers: [\"" + addr + "\", \"127.0.0.1:1\", \"127.0.0.1:3\"], secret: \"file:" + secret + "\"}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, problems := LoadConfig(config.Options{File: file})
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	joined := make(chan error, 1)
	go func() {
		joined <- Join(ctx, Options{Config: cfg, AllowUnsafe: true, Log: slog.New(slog.DiscardHandler), Notify: service.NewNotifier()})
	}()
	if err := l.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 4096)
	for alive, told := 0, false; alive < 2 || !told; {
		n, err := l.Read(buf)
		if err != nil {
			cancel()
			t.Fatalf("got %v after %d signs of life, and told for whom it waits %t; Join ended with %v", err, alive, told, <-joined)
		}
		if said := string(buf[:n]); said == "WATCHDOG=1" {
			alive++
		} else if strings.Contains(said, "waiting for 127.0.0.1:1") {
			told = true
		}
	}
	cancel()
	if err := <-joined; err != nil {
		t.Error(err)
	}
}
