// SPDX-License-Identifier: Apache-2.0

//go:build system && linux

package systemtest

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sys/unix"
)

// Dial makes a container the nats.CustomDialer of its clients: it connects from
// within the container's network, whose only interface is the loopback.
func (c *container) Dial(network, address string) (net.Conn, error) {
	leader, err := c.leader()
	if err != nil {
		return nil, err
	}
	theirs, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", leader))
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	type dialed struct {
		conn net.Conn
		err  error
	}
	done := make(chan dialed, 1)
	go func() {
		// The thread is not unlocked: it ends here, and its network with it.
		runtime.LockOSThread()
		if err := unix.Setns(int(theirs.Fd()), unix.CLONE_NEWNET); err != nil {
			done <- dialed{err: err}
			return
		}
		conn, err := net.DialTimeout(network, address, patience)
		done <- dialed{conn, err}
	}()
	d := <-done
	return d.conn, d.err
}

// client connects stock nats.go as a user of the node, with what `creds show`
// hands out. It reconnects for as long as the test runs.
func (c *container) client(user string) jetstream.JetStream {
	c.t.Helper()
	var login struct {
		URL   string `json:"local_url"`
		Inbox string `json:"inbox_prefix"`
		Creds string `json:"creds"`
	}
	shown := c.try("holdfast creds show --output json " + user)
	if err := json.Unmarshal([]byte(shown.out), &login); err != nil || shown.code != 0 {
		c.t.Fatalf("creds show: got exit code %d, %v:\n%s%s", shown.code, err, shown.out, shown.err)
	}
	file := filepath.Join(c.t.TempDir(), "creds")
	if err := os.WriteFile(file, []byte(login.Creds), 0o600); err != nil {
		c.t.Fatal(err)
	}
	nc, err := nats.Connect(login.URL, nats.SetCustomDialer(c), nats.UserCredentials(file), nats.CustomInboxPrefix(login.Inbox),
		nats.MaxReconnects(-1), nats.ReconnectWait(100*time.Millisecond), nats.Timeout(patience),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})) // what counts fails where it is asked for
	if err != nil {
		c.t.Fatalf("connect as %s: %v", user, err)
	}
	c.t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		c.t.Fatal(err)
	}
	return js
}

// acks collects what the node acknowledged. Each message is one of a kind.
type acks struct {
	mu     sync.Mutex
	bodies map[string]bool
}

func (a *acks) add(body string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.bodies == nil {
		a.bodies = map[string]bool{}
	}
	a.bodies[body] = true
}

func (a *acks) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.bodies)
}

// publishSome stores n messages.
func publishSome(t *testing.T, js jetstream.JetStream, a *acks, n int) {
	t.Helper()
	for range n {
		body := fmt.Sprintf("%s-%d", t.Name(), a.count())
		if _, err := js.Publish(t.Context(), "jobs.one", []byte(body)); err != nil {
			t.Fatalf("publish: %v", err)
		}
		a.add(body)
	}
}

// publishMany stores n small messages without waiting for each.
func publishMany(t *testing.T, js jetstream.JetStream, n int) {
	t.Helper()
	for range n {
		if _, err := js.PublishAsync("jobs.many", []byte("one of many"), jetstream.WithStallWait(patience)); err != nil {
			t.Fatalf("publish: %v", err)
		}
	}
	select {
	case <-js.PublishAsyncComplete():
	case <-time.After(patience):
		t.Fatalf("got %d acknowledgements outstanding, want none", js.PublishAsyncPending())
	}
}

// load is publishers at work, each waiting for its acknowledgement. They ride
// out what happens to the node.
type load struct {
	acks   *acks
	cancel context.CancelFunc
	all    sync.WaitGroup
}

// At its pace the load leaves the machine to what is tested.
func startLoad(t *testing.T, js jetstream.JetStream, a *acks) *load {
	t.Helper()
	return startPublishers(t, js, a, 4, 5*time.Millisecond)
}

func startPublishers(t *testing.T, js jetstream.JetStream, a *acks, n int, pace time.Duration) *load {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	l := &load{acks: a, cancel: cancel}
	t.Cleanup(cancel)
	for publisher := range n {
		l.all.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				body := fmt.Sprintf("%s-under-load-%d-%d", t.Name(), publisher, n)
				once, done := context.WithTimeout(ctx, 2*time.Second)
				if _, err := js.Publish(once, "jobs.load", []byte(body)); err == nil {
					a.add(body)
				}
				done()
				select {
				case <-ctx.Done():
				case <-time.After(pace):
				}
			}
		})
	}
	return l
}

// more waits until the publishers got n further acknowledgements.
func (l *load) more(c *container, n int) {
	c.t.Helper()
	from := l.acks.count()
	c.eventually(func() error {
		if got := l.acks.count() - from; got < n {
			return fmt.Errorf("got %d acknowledgements, want %d", got, n)
		}
		return nil
	})
}

func (l *load) stop() {
	l.cancel()
	l.all.Wait()
}

// wantAll fails unless each acknowledged message is stored. It takes nothing out.
func wantAll(t *testing.T, js jetstream.JetStream, a *acks) {
	t.Helper()
	stream, err := js.Stream(t.Context(), "JOBS")
	if err != nil {
		t.Fatalf("look at the stream: %v", err)
	}
	state := stream.CachedInfo().State
	wantAmong(t, stream, a, state.FirstSeq, state.LastSeq)
}

// wantAmong is wantAll for what was stored between two sequences.
func wantAmong(t *testing.T, stream jetstream.Stream, a *acks, first, last uint64) {
	t.Helper()
	stored := map[string]bool{}
	for seq := first; seq <= last; seq++ {
		m, err := stream.GetMsg(t.Context(), seq)
		if err != nil {
			t.Fatalf("read message %d of %d: %v", seq, last, err)
		}
		stored[string(m.Data)] = true
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	lost := 0
	for body := range a.bodies {
		if !stored[body] {
			lost++
		}
	}
	if lost > 0 || len(a.bodies) == 0 {
		t.Errorf("got %d acknowledged messages, %d of them lost, want some and none lost (%d are stored)", len(a.bodies), lost, len(stored))
	}
}
