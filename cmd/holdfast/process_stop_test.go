// SPDX-License-Identifier: Apache-2.0

//go:build process && linux

package main

import (
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

func TestProcessSendsClientsAwayBeforeItStops(t *testing.T) {
	t.Parallel()
	for _, sig := range []os.Signal{syscall.SIGTERM, syscall.SIGINT} {
		n := newNode(t, shop).start()
		lameDuck, closed := make(chan struct{}), make(chan struct{})
		nc := n.connect(
			nats.LameDuckModeHandler(func(*nats.Conn) { close(lameDuck) }),
			nats.ClosedHandler(func(*nats.Conn) { close(closed) }),
		)
		js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(patience))
		if err != nil {
			t.Fatal(err)
		}
		ack := publish(t, js, "orders.new", "just before the end")

		n.signal(sig)
		for what, c := range map[string]chan struct{}{"a lame duck notice": lameDuck, "a closed connection": closed} {
			select {
			case <-c:
			case <-time.After(stopLimit):
				t.Fatalf("%v: got no %s, want one", sig, what)
			}
		}
		if code := n.wait(); code != exitOK {
			t.Errorf("%v: got exit code %d, want 0", sig, code)
		}
		n.logged("msg=stopped")
		if _, err := os.Stat(n.data + "/admin.sock"); !os.IsNotExist(err) {
			t.Errorf("got %v for the admin socket, want it removed", err)
		}

		n.start()
		s, err := n.jetStream().Stream(t.Context(), "ORDERS")
		if err != nil {
			t.Fatal(err)
		}
		if m, err := s.GetMsg(t.Context(), ack.Sequence); err != nil || string(m.Data) != "just before the end" {
			t.Errorf("%v: got %v, %v, want the acknowledged message", sig, m, err)
		}
		n.stop()
	}
}

// TestProcessStopsAtOnceAtASecondSignal has so many clients that the first
// signal alone would take at least 9.4 s from the first of them to the last: they
// are sent away a third to two thirds of a second apart.
func TestProcessStopsAtOnceAtASecondSignal(t *testing.T) {
	t.Parallel()
	const clients = 30
	n := newNode(t, shop).start()
	var gone atomic.Int32
	for range clients {
		n.connect(nats.ClosedHandler(func(*nats.Conn) { gone.Add(1) }))
	}
	ack := publish(t, n.jetStream(), "orders.new", "kept")
	n.signal(syscall.SIGTERM)
	eventually(t, patience, func() error {
		if gone.Load() == 0 {
			return fmt.Errorf("got no client sent away, want the first")
		}
		return nil
	})
	second := time.Now()
	n.signal(syscall.SIGTERM)
	if code := n.wait(); code != exitOK {
		t.Errorf("got exit code %d, want 0", code)
	}
	if took := time.Since(second); took > 9*time.Second {
		t.Errorf("got the end %v after the second signal, want it at once", took)
	}
	n.logged("msg=stopped")
	n.start()
	if s, err := n.jetStream().Stream(t.Context(), "ORDERS"); err != nil || s.CachedInfo().State.LastSeq != ack.Sequence {
		t.Errorf("got %v, want the acknowledged message", err)
	}
	n.stop()
}

func TestProcessStopsCleanlyWhileItStarts(t *testing.T) {
	t.Parallel()
	n := newNode(t, shop)
	for range 5 {
		n.launch()
		n.logged("holdfast starting")
		n.stop()
		n.log = &output{}
	}
	n.start()
	checkTopology(t, n.waitReady())
	n.stop()
}

func TestProcessSurvivesAHangup(t *testing.T) {
	t.Parallel()
	n := newNode(t, shop).start()
	n.signal(syscall.SIGHUP)
	if line := n.logged("configuration reloaded"); !strings.Contains(line, "level=INFO") {
		t.Errorf("got %q, want it said", line)
	}
	n.waitReady()
	n.stop()
}

func TestProcessSurvivesClosedOutput(t *testing.T) {
	t.Parallel()
	n := newNode(t, strings.Replace(shop, "accounts:", "log: {level: debug}\naccounts:", 1))
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := n.command(append([]string{"run", "--config", "holdfast.yaml"}, n.args...)...)
	cmd.Stdout, cmd.Stderr = w, w
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	n.launchAs(cmd)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	n.waitReady()
	n.signal(syscall.SIGHUP) // makes it write
	publish(t, n.jetStream(), "orders.new", "works")
	n.stop()
}
