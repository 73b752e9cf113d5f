// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/holdfast-mq/holdfast/appliance/admin"
	"github.com/holdfast-mq/holdfast/appliance/config"
	"github.com/holdfast-mq/holdfast/appliance/diag"
)

const shop = `node: {data_dir: data}
listen: {client: "127.0.0.1:0", http: "127.0.0.1:0"}
storage: {limit: 256MiB}
accounts:
  shop:
    streams:
      ORDERS:
        subjects: ["orders.>"]
        max_bytes: 16MiB
        consumers:
          worker: {}
    users:
      packer: {}
      checkout: {}
`

// patience only bounds a hang: what works takes nothing like it, on a busy
// machine either.
const patience = 30 * time.Second

// logged keeps the messages of the log and calls a function at each.
type logged struct {
	mu   sync.Mutex
	msgs []string
	at   func(msg string)
}

func (l *logged) Enabled(context.Context, slog.Level) bool { return true }
func (l *logged) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l *logged) WithGroup(string) slog.Handler            { return l }

func (l *logged) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	l.msgs = append(l.msgs, r.Message)
	l.mu.Unlock()
	if l.at != nil {
		l.at(r.Message)
	}
	return nil
}

func (l *logged) count(msg string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, m := range l.msgs {
		if m == msg {
			n++
		}
	}
	return n
}

// options reads a configuration whose data is in home.
func options(t *testing.T, home, text string, l *logged) Options {
	t.Helper()
	file := filepath.Join(home, "holdfast.yaml")
	write(t, file, text)
	cfg, problems := LoadConfig(config.Options{File: file})
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	return Options{Config: cfg, Warnings: problems, Version: "0.1.0", AllowUnsafe: true, Log: slog.New(l)}
}

func open(t *testing.T, o Options) *Appliance {
	t.Helper()
	a, err := Open(o)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return a
}

// running is an appliance in a Run of its own.
type running struct {
	*Appliance
	drain, now context.CancelFunc
	ended      chan error
}

func run(t *testing.T, a *Appliance) *running {
	t.Helper()
	drain, cancelDrain := context.WithCancel(context.Background())
	now, cancelNow := context.WithCancel(context.Background())
	r := &running{Appliance: a, drain: cancelDrain, now: cancelNow, ended: make(chan error, 1)}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		r.ended <- a.Run(drain, now)
	}()
	t.Cleanup(func() {
		cancelNow()
		cancelDrain()
		<-stopped // it writes into t.TempDir until then
	})
	return r
}

func (r *running) end(t *testing.T) error {
	t.Helper()
	select {
	case err := <-r.ended:
		return err
	case <-time.After(patience):
		t.Fatalf("got no end of Run within %s", patience)
		return nil
	}
}

func (r *running) stop(t *testing.T) {
	t.Helper()
	r.drain()
	if err := r.end(t); err != nil {
		t.Fatalf("got %v from Run, want a clean stop", err)
	}
}

func eventually(t *testing.T, f func() error) {
	t.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		err := f()
		if err == nil {
			return
		}
		select {
		case <-deadline:
			t.Fatal(err)
		case <-tick.C:
		}
	}
}

func (r *running) waitReady(t *testing.T) *running {
	t.Helper()
	eventually(t, func() error {
		select {
		case err := <-r.ended:
			t.Fatalf("got an end with %v, want a ready node", err)
		default:
		}
		if m := r.Missing(); len(m) > 0 {
			return fmt.Errorf("got missing %q, want none", m)
		}
		return nil
	})
	return r
}

func (r *running) jetStream(t *testing.T) jetstream.JetStream {
	t.Helper()
	nc, err := nats.Connect("nats://"+r.Addresses()["client"], nats.UserCredentials(r.CredsFile("shop", "checkout")), nats.NoReconnect(), nats.Timeout(patience))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(patience))
	if err != nil {
		t.Fatal(err)
	}
	return js
}

