// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
)

// member is a user with a name and a token that a test may change first.
type member struct {
	key   nkeys.KeyPair
	token string
}

func (r *realm) member(t *testing.T, account, name string, change ...func(*jwt.UserClaims)) member {
	t.Helper()
	user, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	return r.memberWithKey(t, account, name, user, change...)
}

func (r *realm) memberWithKey(t *testing.T, account, name string, user nkeys.KeyPair, change ...func(*jwt.UserClaims)) member {
	t.Helper()
	claims := jwt.NewUserClaims(public(t, user))
	for _, f := range change {
		f(claims)
	}
	token, err := claims.Encode(r.keys[account])
	if err != nil {
		t.Fatal(err)
	}
	if name != "" {
		r.users.Store(account+"/"+public(t, user), name)
	}
	return member{user, token}
}

func (m member) login() nats.Option {
	return nats.UserJWT(func() (string, error) { return m.token, nil }, m.key.Sign)
}

// raw logs in without a client library, which would hold back what it knows to
// be refused.
func (m member) raw(t *testing.T, addr string) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	in := bufio.NewReader(conn)
	line, err := in.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	var info struct {
		Nonce string `json:"nonce"`
	}
	if err := json.Unmarshal([]byte(strings.TrimPrefix(line, "INFO ")), &info); err != nil {
		t.Fatal(err)
	}
	sig, err := m.key.Sign([]byte(info.Nonce))
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "CONNECT {\"jwt\":%q,\"sig\":%q,\"protocol\":1,\"verbose\":false}\r\nPING\r\n", m.token, base64.RawURLEncoding.EncodeToString(sig))
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(line, "PONG") {
			return conn, in
		}
	}
}

func onlyOrders(c *jwt.UserClaims) {
	c.Permissions.Pub.Allow.Add("orders.>")
	c.Permissions.Sub.Allow.Add("orders.>", "_INBOX.>")
}

func open(t *testing.T, e *Engine) string {
	t.Helper()
	addr, err := e.OpenClientPort()
	if err != nil {
		t.Fatal(err)
	}
	return addr.String()
}

func dial(t *testing.T, addr string, opts ...nats.Option) *nats.Conn {
	t.Helper()
	nc, err := tryDial(t, addr, opts...)
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	return nc
}

// tryDial gives the server time, so that a refusal is none of the client's own.
func tryDial(t *testing.T, addr string, opts ...nats.Option) (*nats.Conn, error) {
	t.Helper()
	nc, err := nats.Connect("nats://"+addr, append(opts, nats.NoReconnect(), nats.Timeout(patience),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))...)
	if err == nil {
		t.Cleanup(nc.Close)
	}
	return nc, err
}

func refusedLogin(t *testing.T, addr string, opts ...nats.Option) {
	t.Helper()
	if _, err := tryDial(t, addr, opts...); err == nil {
		t.Error("got a connection, want it refused")
	}
}

// waitRefusals polls until the counts are as wanted. An example in want may be
// the part behind the port, as ports differ each time.
func waitRefusals(t *testing.T, e *Engine, want []Refusal) {
	t.Helper()
	example := cmp.FilterPath(func(p cmp.Path) bool { return p.String() == "Example" },
		cmp.Comparer(func(a, b string) bool {
			return a == b || strings.HasPrefix(a, "127.0.0.1:") && strings.HasSuffix(a, b) || strings.HasPrefix(b, "127.0.0.1:") && strings.HasSuffix(b, a)
		}))
	eventually(t, func() error {
		got := e.Refusals()
		if diff := cmp.Diff(want, got, example, cmpopts.IgnoreFields(Refusal{}, "Last")); diff != "" {
			return fmt.Errorf("refusals differ (-want +got):\n%s", diff)
		}
		for _, r := range got {
			if age := time.Since(r.Last); age < 0 || age > time.Minute {
				return fmt.Errorf("got %v as the time of %v, want now", r.Last, r)
			}
		}
		return nil
	})
}

