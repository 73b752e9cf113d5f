// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/holdfast-mq/holdfast/appliance/diag"
	"github.com/holdfast-mq/holdfast/appliance/porttest"
)

func TestStartKeepsTheClientPortClosedUntilItIsOpened(t *testing.T) {
	r := newRealm(t, "shop")
	s := r.settings(t)
	s.ClientPort = porttest.Free(t, 1)
	e := started(t, r, s, nil)

	if c, err := net.Dial("tcp", s.clientAddr()); err == nil {
		c.Close()
		t.Fatalf("got a connection to %s before OpenClientPort, want none", s.clientAddr())
	}
	connect(t, r, e, "shop")
	if err := errors.Join(e.Health(), e.JetStreamReady()); err != nil {
		t.Errorf("got %v, want a healthy engine", err)
	}

	addr, err := e.OpenClientPort()
	if err != nil {
		t.Fatal(err)
	}
	if got := addr.String(); got != s.clientAddr() {
		t.Errorf("got address %s, want %s", got, s.clientAddr())
	}
	login, _ := r.login(t, "shop")
	nc, err := nats.Connect("nats://"+addr.String(), login, nats.Timeout(patience))
	if err != nil {
		t.Fatalf("connect to the open port: %v", err)
	}
	nc.Close()
	if again, err := e.OpenClientPort(); err != nil || again.String() != addr.String() {
		t.Errorf("got %v, %v from a second OpenClientPort, want %v", again, err, addr)
	}
}

func TestOpenClientPortLetsTheKernelChoose(t *testing.T) {
	r := newRealm(t)
	e := started(t, r, r.settings(t), nil)
	addr, err := e.OpenClientPort()
	if err != nil {
		t.Fatal(err)
	}
	if p := addr.(*net.TCPAddr).Port; p == 0 || p == 4222 {
		t.Errorf("got port %d, want one that the kernel chose", p)
	}
}

func TestStartNamesWhoHasThePort(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	r := newRealm(t)
	s := r.settings(t)
	s.ClientPort = l.Addr().(*net.TCPAddr).Port
	e := newEngine(t, r, s, nil)

	err = e.Start(t.Context())
	if diag.CodeOf(err) != diag.CodePortTaken || !errors.Is(err, syscall.EADDRINUSE) {
		t.Fatalf("got %v (%s), want code %s", err, diag.CodeOf(err), diag.CodePortTaken)
	}
	if want := "listen on " + s.clientAddr() + ": address already in use"; !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got %q, want it to begin with %q", err, want)
	}
	// The store is untouched: nothing was recovered in vain.
	if _, err := os.Stat(filepath.Join(s.StoreDir, "jetstream")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v for the store, want none made", err)
	}
}

func TestOpenClientPortCanBeTriedAgain(t *testing.T) {
	r := newRealm(t)
	s := r.settings(t)
	s.ClientPort = porttest.Free(t, 1)
	e := started(t, r, s, nil)
	l, err := net.Listen("tcp", s.clientAddr())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.OpenClientPort(); diag.CodeOf(err) != diag.CodePortTaken {
		t.Errorf("got %v, want code %s", err, diag.CodePortTaken)
	}
	l.Close()
	if _, err := e.OpenClientPort(); err != nil {
		t.Errorf("got %v once the port is free, want it open", err)
	}
	if err := e.Health(); err != nil {
		t.Errorf("got %v, want a healthy engine", err)
	}
}

// The server loses a race for the port only after portFree: its Fatalf must come
// back as the same error.
func TestServersOwnListenErrorIsTranslated(t *testing.T) {
	r := newRealm(t)
	s := r.settings(t)
	s.ClientPort = porttest.Free(t, 1)
	e := started(t, r, s, nil)
	l, err := net.Listen("tcp", s.clientAddr())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ready := make(chan struct{})
	e.server.AcceptLoop(ready)
	<-ready
	err = <-e.Fatal()
	if diag.CodeOf(err) != diag.CodePortTaken || !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("got %v (%s), want code %s", err, diag.CodeOf(err), diag.CodePortTaken)
	}
	if got := e.Health(); !errors.Is(got, err) {
		t.Errorf("got health %v, want %v", got, err)
	}
}

func TestListenErrorSaysWhatIsWrongWithTheAddress(t *testing.T) {
	r := newRealm(t)
	s := r.settings(t)
	s.ClientHost, s.ClientPort = "192.0.2.1", 4222
	err := newEngine(t, r, s, nil).Start(t.Context())
	if diag.CodeOf(err) != diag.CodeListen || !errors.Is(err, syscall.EADDRNOTAVAIL) || diag.Hint(err) == "" {
		t.Errorf("got %v (%s, hint %q), want code %s", err, diag.CodeOf(err), diag.Hint(err), diag.CodeListen)
	}
}