func TestRunServesWhatTheFileDeclaresAndKeepsIt(t *testing.T) {
	home, l := t.TempDir(), &logged{}
	ready := 0
	o := options(t, home, shop, l)
	o.OnReady = func() { ready++ }
	first := run(t, open(t, o)).waitReady(t)
	ack, err := first.jetStream(t).Publish(t.Context(), "orders.new", []byte("an order"))
	if err != nil {
		t.Fatal(err)
	}
	first.stop(t)
	if got := first.Missing(); !slices.Equal(got, []string{"engine: stopping"}) {
		t.Errorf("got missing %q after the stop, want that it has stopped", got)
	}
	if ready != 1 || l.count("ready") != 1 || l.count("stopped") != 1 {
		t.Errorf("got OnReady %d times, log %q, want ready and stopped once", ready, l.msgs)
	}
	if _, err := os.Lstat(filepath.Join(home, "data", "admin.sock")); !os.IsNotExist(err) {
		t.Errorf("got %v for the admin socket, want it gone", err)
	}

	second := run(t, open(t, options(t, home, shop, &logged{}))).waitReady(t)
	c, err := second.jetStream(t).Consumer(t.Context(), "ORDERS", "worker")
	if err != nil {
		t.Fatal(err)
	}
	m, err := c.Next(jetstream.FetchMaxWait(patience))
	if err != nil || string(m.Data()) != "an order" {
		t.Fatalf("got %v, %v, want message %d from before the restart", m, err, ack.Sequence)
	}
	second.stop(t)
}

func TestMissingFollowsThePhases(t *testing.T) {
	l := &logged{}
	a := open(t, options(t, t.TempDir(), shop, l))
	seen := map[string]string{"Open": strings.Join(a.Missing(), "|")}
	l.at = func(msg string) {
		if msg == "streams and consumers created" {
			seen[msg] = strings.Join(a.Missing(), "|")
		}
	}
	r := run(t, a).waitReady(t)
	r.stop(t)
	want := map[string]string{
		"Open":                          "engine: not started yet",
		"streams and consumers created": "client port: not open yet",
	}
	for when, w := range want {
		if seen[when] != w {
			t.Errorf("got %q missing at %q, want %q", seen[when], when, w)
		}
	}
}

// TestRunStopsCleanlyAtAnyMoment asks for the stop at some of the lines that a
// start logs, and once before it.
func TestRunStopsCleanlyAtAnyMoment(t *testing.T) {
	for _, line := range []string{"", "nats-server message received", "streams and consumers created", "listening", "ready"} {
		home, l := t.TempDir(), &logged{}
		drain, stop := context.WithCancel(context.Background())
		a := open(t, options(t, home, shop, l))
		l.at = func(msg string) {
			if msg == line {
				stop()
			}
		}
		if line == "" {
			stop()
		}
		r := &running{Appliance: a, drain: stop, ended: make(chan error, 1)}
		go func() { r.ended <- a.Run(drain, context.Background()) }()
		if err := r.end(t); err != nil || l.count("stopped") != 1 {
			t.Errorf("stop at %q: got %v, log %q, want a clean end", line, err, l.msgs)
		}
		run(t, open(t, options(t, home, shop, &logged{}))).waitReady(t).stop(t)
	}
}

func TestASecondWishToStopCutsClientsOff(t *testing.T) {
	r := run(t, open(t, options(t, t.TempDir(), shop, &logged{}))).waitReady(t)
	var clients []jetstream.JetStream
	// One after the other they would take 9.4 s or more from the first to the
	// last: 19.5 s of lame duck, in 30 steps of which each may be half as long.
	for range 30 {
		clients = append(clients, r.jetStream(t))
	}
	r.drain()
	eventually(t, func() error {
		if !slices.ContainsFunc(clients, func(c jetstream.JetStream) bool { return c.Conn().IsClosed() }) {
			return errors.New("got no client sent away, want the first")
		}
		return nil
	})
	began := time.Now()
	r.now()
	if err := r.end(t); err != nil {
		t.Errorf("got %v, want a clean end", err)
	}
	if took := time.Since(began); took > 9*time.Second {
		t.Errorf("got the end after %v, want it at once", took)
	}
}

