// SPDX-License-Identifier: Apache-2.0

package jetstream_test

import (
	"testing"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/holdfast-mq/holdfast/bootstrap"
)

// lab is one stream on a server of its own, which can be restarted.
type lab struct {
	t    *testing.T
	n    *node
	opts func() *server.Options
	nc   *nats.Conn
	js   nats.JetStreamContext
}

// newLab starts a server with an account "shop" that may store so many bytes in
// files, -1 for any number.
func newLab(t *testing.T, disk int64) *lab {
	t.Helper()
	operator, operatorID := newKey(t, nkeys.CreateOperator)
	resolver := &server.MemAccResolver{}
	n := &node{accounts: make(map[string]nkeys.KeyPair)}
	ids := map[string]string{}
	for _, name := range []string{"SYS", "shop"} {
		key, id := newKey(t, nkeys.CreateAccount)
		claims := jwt.NewAccountClaims(id)
		claims.Name = name
		if name == "shop" {
			claims.Limits.JetStreamLimits = jwt.JetStreamLimits{MemoryStorage: -1, DiskStorage: disk, Streams: -1, Consumer: -1}
		}
		token, err := claims.Encode(operator)
		if err != nil {
			t.Fatal(err)
		}
		if err := resolver.Store(id, token); err != nil {
			t.Fatal(err)
		}
		n.accounts[name], ids[name] = key, id
	}
	claims := jwt.NewOperatorClaims(operatorID)
	claims.SystemAccount = ids["SYS"]
	if _, err := claims.Encode(operator); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	// The server changes the options it is given.
	l := &lab{t: t, n: n, opts: func() *server.Options {
		return &server.Options{
			ServerName: "n1", DontListen: true, NoSigs: true, NoLog: true, JetStream: true, StoreDir: dir,
			TrustedOperators: []*jwt.OperatorClaims{claims}, SystemAccount: ids["SYS"], AccountResolver: resolver,
		}
	}}
	l.n.Server = run(t, l.opts())
	l.reconnect()
	return l
}

// stop ends the server.
func (l *lab) stop() {
	l.nc.Close()
	l.n.Shutdown()
	l.n.WaitForShutdown()
}

// restart starts the server anew, over the same files.
func (l *lab) restart() {
	l.t.Helper()
	l.stop()
	l.n.Server = run(l.t, l.opts())
	l.reconnect()
}

// restartWithCopy restarts unless all is done: then a stream in memory is lost
// as streams in memory are.
func (l *lab) restartWithCopy() {
	l.t.Helper()
	if _, err := l.js.StreamInfo(bootstrap.CopyName("ORDERS")); err == nil {
		l.restart()
	}
}

func (l *lab) reconnect() {
	l.t.Helper()
	l.nc = connect(l.t, l.n, "shop")
	js, err := l.nc.JetStream()
	if err != nil {
		l.t.Fatal(err)
	}
	l.js = js
}