// What the log calls and the list of closed connections of the real server say
// is pinned here.
func TestEveryReasonIsCounted(t *testing.T) {
	r := newRealm(t, "shop", "small", "stranger")
	checkout := r.member(t, "shop", "checkout", onlyOrders)
	payloads := r.member(t, "shop", "checkout", func(c *jwt.UserClaims) { c.Limits.Payload = 10 })
	revoked := r.member(t, "shop", "leaver")
	expired := r.member(t, "shop", "visitor", func(c *jwt.UserClaims) { c.Expires = time.Now().Add(-time.Minute).Unix() })
	// One more for each login that came after its end.
	expiring := []Refusal{{Account: "shop", User: "visitor", Reason: ReasonAuthentication, Count: 1, Example: ": credentials expired"}}
	small := r.member(t, "small", "one")
	stranger := r.member(t, "stranger", "")

	s := r.settings(t)
	delete(s.Preload, r.public(t, "stranger"))
	s.Preload[r.public(t, "shop")] = r.account(t, "shop", func(c *jwt.AccountClaims) { c.Revoke(public(t, revoked.key)) })
	s.Preload[r.public(t, "small")] = r.account(t, "small", func(c *jwt.AccountClaims) {
		c.Limits.Conn, c.Limits.Subs = 1, 1
	})

	for _, c := range []struct {
		name string
		act  func(t *testing.T, addr string)
		want []Refusal
	}{
		{"publish", func(t *testing.T, addr string) {
			// The client's name stands in front of the log call as a format.
			nc := dial(t, addr, checkout.login(), nats.Name(`x" - "A/jwt:U" %d %s`))
			for _, subject := range []string{"secret.a", "$JS.API.STREAM.DELETE.ORDERS", "secret.%s"} {
				if err := nc.Publish(subject, nil); err != nil {
					t.Error(err)
				}
			}
			if err := nc.Flush(); err != nil {
				t.Error(err)
			}
		}, []Refusal{{Account: "shop", User: "checkout", Reason: ReasonPublish, Count: 3, Example: "secret.%s"}}},
		{"subscribe", func(t *testing.T, addr string) {
			nc := dial(t, addr, checkout.login())
			_, _ = nc.SubscribeSync("secret.a")
			_, _ = nc.QueueSubscribeSync("secret.%d.>", "workers")
			if err := nc.Flush(); err != nil {
				t.Error(err)
			}
		}, []Refusal{{Account: "shop", User: "checkout", Reason: ReasonSubscribe, Count: 2, Example: "secret.%d.>"}}},
		{"reply", func(t *testing.T, addr string) {
			nc := dial(t, addr, checkout.login())
			if err := nc.PublishRequest("orders.a", "_R_.abc.def", nil); err != nil {
				t.Error(err)
			}
			if err := nc.Flush(); err != nil {
				t.Error(err)
			}
		}, []Refusal{{Account: "shop", User: "checkout", Reason: ReasonReply, Count: 1, Example: "_R_.abc.def"}}},
		{"payload", func(t *testing.T, addr string) {
			conn, in := payloads.raw(t, addr)
			fmt.Fprintf(conn, "PUB a 11\r\n12345678901\r\n")
			for {
				if _, err := in.ReadString('\n'); err != nil {
					return
				}
			}
		}, []Refusal{{Account: "shop", User: "checkout", Reason: ReasonPayload, Count: 1, Example: ": 11 bytes, at most 10"}}},
		{"subscriptions", func(t *testing.T, addr string) {
			nc := dial(t, addr, small.login())
			_, _ = nc.SubscribeSync("a")
			_, _ = nc.SubscribeSync("b")
			_ = nc.Flush()
		}, []Refusal{{Account: "small", User: "one", Reason: ReasonSubscriptions, Count: 1}}},
		{"connections of an account", func(t *testing.T, addr string) {
			dial(t, addr, small.login())
			// The server logs the first of a minute only.
			for range 3 {
				refusedLogin(t, addr, small.login())
			}
		}, []Refusal{{Account: "small", User: "one", Reason: ReasonAccountConnections, Count: 3}}},
		{"no credentials", func(t *testing.T, addr string) { refusedLogin(t, addr) },
			[]Refusal{{Reason: ReasonAuthentication, Count: 1}}},
		{"an account that nobody knows", func(t *testing.T, addr string) { refusedLogin(t, addr, stranger.login()) },
			[]Refusal{{Account: "stranger", User: public(t, stranger.key), Reason: ReasonAuthentication, Count: 1}}},
		{"revoked", func(t *testing.T, addr string) { refusedLogin(t, addr, revoked.login()) },
			[]Refusal{{Account: "shop", User: "leaver", Reason: ReasonAuthentication, Count: 1}}},
		{"expired", func(t *testing.T, addr string) { refusedLogin(t, addr, expired.login()) },
			[]Refusal{{Account: "shop", User: "visitor", Reason: ReasonAuthentication, Count: 1, Example: ": credentials expired"}}},
		{"expires while it is connected", func(t *testing.T, addr string) {
			for life := 2 * time.Second; ; life *= 2 {
				visitor := r.member(t, "shop", "visitor", func(c *jwt.UserClaims) { c.Expires = time.Now().Add(life).Unix() })
				_, err := tryDial(t, addr, visitor.login())
				if err == nil {
					return
				}
				if life > patience/2 {
					t.Fatalf("connect: %v", err)
				}
				expiring[0].Count++
			}
		}, expiring},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := s
			dir := t.TempDir()
			s.StoreDir, s.ResolverDir = dir, dir+"/accounts"
			h := &logged{}
			e := started(t, r, s, h)
			c.act(t, open(t, e))
			waitRefusals(t, e, c.want)

			if err := e.Stop(); err != nil {
				t.Fatal(err)
			}
			waitRefusals(t, e, c.want)
			// Said once, and not by the server as well.
			var warned uint64
			for _, line := range h.all() {
				w := c.want[0]
				switch {
				case strings.HasPrefix(line, fmt.Sprintf("WARN account=%s user=%s reason=%s count=", w.Account, w.User, w.Reason)):
					var n uint64
					_, rest, _ := strings.Cut(line, " count=")
					if _, err := fmt.Sscan(rest, &n); err != nil {
						t.Error(err)
					}
					warned += n
				case strings.HasPrefix(line, "WARN text=Account") && c.name == "an account that nobody knows":
				case !strings.HasPrefix(line, "DEBUG"):
					t.Errorf("got log line %s, want none of it", line)
				}
			}
			if warned != c.want[0].Count {
				t.Errorf("got %d refusals in the log, want %d:\n%s", warned, c.want[0].Count, strings.Join(h.all(), "\n"))
			}
		})
	}
}

