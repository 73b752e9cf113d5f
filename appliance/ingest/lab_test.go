// SPDX-License-Identifier: Apache-2.0

package ingest

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"
)

// lab is a real server in operator mode with one account.
type lab struct {
	t       testing.TB
	server  *server.Server
	opts    *server.Options
	account string // public key
	akp     nkeys.KeyPair
	okp     nkeys.KeyPair
	claims  *jwt.AccountClaims
	mem     *server.MemAccResolver
}

const labSecret = "s3cr3t"

func must[T any](t testing.TB) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func newLab(t testing.TB, strict bool, lanes []Lane) *lab {
	t.Helper()
	l := newRealm(t, lanes)
	l.opts.SyncAlways = strict
	l.start()
	return l
}

// newRealm prepares a lab whose server is to be started.
func newRealm(t testing.TB, lanes []Lane) *lab {
	t.Helper()
	l := &lab{t: t}
	l.okp = must[nkeys.KeyPair](t)(nkeys.CreateOperator())
	l.akp = must[nkeys.KeyPair](t)(nkeys.CreateAccount())
	skp := must[nkeys.KeyPair](t)(nkeys.CreateAccount())
	opub := must[string](t)(l.okp.PublicKey())
	l.account = must[string](t)(l.akp.PublicKey())
	spub := must[string](t)(skp.PublicKey())
	oc := jwt.NewOperatorClaims(opub)
	oc.SystemAccount = spub
	must[string](t)(oc.Encode(l.okp))
	l.claims = jwt.NewAccountClaims(l.account)
	l.claims.Limits.JetStreamLimits = jwt.JetStreamLimits{MemoryStorage: -1, DiskStorage: -1, Streams: -1, Consumer: -1}
	l.claims.Mappings = jwt.Mapping{}
	for _, m := range Mappings(labSecret, lanes) {
		l.claims.Mappings[jwt.Subject(m.From)] = []jwt.WeightedMapping{{Subject: jwt.Subject(m.To), Weight: 100}}
	}
	l.mem = &server.MemAccResolver{}
	if err := l.mem.Store(l.account, must[string](t)(l.claims.Encode(l.okp))); err != nil {
		t.Fatal(err)
	}
	if err := l.mem.Store(spub, must[string](t)(jwt.NewAccountClaims(spub).Encode(l.okp))); err != nil {
		t.Fatal(err)
	}
	l.opts = &server.Options{
		ServerName: "lab", Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true,
		TrustedOperators: []*jwt.OperatorClaims{oc}, SystemAccount: spub, AccountResolver: l.mem,
		// As the engine has it: what is passed on has a longer subject.
		MaxControlLine:    server.MAX_CONTROL_LINE_SIZE + 512,
		JetStreamMaxStore: 8 << 30, JetStreamMaxMemory: 1 << 30,
	}
	return l
}

func (l *lab) start() {
	l.t.Helper()
	l.server = must[*server.Server](l.t)(server.NewServer(l.opts.Clone()))
	go l.server.Start()
	if !l.server.ReadyForConnections(10 * time.Second) {
		l.t.Fatal("server does not start")
	}
	s := l.server
	l.t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
}

func (l *lab) user() (token string, seed []byte, err error) {
	kp, err := nkeys.CreateUser()
	if err != nil {
		return "", nil, err
	}
	pub, err := kp.PublicKey()
	if err != nil {
		return "", nil, err
	}
	if seed, err = kp.Seed(); err != nil {
		return "", nil, err
	}
	token, err = jwt.NewUserClaims(pub).Encode(l.akp)
	return token, seed, err
}

func (l *lab) connect(opts ...nats.Option) *nats.Conn {
	l.t.Helper()
	token, seed, err := l.user()
	if err != nil {
		l.t.Fatal(err)
	}
	nc := must[*nats.Conn](l.t)(nats.Connect(l.server.ClientURL(), append(opts, nats.UserJWTAndSeed(token, string(seed)))...))
	l.t.Cleanup(nc.Close)
	return nc
}

func (l *lab) js() jetstream.JetStream {
	l.t.Helper()
	return must[jetstream.JetStream](l.t)(jetstream.New(l.connect()))
}

func (l *lab) leads(_, stream string) bool {
	return l.server.JetStreamIsStreamLeader(l.account, stream)
}

func (l *lab) Interest(_, subject string) bool {
	acc, err := l.server.LookupAccount(l.account)
	return err == nil && acc.Interest(subject) > 0
}

func (l *lab) Listening(string) (uint64, error) {
	sz, err := l.server.Subsz(&server.SubszOptions{Account: l.account})
	if err != nil {
		return 0, err
	}
	return sz.NumInserts + sz.NumRemoves, nil
}

func (l *lab) Listeners(string) ([]Listener, error) {
	sz, err := l.server.Subsz(&server.SubszOptions{Account: l.account, Subscriptions: true, Limit: 1 << 30})
	if err != nil {
		return nil, err
	}
	var out []Listener
	for _, s := range sz.Subs {
		out = append(out, Listener{s.Subject, l.server.GetClient(s.Cid) != nil})
	}
	return out, nil
}

// ingest starts carrying the lanes.
func (l *lab) ingest(lanes []Lane) *Ingest {
	l.t.Helper()
	return l.ingestOnce(nil, lanes)
}

// ingestOnce is ingest of a server that takes up its mappings as maps says.
func (l *lab) ingestOnce(maps func(account, from string) bool, lanes []Lane) *Ingest {
	l.t.Helper()
	i := New(Options{
		Dialer:      l.server,
		Credentials: func(string) (string, []byte, error) { return l.user() },
		Listening:   l,
		Maps:        maps,
		Log:         slog.New(slog.DiscardHandler),
	})
	l.t.Cleanup(i.Close)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := i.Set(ctx, "A", labSecret, lanes); err != nil {
		l.t.Fatal(err)
	}
	return i
}

func (l *lab) stream(cfg jetstream.StreamConfig) jetstream.Stream {
	l.t.Helper()
	cfg.AllowAtomicPublish = true
	return must[jetstream.Stream](l.t)(l.js().CreateStream(context.Background(), cfg))
}

func eventually(t testing.TB, within time.Duration, f func() error) {
	t.Helper()
	end := time.After(within)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		err := f()
		if err == nil {
			return
		}
		select {
		case <-end:
			t.Fatalf("after %s still: %v", within, err)
		case <-tick.C:
		}
	}
}

func lanesOf(stream string, subjects ...string) []Lane {
	return []Lane{{Stream: stream, Subjects: subjects, MaxMsgSize: 1 << 30}}
}
