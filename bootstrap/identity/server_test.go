// SPDX-License-Identifier: Apache-2.0

package identity_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/holdfast-mq/holdfast/appliance/diag"
	"github.com/holdfast-mq/holdfast/bootstrap/identity"
)

const maxFile = 100 << 20

// run starts a server that trusts id, and gives it what Apply changes later.
func run(t *testing.T, id *identity.Identity) *server.Server {
	t.Helper()
	dir := t.TempDir()
	var b strings.Builder
	trust := id.Trust()
	fmt.Fprintf(&b, "operator: %s\nsystem_account: %s\n", trust.OperatorJWT, trust.SystemAccount)
	fmt.Fprintf(&b, "resolver: {type: full, dir: %q}\nresolver_preload: {\n", filepath.Join(dir, "jwt"))
	for public, token := range trust.Preload {
		fmt.Fprintf(&b, "  %s: %s\n", public, token)
	}
	fmt.Fprintf(&b, "}\nlisten: \"127.0.0.1:-1\"\njetstream: {store_dir: %q, max_mem: 64MB, max_file: %d}\n", dir, maxFile)
	opts := &server.Options{}
	if err := opts.ProcessConfigString(b.String()); err != nil {
		t.Fatalf("read server configuration: %v", err)
	}
	opts.NoSigs, opts.NoLog = true, true
	// Its own 2 s for a client to log in are short on a busy machine.
	opts.AuthTimeout = patience.Seconds()
	s, err := server.NewServer(opts)
	if err != nil {
		t.Fatalf("create server: %v", err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(patience) {
		t.Fatalf("the server is not ready after %s", patience)
	}
	return s
}

// dial connects and gives the server time, so that a refusal is none of the
// client's own.
func dial(s *server.Server, opts ...nats.Option) (*nats.Conn, error) {
	return nats.Connect(s.ClientURL(), append(opts, nats.Timeout(patience))...)
}

func connect(t *testing.T, s *server.Server, opts ...nats.Option) *nats.Conn {
	t.Helper()
	nc, err := dial(s, opts...)
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// as connects with a credentials file, over TCP like any client.
func as(t *testing.T, s *server.Server, id *identity.Identity, account, user string) *nats.Conn {
	t.Helper()
	creds, err := id.Creds(account, user)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "user.creds")
	if err := os.WriteFile(path, creds, 0o600); err != nil {
		t.Fatal(err)
	}
	return connect(t, s, nats.UserCredentials(path))
}

func with(t *testing.T, s *server.Server, login identity.Login, err error) *nats.Conn {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return connect(t, s, nats.InProcessServer(s), nats.UserJWTAndSeed(login.Token, login.Seed.Reveal()))
}

func stream(t *testing.T, nc *nats.Conn, name string, maxBytes int64) (nats.JetStreamContext, error) {
	t.Helper()
	js, err := nc.JetStream(nats.MaxWait(patience))
	if err != nil {
		t.Fatal(err)
	}
	_, err = js.AddStream(&nats.StreamConfig{Name: name, Subjects: []string{name + ".>"}, MaxBytes: maxBytes, Storage: nats.FileStorage})
	return js, err
}

func wantAPIError(t *testing.T, err error, code nats.ErrorCode) {
	t.Helper()
	var api *nats.APIError
	if !errors.As(err, &api) || api.ErrorCode != code {
		t.Errorf("got %v, want API error %d", err, code)
	}
}

func TestServerKeepsAccountsApart(t *testing.T) {
	f, _ := newFile(t)
	f.Now = func() time.Time { return time.Unix(-1, 0) } // no clock at boot
	id := open(t, f)
	apply(t, id, account("shop", "packer"), account("line", "robot"))
	s := run(t, id)

	packer := as(t, s, id, "shop", "packer")
	js, err := stream(t, packer, "ORDERS", -1)
	if err != nil {
		t.Fatalf("create stream: %v", err)
	}
	if _, err := js.Publish("ORDERS.new", []byte("1")); err != nil {
		t.Fatalf("publish: %v", err)
	}
	robot, err := as(t, s, id, "line", "robot").JetStream(nats.MaxWait(patience))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := robot.StreamInfo("ORDERS"); !errors.Is(err, nats.ErrStreamNotFound) {
		t.Errorf("got %v for a stream of another account, want not found", err)
	}

	login, err := id.InternalLogin("shop")
	own, err := with(t, s, login, err).JetStream(nats.MaxWait(patience))
	if err != nil {
		t.Fatal(err)
	}
	info, err := own.StreamInfo("ORDERS")
	if err != nil {
		t.Fatalf("read stream with an internal login: %v", err)
	}
	if info.State.Msgs != 1 {
		t.Errorf("got %d messages, want 1", info.State.Msgs)
	}
	login, err = id.InternalLogin(identity.InternalName)
	if _, err := stream(t, with(t, s, login, err), "state", -1); err != nil {
		t.Errorf("create stream in the internal account: %v", err)
	}
}

func TestServerAnswersTheSystemLoginOnly(t *testing.T) {
	f, _ := newFile(t)
	id := open(t, f)
	apply(t, id, account("shop", "packer"))
	s := run(t, id)
	login, err := id.SystemLogin()
	reply, err := with(t, s, login, err).Request("$SYS.REQ.SERVER.PING", nil, patience)
	if err != nil {
		t.Fatalf("ping servers: %v", err)
	}
	if !strings.Contains(string(reply.Data), s.ID()) {
		t.Errorf("got %s, want the server's id %s in it", reply.Data, s.ID())
	}
	if _, err := as(t, s, id, "shop", "packer").Request("$SYS.REQ.SERVER.PING", nil, patience); !errors.Is(err, nats.ErrNoResponders) {
		t.Errorf("got %v for a user's ping, want no responders", err)
	}
}

func TestServerRefusesALoginOfAnotherIdentity(t *testing.T) {
	f, _ := newFile(t)
	other, _ := newFile(t)
	login, err := open(t, other).SystemLogin()
	if err != nil {
		t.Fatal(err)
	}
	s := run(t, open(t, f))
	nc, err := dial(s, nats.UserJWTAndSeed(login.Token, login.Seed.Reveal()))
	if !errors.Is(err, nats.ErrAuthorization) {
		t.Errorf("got %v, want an authorization violation", err)
	}
	if err == nil {
		nc.Close()
	}
}

func TestServerEnforcesLimits(t *testing.T) {
	f, _ := newFile(t)
	id := open(t, f)
	shop := account("shop", "packer")
	shop.Limits = identity.Limits{
		DiskBytes: 10 << 20, MemoryBytes: 0, Streams: 2, Consumers: 1,
		Connections: 1, Subscriptions: 3, PayloadBytes: 1000,
	}
	free := account("free", "u")
	apply(t, id, shop, free)
	s := run(t, id)
	packer := as(t, s, id, "shop", "packer")

	js, err := stream(t, packer, "A", 8<<20)
	if err != nil {
		t.Fatalf("create stream below the limit: %v", err)
	}
	_, err = stream(t, packer, "B", 3<<20)
	wantAPIError(t, err, 10047)
	_, err = js.AddStream(&nats.StreamConfig{Name: "M", Storage: nats.MemoryStorage, MaxBytes: 1000})
	wantAPIError(t, err, 10028)
	if _, err = stream(t, packer, "B", 1<<20); err != nil {
		t.Errorf("create second stream: %v", err)
	}
	_, err = stream(t, packer, "C", 1000)
	wantAPIError(t, err, 10027)
	explicit := nats.AckExplicitPolicy
	if _, err := js.AddConsumer("A", &nats.ConsumerConfig{Durable: "one", AckPolicy: explicit}); err != nil {
		t.Errorf("create consumer: %v", err)
	}
	_, err = js.AddConsumer("A", &nats.ConsumerConfig{Durable: "two", AckPolicy: explicit})
	wantAPIError(t, err, 10026)
	if _, err := js.AddConsumer("B", &nats.ConsumerConfig{Durable: "one", AckPolicy: explicit}); err != nil {
		t.Errorf("create consumer of the second stream, which has a limit of its own: %v", err)
	}

	creds, err := id.InternalLogin("shop")
	if err != nil {
		t.Fatal(err)
	}
	if nc, err := dial(s, nats.UserJWTAndSeed(creds.Token, creds.Seed.Reveal())); err == nil {
		nc.Close()
		t.Error("got a second connection, want it refused")
	}
	if got := packer.MaxPayload(); got != 1000 {
		t.Errorf("got a maximum payload of %d, want 1000", got)
	}
	if _, err := stream(t, as(t, s, id, "free", "u"), "A", 80<<20); err != nil {
		t.Errorf("create stream without limits: %v", err)
	}
	for range 3 { // one more than fit: replies have a subscription too
		if _, err := packer.SubscribeSync("x"); err != nil {
			t.Fatal(err)
		}
	}
	if err := packer.Flush(); !errors.Is(packer.LastError(), nats.ErrMaxSubscriptionsExceeded) {
		t.Errorf("got %v and %v, want too many subscriptions", err, packer.LastError())
	}
}

func TestOpenKnowsTheDirectoriesOfTheStore(t *testing.T) {
	f, _ := newFile(t)
	id := open(t, f)
	apply(t, id, account("shop", "packer"))
	s := run(t, id)
	if _, err := stream(t, as(t, s, id, "shop", "packer"), "A", -1); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(s.JetStreamConfig().StoreDir)
	if err != nil {
		t.Fatal(err)
	}
	var stored []string
	for _, e := range entries {
		stored = append(stored, e.Name())
	}
	if shop, _ := id.PublicKey("shop"); !slices.Contains(stored, shop) {
		t.Errorf("got directories %v, want the account's key %s among them", stored, shop)
	}
	open(t, f, stored...)
	other, _ := newFile(t)
	other.Path = f.Path + ".other"
	open(t, other)
	_, err = identity.Open(other, stored)
	wantFault(t, err, diag.CodeIdentityGone, true, "does not know")
}

// What setting one limit for each replica count would break: on one node the
// server sets aside their sum.
func TestAnAccountLimitReservesItsSizeOnce(t *testing.T) {
	f, _ := newFile(t)
	id := open(t, f)
	most := account("most", "u")
	most.Limits.DiskBytes = maxFile * 9 / 10
	apply(t, id, most)
	if _, err := stream(t, as(t, run(t, id), id, "most", "u"), "A", maxFile*8/10); err != nil {
		t.Errorf("create stream in an account that may use 90%% of the disk: %v", err)
	}
}

// update hands the account's token to a running server.
func update(t *testing.T, nc *nats.Conn, id *identity.Identity, account string) {
	t.Helper()
	public, _ := id.PublicKey(account)
	reply, err := nc.Request("$SYS.REQ.CLAIMS.UPDATE", []byte(id.Trust().Preload[public]), patience)
	if err != nil {
		t.Fatalf("update claims: %v", err)
	}
	var answer struct {
		Data  struct{ Code int }
		Error *struct{ Description string }
	}
	if err := json.Unmarshal(reply.Data, &answer); err != nil || answer.Error != nil || answer.Data.Code != 200 {
		t.Fatalf("got answer %s to an update of claims, want code 200", reply.Data)
	}
}

func TestChangesReachARunningServer(t *testing.T) {
	f, _ := newFile(t)
	clock := time.Now()
	f.Now = func() time.Time { return clock }
	id := open(t, f)
	apply(t, id, account("shop", "packer"))
	s := run(t, id)
	login, err := id.SystemLogin()
	sys := with(t, s, login, err)
	packer := as(t, s, id, "shop", "packer")

	// Within the same second, and after the clock went back.
	for i, now := range []time.Time{clock, clock, time.Unix(5, 0)} {
		clock = now
		shop := account("shop", "packer", fmt.Sprint("u", i))
		shop.Limits.Streams = int64(i + 1)
		apply(t, id, shop, account("line", "robot"))
		update(t, sys, id, "shop")
		as(t, s, id, "shop", fmt.Sprint("u", i))
		if _, err := stream(t, packer, fmt.Sprint("S", i), -1); err != nil {
			t.Errorf("create stream %d: %v", i, err)
		}
		_, err := stream(t, packer, "TOOMANY", -1)
		wantAPIError(t, err, 10027)
	}
	update(t, sys, id, "line")
	as(t, s, id, "line", "robot")
}