func TestConnectionsOfTheNodeAreCounted(t *testing.T) {
	r := newRealm(t, "shop")
	s := r.settings(t)
	s.Extra = []ExtraKey{{"max_connections", 1}}
	e := started(t, r, s, nil)
	addr := open(t, e)
	user := r.member(t, "shop", "checkout")
	dial(t, addr, user.login())
	for range 3 {
		refusedLogin(t, addr, user.login())
	}
	// The server refuses before the client says who it is.
	waitRefusals(t, e, []Refusal{{Reason: ReasonConnections, Count: 3}})
}

func TestLiveRevocationIsCounted(t *testing.T) {
	r := newRealm(t, "shop")
	e := started(t, r, r.settings(t), nil)
	user := r.member(t, "shop", "leaver")
	dial(t, open(t, e), user.login())
	token := r.account(t, "shop", func(c *jwt.AccountClaims) { c.Revoke(public(t, user.key)) })
	if _, err := connect(t, r, e, "SYS").Request("$SYS.REQ.CLAIMS.UPDATE", []byte(token), patience); err != nil {
		t.Fatal(err)
	}
	waitRefusals(t, e, []Refusal{{Account: "shop", User: "leaver", Reason: ReasonAuthentication, Count: 1, Example: ": credentials revoked"}})
}

