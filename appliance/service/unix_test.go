// SPDX-License-Identifier: Apache-2.0

//go:build unix

package service

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// patience only bounds a hang: what works takes nothing like it, on a busy
// machine either.
const patience = 30 * time.Second

// listenAsSystemd is the other end of $NOTIFY_SOCKET.
func listenAsSystemd(t *testing.T, name string) func() string {
	t.Helper()
	addr := name
	if name[0] == '@' {
		addr = "\x00" + name[1:]
	}
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: addr, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	t.Setenv("NOTIFY_SOCKET", name)
	return func() string {
		if err := c.SetReadDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 1024)
		n, err := c.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		return string(buf[:n])
	}
}

func TestNotifierTellsSystemd(t *testing.T) {
	names := []string{filepath.Join(t.TempDir(), "notify")}
	if runtime.GOOS == "linux" {
		names = append(names, "@holdfast-test-"+strconv.Itoa(os.Getpid()))
	}
	for _, name := range names {
		read := listenAsSystemd(t, name)
		n := NewNotifier()
		for want, tell := range map[string]func(){
			"READY=1\nSTATUS=ready":                                 func() { n.Ready("ready") },
			"STATUS=one line only":                                  func() { n.Status("one line\nonly") },
			"EXTEND_TIMEOUT_USEC=30000000\nSTATUS=recovering: 1/2":  func() { n.Extend(30*time.Second, "recovering: 1/2") },
			"READY=1\nSTATUS=not ready: stream NOTIFY=1 can't be  ": func() { n.Ready("not ready: stream\nNOTIFY=1 can't be\n ") },
			"STOPPING=1\nSTATUS=draining clients":                   n.Stopping,
		} {
			tell()
			if got := read(); got != want {
				t.Errorf("%s: got %q, want %q", name, got, want)
			}
		}
	}
}

func TestNotifierNeedsNobodyToListen(t *testing.T) {
	for _, name := range []string{"", filepath.Join(t.TempDir(), "nobody"), "@nobody-listens-here"} {
		t.Setenv("NOTIFY_SOCKET", name)
		NewNotifier().Ready("ready")
	}
	Notifier{}.Stopping()
}

func wait(t *testing.T, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(patience):
		t.Fatalf("got no end of %s, want one", what)
	}
}

func TestTheFirstSignalDrainsAndTheSecondStops(t *testing.T) {
	for _, pair := range [][2]syscall.Signal{{syscall.SIGTERM, syscall.SIGTERM}, {syscall.SIGINT, syscall.SIGTERM}, {syscall.SIGTERM, syscall.SIGINT}} {
		drain, now, stop := Signals(context.Background())
		if drain.Err() != nil || now.Err() != nil {
			t.Fatal("got an end before any signal, want none")
		}
		send(t, pair[0])
		wait(t, "drain", drain.Done())
		if now.Err() != nil {
			t.Errorf("%v: got an end of now with the first signal, want it with the second", pair)
		}
		send(t, pair[1])
		wait(t, "now", now.Done())
		stop()
	}
}

func TestSignalsEndsWithItsParentAndItsStop(t *testing.T) {
	parent, cancel := context.WithCancel(context.Background())
	drain, now, stop := Signals(parent)
	cancel()
	wait(t, "drain", drain.Done())
	wait(t, "now", now.Done())
	stop()

	drain, now, stop = Signals(context.Background())
	stop()
	wait(t, "drain", drain.Done())
	wait(t, "now", now.Done())
}

func TestHangupsAreDelivered(t *testing.T) {
	c, stop := Hangups()
	defer stop()
	send(t, syscall.SIGHUP)
	select {
	case <-c:
	case <-time.After(patience):
		t.Fatal("got no hangup, want one")
	}
}

func send(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(os.Getpid(), s); err != nil {
		t.Fatal(err)
	}
}
