// SPDX-License-Identifier: Apache-2.0

package jetstream_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/holdfast-mq/holdfast/bootstrap"
	"github.com/holdfast-mq/holdfast/bootstrap/jetstream"
)

// node is one embedded server in operator mode, as the appliance runs it.
type node struct {
	*server.Server
	accounts map[string]nkeys.KeyPair
}

func newKey(t *testing.T, create func() (nkeys.KeyPair, error)) (nkeys.KeyPair, string) {
	t.Helper()
	key, err := create()
	if err != nil {
		t.Fatal(err)
	}
	public, err := key.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	return key, public
}

// startNode runs a server in which each account may use JetStream, but for
// those whose name starts with "bare".
func startNode(t *testing.T, accounts ...string) *node {
	t.Helper()
	operator, operatorID := newKey(t, nkeys.CreateOperator)
	resolver := &server.MemAccResolver{}
	n := &node{accounts: make(map[string]nkeys.KeyPair)}
	system := ""
	for _, name := range append([]string{"SYS"}, accounts...) {
		key, id := newKey(t, nkeys.CreateAccount)
		claims := jwt.NewAccountClaims(id)
		claims.Name = name
		if name == "SYS" {
			system = id
		} else if !strings.HasPrefix(name, "bare") {
			claims.Limits.JetStreamLimits = jwt.JetStreamLimits{
				MemoryStorage: -1, DiskStorage: -1, Streams: -1, Consumer: -1,
			}
		}
		token, err := claims.Encode(operator)
		if err != nil {
			t.Fatal(err)
		}
		if err := resolver.Store(id, token); err != nil {
			t.Fatal(err)
		}
		n.accounts[name] = key
	}
	claims := jwt.NewOperatorClaims(operatorID)
	claims.SystemAccount = system
	if _, err := claims.Encode(operator); err != nil {
		t.Fatal(err)
	}
	n.Server = run(t, &server.Options{
		ServerName: "n1", DontListen: true, NoSigs: true, NoLog: true,
		JetStream: true, StoreDir: t.TempDir(),
		TrustedOperators: []*jwt.OperatorClaims{claims}, SystemAccount: system, AccountResolver: resolver,
	})
	return n
}

func run(t *testing.T, opts *server.Options) *server.Server {
	t.Helper()
	s, err := server.NewServer(opts)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	eventually(t, func() error {
		if st := s.Healthz(nil); st.Error != "" {
			return fmt.Errorf("server not healthy: %s", st.Error)
		}
		return nil
	})
	return s
}

func (n *node) credentials(account string) (string, []byte, error) {
	key, ok := n.accounts[account]
	if !ok {
		return "", nil, fmt.Errorf("no account %q", account)
	}
	user, err := nkeys.CreateUser()
	if err != nil {
		return "", nil, err
	}
	public, err := user.PublicKey()
	if err != nil {
		return "", nil, err
	}
	token, err := jwt.NewUserClaims(public).Encode(key)
	if err != nil {
		return "", nil, err
	}
	seed, err := user.Seed()
	return token, seed, err
}

func newClient(t *testing.T, n *node) *jetstream.Client {
	t.Helper()
	c := jetstream.New(n, n.credentials)
	t.Cleanup(c.Close)
	return c
}

// patience only bounds a hang: what works takes nothing like it, on a busy
// machine either.
const patience = 30 * time.Second

// connect is an application's connection.
func connect(t *testing.T, n *node, account string) *nats.Conn {
	t.Helper()
	token, seed, err := n.credentials(account)
	if err != nil {
		t.Fatal(err)
	}
	nc, err := nats.Connect("", nats.InProcessServer(n), nats.UserJWTAndSeed(token, string(seed)), nats.Timeout(patience))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// call is a raw API request by an application, which must succeed.
func call(t *testing.T, nc *nats.Conn, subject, body string) {
	t.Helper()
	msg, err := nc.Request("$JS.API."+subject, []byte(body), patience)
	if err != nil {
		t.Fatalf("%s: %v", subject, err)
	}
	if strings.Contains(string(msg.Data), `"error":`) {
		t.Fatalf("%s %s: got %s, want no error", subject, body, msg.Data)
	}
}

func publish(t *testing.T, nc *nats.Conn, subjects ...string) {
	t.Helper()
	for _, s := range subjects {
		msg, err := nc.Request(s, []byte("x"), patience)
		if err != nil {
			t.Fatalf("publish to %q: %v", s, err)
		}
		if strings.Contains(string(msg.Data), `"error":`) {
			t.Fatalf("publish to %q: got %s, want no error", s, msg.Data)
		}
	}
}

func eventually(t *testing.T, check func() error) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		<-time.After(10 * time.Millisecond)
	}
}

// set is a JSON object read the way the configuration gives it.
func set(t *testing.T, text string) map[string]any {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var m map[string]any
	if err := d.Decode(&m); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return m
}

func stream(t *testing.T, name, text string, consumers ...bootstrap.Consumer) bootstrap.Stream {
	t.Helper()
	return bootstrap.Stream{Name: name, Set: set(t, text), Consumers: consumers}
}

func consumer(t *testing.T, name, text string) bootstrap.Consumer {
	t.Helper()
	return bootstrap.Consumer{Name: name, Set: set(t, text)}
}

func shop(streams ...bootstrap.Stream) bootstrap.Topology {
	return bootstrap.Topology{Accounts: []bootstrap.Account{{Name: "shop", Streams: streams}}}
}

func observe(t *testing.T, c *jetstream.Client, accounts ...string) bootstrap.Observed {
	t.Helper()
	have, err := c.Observe(context.Background(), accounts)
	if err != nil {
		t.Fatalf("observe %v: %v", accounts, err)
	}
	return have
}

// converge plans and executes once; everything must succeed.
func converge(t *testing.T, c *jetstream.Client, want bootstrap.Topology) {
	t.Helper()
	report := c.Execute(context.Background(), bootstrap.Diff(want, observe(t, c, "shop"), nil), jetstream.Order{})
	if err := report.Err(); err != nil {
		t.Fatalf("execute: %v", err)
	}
}

// wantKept fails unless the next plan has nothing but Keep.
func wantKept(t *testing.T, c *jetstream.Client, want bootstrap.Topology) {
	t.Helper()
	plan := bootstrap.Diff(want, observe(t, c, "shop"), nil)
	if kept := plan.Count(bootstrap.Keep); kept != len(plan.Actions) {
		t.Errorf("second plan: got\n%swant nothing but keep", plan)
	}
}