func TestRefusedInProcessClientIsCounted(t *testing.T) {
	r := newRealm(t, "shop")
	e := started(t, r, r.settings(t), nil)
	nc := connect(t, r, e, "shop", r.member(t, "shop", "checkout", onlyOrders).login(), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	if err := nc.Publish("secret.a", nil); err != nil {
		t.Fatal(err)
	}
	waitRefusals(t, e, []Refusal{{Account: "shop", User: "checkout", Reason: ReasonPublish, Count: 1, Example: "secret.a"}})
}

// A permission is checked on the subject that a mapping led to, and the server names
// that one.
func TestRefusedMappedSubjectIsToldAsTheClientUsedIt(t *testing.T) {
	r := newRealm(t, "shop")
	s := r.settings(t)
	s.Preload[r.public(t, "shop")] = r.account(t, "shop", func(c *jwt.AccountClaims) {
		c.Mappings = jwt.Mapping{"bills.>": {{Subject: "inner.bills.>", Weight: 100}}}
	})
	names := r.names()
	names.Subjects = func(text string) string { return strings.ReplaceAll(text, "inner.", "") }
	h := &logged{}
	e, err := New(s, names, slog.New(h))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Stop(); err != nil {
			t.Error(err)
		}
	})
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	refused := make(chan error, 1)
	nc, err := nats.Connect("nats://"+open(t, e), r.member(t, "shop", "checkout", onlyOrders).login(), nats.NoReconnect(), nats.Timeout(patience),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refused <- err }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	if err := nc.Publish("bills.new", nil); err != nil {
		t.Fatal(err)
	}
	waitRefusals(t, e, []Refusal{{Account: "shop", User: "checkout", Reason: ReasonPublish, Count: 1, Example: "bills.new"}})
	// If the server names the client's own subject one day, none of this is needed.
	select {
	case err := <-refused:
		if !strings.Contains(err.Error(), `"inner.bills.new"`) {
			t.Errorf("got %v, want the subject that was led to", err)
		}
	case <-time.After(patience):
		t.Error("got no error at the client, want one")
	}
	eventually(t, func() error {
		const line = "WARN account=shop user=checkout reason=publish count=1 example=bills.new"
		if !slices.Contains(h.all(), line) {
			return fmt.Errorf("got log %q, want %q", h.all(), line)
		}
		return nil
	})
}

func noneClosed() []*server.ConnInfo { return nil }

func TestStrangersDoNotCrowdOutUsers(t *testing.T) {
	r := newRealm(t, "shop")
	refusals := newRefusals(r.names(), discard(), noneClosed)
	at := time.Now()
	for i := range 5000 {
		refusals.add(refusalKey{r.public(t, "shop"), fmt.Sprintf("U%d", i), ReasonAuthentication}, true, at, "x")
	}
	if got := len(refusals.list()); got != mostStrangers+1 {
		t.Errorf("got %d entries for 5000 strangers, want %d", got, mostStrangers+1)
	}
	user := r.member(t, "shop", "checkout")
	for range 2 {
		refusals.add(refusalKey{r.public(t, "shop"), public(t, user.key), ReasonAuthentication}, true, at, "y")
	}
	var total uint64
	found := false
	for _, v := range refusals.list() {
		total += v.Count
		if v.User == "checkout" {
			found = v.Account == "shop" && v.Count == 2
		}
	}
	if !found || total != 5002 {
		t.Errorf("got %v, want 5002 in all and 2 of them for checkout", refusals.list())
	}
}

func TestRefusalsAreBounded(t *testing.T) {
	refusals := newRefusals(Names{}, discard(), noneClosed)
	for i := range 5000 {
		refusals.add(refusalKey{"A", fmt.Sprintf("U%d", i), ReasonPublish}, false, time.Now(), strings.Repeat("é\x1b", 1000))
	}
	list := refusals.list()
	if got := len(list); got != mostRefusals+1 {
		t.Fatalf("got %d entries, want %d", got, mostRefusals+1)
	}
	if others := list[0]; others.Account != "" || others.User != otherUsers || others.Count != 5000-mostRefusals {
		t.Errorf("got %+v, want %d of other users", others, 5000-mostRefusals)
	}
	if e := list[1].Example; len(e) > 2*exampleLength || strings.ContainsRune(e, '\x1b') {
		t.Errorf("got example %q of %d bytes, want it short and without control characters", e, len(e))
	}
}

