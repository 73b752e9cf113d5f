// SPDX-License-Identifier: Apache-2.0

//go:build unix

package appliance

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-mq/holdfast/appliance/admin"
	"github.com/holdfast-mq/holdfast/appliance/config"
	"github.com/holdfast-mq/holdfast/appliance/diag"
	"github.com/holdfast-mq/holdfast/appliance/service"
)

// systemd is the other end of $NOTIFY_SOCKET.
type systemd struct {
	mu  sync.Mutex
	got []string
}

func listenAsSystemd(t *testing.T) *systemd {
	t.Helper()
	name := filepath.Join(t.TempDir(), "notify")
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("NOTIFY_SOCKET", name)
	s := &systemd{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 4096)
		for {
			n, err := c.Read(buf)
			if err != nil {
				return
			}
			s.mu.Lock()
			s.got = append(s.got, string(buf[:n]))
			s.mu.Unlock()
		}
	}()
	t.Cleanup(func() {
		_ = c.Close()
		<-done
	})
	return s
}

func (s *systemd) all() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.got)
}

func (s *systemd) count(state string) int {
	n := 0
	for _, got := range s.all() {
		if got == state {
			n++
		}
	}
	return n
}

// wants waits until the states have come in this order, among others.
func (s *systemd) wants(t *testing.T, states ...string) {
	t.Helper()
	eventually(t, func() error {
		rest := states
		for _, got := range s.all() {
			if len(rest) > 0 && strings.HasPrefix(got, rest[0]) {
				rest = rest[1:]
			}
		}
		if len(rest) > 0 {
			return fmt.Errorf("got no %q in its place among %q", rest[0], s.all())
		}
		return nil
	})
}

func TestSystemdIsToldEveryPhase(t *testing.T) {
	s := listenAsSystemd(t)
	home := t.TempDir()
	o := options(t, home, shop, &logged{})
	o.Notify = service.NewNotifier()
	o.Load = func([]config.Text) (*config.Config, diag.List) {
		return LoadConfig(config.Options{File: filepath.Join(home, "holdfast.yaml")})
	}
	r := run(t, open(t, o)).waitReady(t)
	s.wants(t, "EXTEND_TIMEOUT_USEC=30000000\nSTATUS=recovering streams", "STATUS=applying the configuration", "READY=1\nSTATUS=ready, 1 stream, bootstrap ok")
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	s.wants(t, "READY=1", "RELOADING=1\nMONOTONIC_USEC=", "READY=1\nSTATUS=ready, 1 stream, bootstrap ok")
	if got := s.count("WATCHDOG=1"); got != 0 {
		t.Errorf("got %d signs of life, want none without WatchdogSec", got)
	}
	r.stop(t)
	s.wants(t, "STOPPING=1\nSTATUS=draining clients", "STATUS=stopped")
}

// TestWatchdogIsFedOnlyByAServerThatAnswers stops the server behind the back of the
// node, which goes on: the case that a watchdog is for.
func TestWatchdogIsFedOnlyByAServerThatAnswers(t *testing.T) {
	s := listenAsSystemd(t)
	t.Setenv("WATCHDOG_USEC", "400000")
	l := &logged{}
	o := options(t, t.TempDir(), shop, l)
	o.Notify = service.NewNotifier()
	r := run(t, open(t, o)).waitReady(t)
	s.wants(t, "WATCHDOG=1", "READY=1", "WATCHDOG=1", "WATCHDOG=1")

	if err := r.engine.Stop(); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		if l.count("the server does not answer, and systemd is not told that it lives") == 0 {
			return errors.New("got no warning, want one")
		}
		return nil
	})
	fed := s.count("WATCHDOG=1")
	patient := time.NewTimer(time.Second) // more than twice WatchdogSec
	<-patient.C
	if got := s.count("WATCHDOG=1"); got != fed {
		t.Errorf("got %d signs of life of a server that is down, want none", got-fed)
	}
	select {
	case err := <-r.ended:
		t.Fatalf("got an end with %v, want a node that goes on: nothing else was to end the signs of life", err)
	default:
	}
	r.drain()
	_ = r.end(t)
}

func TestStopGivesNoSignsOfLife(t *testing.T) {
	s := listenAsSystemd(t)
	t.Setenv("WATCHDOG_USEC", "4000")
	o := options(t, t.TempDir(), shop, &logged{})
	o.Notify = service.NewNotifier()
	r := run(t, open(t, o)).waitReady(t)
	s.wants(t, "WATCHDOG=1")
	r.stop(t)
	all := s.all()
	at := slices.IndexFunc(all, func(got string) bool { return strings.HasPrefix(got, "STOPPING=1") })
	if at < 0 || slices.Contains(all[at:], "WATCHDOG=1") {
		t.Errorf("got %q, want no sign of life after STOPPING=1: systemd would begin to watch the stop", all)
	}
}

func TestStatusLineSaysWhatIsMissing(t *testing.T) {
	home := t.TempDir()
	a := open(t, options(t, home, shop, &logged{}))
	if got, want := a.StatusLine(), "not ready: engine: not started yet"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	r := run(t, a).waitReady(t)
	a.reloaded(&admin.Problem{What: "a mistake"})
	if got, want := a.StatusLine(), "ready, 1 stream, the latest reload was refused, see the log"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	a.mu.Lock()
	a.stale = os.ErrInvalid
	a.mu.Unlock()
	if got, want := a.StatusLine(), "ready, 1 stream, configuration older than what was applied, see `holdfast plan`"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	r.stop(t)
}
