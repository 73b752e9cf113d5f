// SPDX-License-Identifier: Apache-2.0

package join

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

const (
	secret = "0123456789abcdef0123456789abcdef"
	keys   = "SECRET-KEYS"
)

// buffer is a log that can be read while it is written.
type buffer struct {
	mu      sync.Mutex
	b       bytes.Buffer
	written chan struct{}
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case b.written <- struct{}{}:
	default:
	}
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// keeper serves on the loopback and returns its address and what it logs.
func keeper(t *testing.T, answer func(Request) Answer) (string, *buffer) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	log := &buffer{written: make(chan struct{}, 1)}
	k, err := Serve(l, []byte(secret), answer, nil, slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := k.Close(); err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String(), log
}

func always(Request) Answer { return Answer{Node: "n1", Identity: []byte(keys)} }

func TestWhoKnowsTheSecretGetsTheIdentity(t *testing.T) {
	t.Parallel()
	var asked Request
	addr, _ := keeper(t, func(r Request) Answer {
		asked = r
		return always(r)
	})
	req := Request{Cluster: "plant", Node: "n2", Peers: []string{"a", "b", "c"}, Time: time.Unix(1, 0).UTC()}
	got, err := Ask(t.Context(), addr, []byte(secret), req)
	if err != nil || string(got.Identity) != keys || got.Node != "n1" {
		t.Fatalf("got %v and %v, want the identity", got, err)
	}
	if fmt.Sprint(asked) != fmt.Sprint(req) {
		t.Errorf("got asked %v, want %v", asked, req)
	}
	if s := fmt.Sprintf("%v %+v %#v", got, got, got); strings.Contains(s, keys) {
		t.Errorf("got %q, want no secret in it", s)
	}
}

func TestAnotherSecretGetsNothing(t *testing.T) {
	t.Parallel()
	addr, log := keeper(t, func(Request) Answer {
		t.Error("answered somebody who does not know the secret")
		return Answer{}
	})
	got, err := Ask(t.Context(), addr, []byte(strings.Repeat("x", MinSecret)), Request{})
	if diag.CodeOf(err) != diag.CodeClusterSecret || len(got.Identity) > 0 {
		t.Fatalf("got %v and %v, want nothing and %s", got, err, diag.CodeClusterSecret)
	}
	for over := time.After(patience); !strings.Contains(log.String(), "turned away"); {
		select {
		case <-log.written:
		case <-over:
			t.Fatalf("got log %q, want who was turned away", log)
		}
	}
	if strings.Contains(log.String(), secret) {
		t.Error("the secret is in the log")
	}
}

// TestSomebodyInBetweenLearnsNothing ends TLS on both sides and passes on what is said.
func TestSomebodyInBetweenLearnsNothing(t *testing.T) {
	t.Parallel()
	addr, _ := keeper(t, func(Request) Answer {
		t.Error("answered through somebody in between")
		return Answer{}
	})
	cert, err := certificate()
	if err != nil {
		t.Fatal(err)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{cert}})
	if err != nil {
		t.Fatal(err)
	}
	var passing sync.WaitGroup
	defer passing.Wait()
	defer func() { _ = l.Close() }()
	passing.Go(func() {
		from, err := l.Accept()
		if err != nil {
			return
		}
		to, err := tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // the attacker
		if err != nil {
			_ = from.Close()
			return
		}
		passing.Go(func() {
			_, _ = io.Copy(to, from)
			_ = to.Close()
		})
		_, _ = io.Copy(from, to)
		_ = from.Close()
	})
	got, err := Ask(t.Context(), l.Addr().String(), []byte(secret), Request{})
	if diag.CodeOf(err) != diag.CodeClusterSecret || len(got.Identity) > 0 {
		t.Errorf("got %v and %v, want %s", got, err, diag.CodeClusterSecret)
	}
}

// TestAFalseKeeperIsNotBelieved is one that says yes to everybody.
func TestAFalseKeeperIsNotBelieved(t *testing.T) {
	t.Parallel()
	cert, err := certificate()
	if err != nil {
		t.Fatal(err)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{cert}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer func() { _ = c.Close() }()
		_, _ = io.ReadFull(c, make([]byte, len(magic)+proofSize))
		_, _ = c.Write(make([]byte, proofSize))
		_ = send(c, Answer{Identity: []byte("mine")})
		_, _ = io.Copy(io.Discard, c)
	}()
	got, err := Ask(t.Context(), l.Addr().String(), []byte(secret), Request{})
	if diag.CodeOf(err) != diag.CodeClusterSecret || len(got.Identity) > 0 {
		t.Errorf("got %v and %v, want %s", got, err, diag.CodeClusterSecret)
	}
}

func TestNobodyThereIsToldWithTheAddress(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = Ask(t.Context(), addr, []byte(secret), Request{})
	if diag.CodeOf(err) != diag.CodeClusterPeer || !strings.Contains(err.Error(), addr) || strings.Count(err.Error(), addr) != 1 {
		t.Errorf("got %v, want %s with the address once", err, diag.CodeClusterPeer)
	}
}

func TestAskEndsWithItsContext(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0") // accepts, and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := Ask(ctx, l.Addr().String(), []byte(secret), Request{})
		done <- err
	}()
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	cancel()
	if err := <-done; err == nil {
		t.Error("got no error, want that it ended")
	}
}

func TestRubbishEndsAnExchange(t *testing.T) {
	t.Parallel()
	addr, _ := keeper(t, func(Request) Answer {
		t.Error("answered rubbish")
		return Answer{}
	})
	for _, text := range []string{"GET / HTTP/1.1\r\n\r\n", "", strings.Repeat("\x00", 100)} {
		c, err := tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // a stranger
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if err := c.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if n, err := c.Read(make([]byte, 1)); n > 0 || err == nil {
			t.Errorf("%q: got %d bytes and %v, want an end", text, n, err)
		}
		_ = c.Close()
	}
}

func TestTooLongIsNotRead(t *testing.T) {
	t.Parallel()
	var v any
	err := receive(bytes.NewReader([]byte{0xff, 0xff, 0xff, 0xff}), &v)
	if err == nil || errors.Is(err, io.EOF) {
		t.Errorf("got %v, want that it is too long", err)
	}
}
