// SPDX-License-Identifier: Apache-2.0

package acks

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// These tests hold what the designs assume of the server, the pleasant and the
// unpleasant. When one fails after an update of the server, docs/adr/0008 is to be read
// again.

// queue is a work queue on an embedded server, with its one consumer.
type queue struct {
	*testing.T
	nc *nats.Conn
	js jetstream.JetStream
	s  jetstream.Stream
	c  jetstream.Consumer
}

// newQueue starts a server and makes the queue. mappings go into its configuration.
func newQueue(t *testing.T, mappings string, flags map[string]bool, c jetstream.ConsumerConfig) *queue {
	t.Helper()
	q := &queue{T: t, nc: connect(t, serve(t, flags, func(store string) string {
		return fmt.Sprintf(`listen: "127.0.0.1:-1"
jetstream { store_dir: %q, sync_interval: always }
no_auth_user: a
accounts { A { jetstream: enabled, users: [{user: a, password: a}], mappings { %s } } }
`, store, mappings)
	}))}
	q.js = use(t, q.nc)
	q.make(c)
	return q
}

// serve runs a server with this configuration and returns its address.
func serve(t *testing.T, flags map[string]bool, text func(store string) string) string {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "nats.conf")
	if err := os.WriteFile(file, []byte(text(filepath.ToSlash(filepath.Join(dir, "data")))), 0o600); err != nil {
		t.Fatal(err)
	}
	opts, err := server.ProcessConfigFile(file)
	if err != nil {
		t.Fatal(err)
	}
	opts.NoSigs, opts.NoLog, opts.FeatureFlags = true, true, flags
	srv, err := server.NewServer(opts)
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	t.Cleanup(func() { srv.Shutdown(); srv.WaitForShutdown() })
	if !srv.ReadyForConnections(20 * time.Second) {
		t.Fatal("server is not ready")
	}
	return srv.ClientURL()
}

func connect(t *testing.T, url string) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

func use(t *testing.T, nc *nats.Conn) jetstream.JetStream {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// make makes the stream and the consumer.
func (q *queue) make(c jetstream.ConsumerConfig) {
	q.Helper()
	var err error
	if q.s, err = q.js.CreateStream(q.Context(), jetstream.StreamConfig{Name: stream, Subjects: []string{subjects}, Retention: jetstream.WorkQueuePolicy}); err != nil {
		q.Fatal(err)
	}
	c.Durable, c.AckPolicy = consumer, jetstream.AckExplicitPolicy
	if q.c, err = q.s.CreateConsumer(q.Context(), c); err != nil {
		q.Fatal(err)
	}
}

func (q *queue) publish(n int) {
	q.Helper()
	for range n {
		if _, err := q.js.Publish(q.Context(), subject, nil); err != nil {
			q.Fatal(err)
		}
	}
}

// fetch wants n messages.
func (q *queue) fetch(n int) []jetstream.Msg {
	q.Helper()
	got, err := q.c.Fetch(n, jetstream.FetchMaxWait(5*time.Second))
	if err != nil {
		q.Fatal(err)
	}
	var out []jetstream.Msg
	for m := range got.Messages() {
		out = append(out, m)
	}
	if len(out) != n {
		q.Fatalf("fetch: got %d messages, want %d", len(out), n)
	}
	return out
}

func (q *queue) purge(filter string, seq uint64) uint64 {
	q.Helper()
	n, err := purge(q.Context(), q.nc, filter, seq)
	if err != nil {
		q.Fatal(err)
	}
	return n
}

func (q *queue) position() position {
	q.Helper()
	p, err := askPosition(q.Context(), q.nc)
	if err != nil {
		q.Fatal(err)
	}
	return p
}

// stored lists the sequences that the stream holds, up to n.
func (q *queue) stored(n uint64) []uint64 {
	q.Helper()
	var out []uint64
	for seq := uint64(1); seq <= n; seq++ {
		switch _, err := q.s.GetMsg(q.Context(), seq); {
		case err == nil:
			out = append(out, seq)
		case !errors.Is(err, jetstream.ErrMsgNotFound):
			q.Fatal(err)
		}
	}
	return out
}

// eventually asks until the answer is nil.
func (q *queue) eventually(ask func() error) {
	q.Helper()
	end := time.Now().Add(10 * time.Second)
	for {
		err := ask()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			q.Fatal(err)
		}
		<-time.After(5 * time.Millisecond)
	}
}

// storedIs waits until the stream holds exactly want of its first n messages.
func (q *queue) storedIs(n uint64, want ...uint64) {
	q.Helper()
	q.eventually(func() error {
		if got := q.stored(n); fmt.Sprint(got) != fmt.Sprint(want) {
			return fmt.Errorf("stored: got %v, want %v", got, want)
		}
		return nil
	})
}

func both(t *testing.T, test func(t *testing.T, filter string)) {
	for name, filter := range map[string]string{"by sequence": "", "by filter": subjects} {
		t.Run(name, func(t *testing.T) { test(t, filter) })
	}
}

// limited is a context for an answer that should not come.
func limited(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func sequence(t *testing.T, m jetstream.Msg) (seq, deliveries uint64) {
	t.Helper()
	at, err := m.Metadata()
	if err != nil {
		t.Fatal(err)
	}
	return at.Sequence.Stream, at.NumDelivered
}

// answers subscribes to where a pull request's messages go.
func (q *queue) answers(name string) *nats.Subscription {
	q.Helper()
	sub, err := q.nc.SubscribeSync(name)
	if err != nil {
		q.Fatal(err)
	}
	return sub
}

func (q *queue) pull(reply, request string) {
	q.Helper()
	if err := q.nc.PublishRequest("$JS.API.CONSUMER.MSG.NEXT."+stream+"."+consumer, reply, []byte(request)); err != nil {
		q.Fatal(err)
	}
}
