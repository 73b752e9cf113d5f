// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"encoding/base64"
	"fmt"
	"log/slog"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"
)

// realm is an operator with a system account and accounts, each with one user.
type realm struct {
	operator    nkeys.KeyPair
	operatorJWT string
	keys        map[string]nkeys.KeyPair // by account name
	users       sync.Map                 // names by account name + "/" + key
}

func newRealm(t *testing.T, accounts ...string) *realm {
	t.Helper()
	op, err := nkeys.CreateOperator()
	if err != nil {
		t.Fatal(err)
	}
	r := &realm{operator: op, keys: make(map[string]nkeys.KeyPair)}
	for _, name := range append([]string{"SYS"}, accounts...) {
		if r.keys[name], err = nkeys.CreateAccount(); err != nil {
			t.Fatal(err)
		}
	}
	claims := jwt.NewOperatorClaims(public(t, op))
	claims.Name = "test"
	claims.SystemAccount = r.public(t, "SYS")
	if r.operatorJWT, err = claims.Encode(op); err != nil {
		t.Fatal(err)
	}
	return r
}

func public(t *testing.T, k nkeys.KeyPair) string {
	t.Helper()
	pub, err := k.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	return pub
}

func (r *realm) public(t *testing.T, account string) string { return public(t, r.keys[account]) }

// names is what New takes to turn keys back into names.
func (r *realm) names() Names {
	return Names{Account: r.name, User: func(account, key string) string {
		name, _ := r.users.Load(account + "/" + key)
		s, _ := name.(string)
		return s
	}}
}

func (r *realm) name(publicKey string) string {
	for name, k := range r.keys {
		if pub, err := k.PublicKey(); err == nil && pub == publicKey {
			return name
		}
	}
	return ""
}

// account makes an account JWT that a test may change first.
func (r *realm) account(t *testing.T, name string, change ...func(*jwt.AccountClaims)) string {
	t.Helper()
	c := jwt.NewAccountClaims(r.public(t, name))
	c.Name = name
	if name != "SYS" {
		c.Limits.JetStreamLimits = jwt.JetStreamLimits{
			MemoryStorage: -1, DiskStorage: -1, Streams: -1, Consumer: -1,
		}
	}
	for _, f := range change {
		f(c)
	}
	token, err := c.Encode(r.operator)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// login returns the option that logs a new user of the account in.
func (r *realm) login(t *testing.T, account string) (opt nats.Option, userKey string) {
	t.Helper()
	user, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	claims := jwt.NewUserClaims(public(t, user))
	token, err := claims.Encode(r.keys[account])
	if err != nil {
		t.Fatal(err)
	}
	return nats.UserJWT(
		func() (string, error) { return token, nil },
		func(nonce []byte) ([]byte, error) { return user.Sign(nonce) },
	), public(t, user)
}

func (r *realm) settings(t *testing.T) Settings {
	t.Helper()
	dir := t.TempDir()
	s := Settings{
		NodeName:         "n1",
		ClientHost:       "127.0.0.1",
		StoreDir:         dir,
		ResolverDir:      filepath.Join(dir, "accounts"),
		MaxStoreBytes:    1 << 30,
		MaxMemoryBytes:   1 << 20,
		SyncInterval:     time.Second,
		OperatorJWT:      r.operatorJWT,
		SystemAccount:    r.public(t, "SYS"),
		Preload:          make(map[string]string),
		LameDuckDuration: 2 * time.Second,
		LameDuckGrace:    10 * time.Millisecond,
	}
	for name := range r.keys {
		s.Preload[r.public(t, name)] = r.account(t, name)
	}
	return s
}

// patience only bounds a hang: what works takes nothing like it, on a busy
// machine either.
const patience = 30 * time.Second

// logged collects log records.
type logged struct {
	mu    sync.Mutex
	lines []string
}

func (l *logged) Enabled(context.Context, slog.Level) bool { return true }
func (l *logged) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l *logged) WithGroup(string) slog.Handler            { return l }

func (l *logged) Handle(_ context.Context, r slog.Record) error {
	line := r.Level.String()
	r.Attrs(func(a slog.Attr) bool {
		line += fmt.Sprintf(" %s=%v", a.Key, a.Value)
		return true
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, line)
	return nil
}

func (l *logged) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.lines...)
}

func newEngine(t *testing.T, r *realm, s Settings, h slog.Handler) *Engine {
	t.Helper()
	if h == nil {
		h = slog.DiscardHandler
	}
	e, err := New(s, r.names(), slog.New(h))
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	t.Cleanup(func() {
		if err := e.Stop(); err != nil {
			t.Errorf("Stop: %v", err)
		}
	})
	return e
}

func started(t *testing.T, r *realm, s Settings, h slog.Handler) *Engine {
	t.Helper()
	e := newEngine(t, r, s, h)
	if err := e.Start(t.Context()); err != nil {
		t.Fatalf("Start: %v", err)
	}
	return e
}

func connect(t *testing.T, r *realm, e *Engine, account string, opts ...nats.Option) *nats.Conn {
	t.Helper()
	login, _ := r.login(t, account)
	nc, err := nats.Connect("", append([]nats.Option{nats.InProcessServer(e), login, nats.NoReconnect(), nats.Timeout(patience)}, opts...)...)
	if err != nil {
		t.Fatalf("connect in process: %v", err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// fill makes streams S0, S1, … with messages each.
func fill(t *testing.T, r *realm, e *Engine, account string, streams, messages int) {
	t.Helper()
	nc := connect(t, r, e, account)
	defer nc.Close()
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(patience))
	if err != nil {
		t.Fatal(err)
	}
	for i := range streams {
		name := fmt.Sprintf("S%d", i)
		cfg := jetstream.StreamConfig{Name: name, Subjects: []string{name + ".>"}}
		if _, err := js.CreateStream(t.Context(), cfg); err != nil {
			t.Fatalf("create stream %s: %v", name, err)
		}
		for range messages {
			if _, err := js.Publish(t.Context(), name+".x", make([]byte, 100)); err != nil {
				t.Fatalf("publish: %v", err)
			}
		}
	}
}

// eventually polls until check returns nil.
func eventually(t *testing.T, check func() error) {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-deadline.C:
			t.Fatalf("not in time: %v", err)
		case <-tick.C:
		}
	}
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

// onLine calls f at the first log line with a text in it.
type onLine struct {
	text string
	f    func()
}

func (h onLine) Enabled(context.Context, slog.Level) bool { return true }
func (h onLine) WithAttrs([]slog.Attr) slog.Handler       { return h }
func (h onLine) WithGroup(string) slog.Handler            { return h }

func (h onLine) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		if strings.Contains(a.Value.String(), h.text) {
			h.f()
		}
		return true
	})
	return nil
}

// withIssueTime makes an account JWT as if it had been issued at a time. Encode
// always takes the clock, so the claims are signed by hand.
func withIssueTime(t *testing.T, r *realm, account string, iat int64) string {
	t.Helper()
	parts := strings.Split(r.account(t, account), ".")
	body, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		t.Fatal(err)
	}
	body = regexp.MustCompile(`"iat":\d+`).ReplaceAll(body, fmt.Appendf(nil, `"iat":%d`, iat))
	body = regexp.MustCompile(`"jti":"[^"]*"`).ReplaceAll(body, fmt.Appendf(nil, `"jti":"T%d"`, iat))
	signed := parts[0] + "." + base64.RawURLEncoding.EncodeToString(body)
	sig, err := r.operator.Sign([]byte(signed))
	if err != nil {
		t.Fatal(err)
	}
	return signed + "." + base64.RawURLEncoding.EncodeToString(sig)
}