func TestRefusalsOfAChangedKeyAreAddedUp(t *testing.T) {
	names := Names{Account: func(string) string { return "shop" }, User: func(string, string) string { return "checkout" }}
	refusals := newRefusals(names, discard(), noneClosed)
	at := time.Unix(100, 0)
	refusals.add(refusalKey{"A", "U1", ReasonPublish}, false, at, "old")
	refusals.add(refusalKey{"A", "U2", ReasonPublish}, false, at.Add(2), "new")
	refusals.add(refusalKey{"A", "U1", ReasonPublish}, false, at.Add(1), "between")
	want := []Refusal{{"shop", "checkout", ReasonPublish, 3, at.Add(2), "new"}}
	if diff := cmp.Diff(want, refusals.list()); diff != "" {
		t.Errorf("refusals differ (-want +got):\n%s", diff)
	}
}

func TestRefusalsAreToldOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &logged{}
		r := newRefusals(Names{}, slog.New(h), noneClosed)
		go r.run()
		deny := func(n int) {
			for range n {
				r.add(refusalKey{"A", "U", ReasonPublish}, false, time.Now(), "x")
				synctest.Wait()
			}
		}
		expect := func(when string, want ...string) {
			t.Helper()
			synctest.Wait()
			for i := range want {
				want[i] = "WARN account=A user=U reason=publish count=" + want[i] + " example=x"
			}
			if diff := cmp.Diff(want, h.all()); diff != "" {
				t.Errorf("%s: log differs (-want +got):\n%s", when, diff)
			}
		}
		deny(1)
		expect("at once", "1")
		deny(1000)
		time.Sleep(refusalLogPeriod - 2*sweepPeriod) //nolint:forbidigo // synctest's clock, not a wait
		expect("within the minute", "1")
		time.Sleep(3 * sweepPeriod) //nolint:forbidigo // synctest's clock, not a wait
		expect("after it, though the flood is over", "1", "1000")
		time.Sleep(3 * refusalLogPeriod) //nolint:forbidigo // synctest's clock, not a wait
		expect("when nothing happens", "1", "1000")
		deny(7)
		time.Sleep(sweepPeriod) //nolint:forbidigo // synctest's clock, not a wait
		synctest.Wait()
		deny(5)
		r.stop()
		expect("at the end", "1", "1000", "7", "5")
	})
}

func TestLogPrefixIsReadAsTheServerWritesIt(t *testing.T) {
	for _, c := range []struct {
		format string
		want   logClient
		ok     bool
	}{
		{"127.0.0.1:1 - cid:7 - text", logClient{address: "127.0.0.1:1", id: 7, text: "text"}, true},
		{"[fe80::1%%eth0]:1 - wid:7 - text - more", logClient{address: "[fe80::1%eth0]:1", id: 7, text: "text - more"}, true},
		{"SYSTEM - text", logClient{}, false},
		{"127.0.0.1:1 - rid:7 - text", logClient{}, false},
		{"text", logClient{}, false},
		{`pipe - cid:7 - "unfinished - text`, logClient{}, false},
		{`pipe - cid:x - text`, logClient{}, false},
	} {
		got, ok := parseLogClient(c.format)
		if ok != c.ok || ok && got != c.want {
			t.Errorf("%s: got %+v, %v, want %+v, %v", c.format, got, ok, c.want, c.ok)
		}
	}
}

// A log call that looks like a refusal and is none must be written.
func TestOtherErrorsStayInTheLog(t *testing.T) {
	r := newRefusals(Names{}, discard(), noneClosed)
	for _, c := range []struct {
		format string
		args   []any
	}{
		{"SYSTEM - Publish Violation - Subject %q", []any{[]byte("x")}},
		{"127.0.0.1:1 - rid:7 - authentication error", nil},
		{"127.0.0.1:1 - cid:7 - %s: %d vs %d", []any{"something", 1, 2}},
		{"127.0.0.1:1 - cid:7 - %v - %s", []any{"something", "else"}},
		{"%s - %s%s", []any{"127.0.0.1:1 - cid:7", "something else", ""}},
		{"%s - %s%s", nil},
	} {
		if r.fromLog(c.format, c.args) {
			t.Errorf("%s %v: got it counted, want it left to the log", c.format, c.args)
		}
	}
	if got := r.list(); len(got) != 0 {
		t.Errorf("got %v, want nothing counted", got)
	}
}