func TestFailedOpenGivesBackWhatItTook(t *testing.T) {
	home := t.TempDir()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	taken := strings.Replace(shop, `http: "127.0.0.1:0"`, fmt.Sprintf("http: %q", l.Addr()), 1)
	for range 2 {
		if _, err := Open(options(t, home, taken, &logged{})); diag.CodeOf(err) != diag.CodePortTaken {
			t.Fatalf("got %v, want %s", err, diag.CodePortTaken)
		}
		if _, err := os.Lstat(filepath.Join(home, "data", "admin.sock")); !os.IsNotExist(err) {
			t.Errorf("got %v for the admin socket, want it gone", err)
		}
	}
	a := open(t, options(t, home, shop, &logged{}))
	if _, err := Open(options(t, home, shop, &logged{})); diag.CodeOf(err) != diag.CodeLocked {
		t.Errorf("got %v from a second Open, want %s", err, diag.CodeLocked)
	}
	// The refused one must not have taken the socket of the first with it.
	if _, err := os.Lstat(filepath.Join(home, "data", "admin.sock")); err != nil {
		t.Errorf("got %v for the admin socket, want it left alone", err)
	}
	run(t, a).waitReady(t).stop(t)
}

func TestATakenClientPortEndsTheStart(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	text := strings.Replace(shop, `client: "127.0.0.1:0"`, fmt.Sprintf("client: %q", l.Addr()), 1)
	err = run(t, open(t, options(t, t.TempDir(), text, &logged{}))).end(t)
	if diag.CodeOf(err) != diag.CodePortTaken || diag.Hint(err) == "" {
		t.Errorf("got %v, want %s with a hint", err, diag.CodePortTaken)
	}
}

func TestABrokenListenerEndsTheNode(t *testing.T) {
	r := run(t, open(t, options(t, t.TempDir(), shop, &logged{}))).waitReady(t)
	if err := r.httpListener.Close(); err != nil {
		t.Fatal(err)
	}
	if err := r.end(t); err == nil || !strings.Contains(err.Error(), "serve listen.http") {
		t.Errorf("got %v, want the listener named", err)
	}
}

func TestLoginSaysWhoThereIs(t *testing.T) {
	text := shop + "  other: {}\n"
	a := open(t, options(t, t.TempDir(), text, &logged{}))
	if _, err := a.Login("shop", "", false); diag.CodeOf(err) != diag.CodeNotReady {
		t.Errorf("got %v before the port is open, want %s", err, diag.CodeNotReady)
	}
	r := run(t, a).waitReady(t)
	for _, c := range []struct{ account, user, hint string }{
		{"nobody", "", "there are: other, shop"},
		{"shop", "nobody", "there are: checkout, packer"},
		{"", "", "name one with --account"},
		{"SYS", "", "there are: other, shop"},
	} {
		_, err := r.Login(c.account, c.user, false)
		if diag.CodeOf(err) != diag.CodeUnknownObject || diag.Hint(err) != c.hint {
			t.Errorf("%q/%q: got %v, hint %q, want %s and %q", c.account, c.user, err, diag.Hint(err), diag.CodeUnknownObject, c.hint)
		}
	}
	for _, c := range []struct {
		account, user string
		system        bool
		want          string
	}{
		{"shop", "packer", false, "shop/packer"}, {"other", "admin", false, "other/admin"},
		// Without a user: an administrator of nobody's name.
		{"shop", "", false, "shop/"}, {"other", "", false, "other/"}, {"", "", true, "SYS/"},
	} {
		l, err := r.Login(c.account, c.user, c.system)
		if got := l.Account + "/" + l.User; err != nil || got != c.want || !strings.Contains(l.Creds, "USER NKEY SEED") {
			t.Errorf("%+v: got %s, %v, want %s with credentials", c, got, err, c.want)
		}
	}
	r.stop(t)
}

// TestStatusMayBeAskedAtAnyTime is for the race detector.
func TestStatusMayBeAskedAtAnyTime(t *testing.T) {
	a := open(t, options(t, t.TempDir(), shop, &logged{}))
	var phases sync.Map
	done := make(chan struct{})
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		for {
			s, err := a.Status(context.Background())
			if err != nil || s.Ready != (len(s.Missing) == 0) {
				t.Errorf("got ready %t, missing %q, %v, want them to agree", s.Ready, s.Missing, err)
			}
			phases.Store(s.Phase, true)
			select {
			case <-done:
				return
			default:
			}
		}
	}()
	r := run(t, a).waitReady(t)
	eventually(t, func() error {
		if _, ok := phases.Load(admin.PhaseRunning); !ok {
			return errors.New("got no answer while the node runs, want one")
		}
		return nil
	})
	r.stop(t)
	close(done)
	<-asked
}
