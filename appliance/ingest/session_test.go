// SPDX-License-Identifier: Apache-2.0

package ingest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// load is publishers that send one message after the other, each with its own
// connection, and note what they are told.
type load struct {
	t      *testing.T
	stop   atomic.Bool
	epoch  atomic.Int64 // part of each message: what was published after it was raised
	wg     sync.WaitGroup
	acks   atomic.Int64
	sent   []atomic.Int64 // acknowledged, of each publisher
	mu     sync.Mutex
	acked  map[string]uint64 // payload: sequence
	failed map[string]int    // other ends of a publication
}

// publish starts publishers on "<prefix>.<publisher>".
func (l *lab) publish(t *testing.T, publishers int, prefix string, within time.Duration) *load {
	t.Helper()
	return publish(t, func(int) *nats.Conn { return l.connect() }, publishers, prefix, within)
}

func publish(t *testing.T, connect func(publisher int) *nats.Conn, publishers int, prefix string, within time.Duration) *load {
	t.Helper()
	ld := &load{t: t, sent: make([]atomic.Int64, publishers), acked: map[string]uint64{}, failed: map[string]int{}}
	for p := range publishers {
		nc := connect(p)
		inbox := nc.NewInbox()
		sub := must[*nats.Subscription](t)(nc.SubscribeSync(inbox + ".*"))
		ld.wg.Go(func() {
			for i := 0; !ld.stop.Load(); i++ {
				to := fmt.Sprint(inbox, ".", i)
				payload := fmt.Sprint(ld.epoch.Load(), " ", to)
				if err := nc.PublishRequest(fmt.Sprint(prefix, ".", p), to, []byte(payload)); err != nil {
					ld.fail(err.Error())
					return
				}
				ld.take(p, payload, to, sub, within)
			}
		})
	}
	t.Cleanup(ld.end)
	return ld
}

// take waits for the answer to one message.
func (ld *load) take(p int, payload, to string, sub *nats.Subscription, within time.Duration) {
	for {
		m, err := sub.NextMsg(within)
		if err != nil {
			ld.fail(err.Error()) // of an answer that nobody responds, too
			return
		}
		if m.Subject != to {
			continue // the answer to one that was given up
		}
		var ack struct {
			Seq   uint64
			Error *struct {
				Code int `json:"err_code"`
			}
		}
		switch err := json.Unmarshal(m.Data, &ack); {
		case err != nil:
			ld.fail(fmt.Sprintf("answer %q: %v", m.Data, err))
		case ack.Error != nil:
			ld.fail(fmt.Sprint("refused ", ack.Error.Code))
		default:
			ld.mu.Lock()
			ld.acked[payload] = ack.Seq
			ld.mu.Unlock()
			ld.sent[p].Add(1)
			ld.acks.Add(1)
		}
		return
	}
}

func (ld *load) fail(why string) {
	ld.mu.Lock()
	defer ld.mu.Unlock()
	ld.failed[why]++
}

// more waits until each publisher got n more acknowledgements.
func (ld *load) more(n int64) {
	ld.t.Helper()
	before := make([]int64, len(ld.sent))
	for p := range before {
		before[p] = ld.sent[p].Load()
	}
	eventually(ld.t, 20*time.Second, func() error {
		for p := range before {
			if got := ld.sent[p].Load() - before[p]; got < n {
				return fmt.Errorf("publisher %d got %d acknowledgements", p, got)
			}
		}
		return nil
	})
}

func (ld *load) end() {
	ld.stop.Store(true)
	ld.wg.Wait()
}

// failures returns how publications ended that were not acknowledged, but for the
// ways that are expected.
func (ld *load) failures(expected ...string) map[string]int {
	ld.mu.Lock()
	defer ld.mu.Unlock()
	out := map[string]int{}
	for why, n := range ld.failed {
		if !slices.Contains(expected, why) {
			out[why] = n
		}
	}
	return out
}

// stored returns what is in a stream, in order.
func (l *lab) stored(t *testing.T, stream string) (out []*nats.Msg) {
	t.Helper()
	state := must[jetstream.Stream](t)(l.js().Stream(t.Context(), stream)).CachedInfo().State
	js := must[nats.JetStreamContext](t)(l.connect().JetStream())
	sub := must[*nats.Subscription](t)(js.SubscribeSync(">", nats.BindStream(stream), nats.OrderedConsumer()))
	for range state.Msgs {
		out = append(out, must[*nats.Msg](t)(sub.NextMsg(20*time.Second)))
	}
	return out
}

// verify holds acknowledgements against the stream, and returns what is in it.
func (ld *load) verify(l *lab, stream string) []*nats.Msg {
	ld.t.Helper()
	ld.end()
	at := map[string]uint64{}
	msgs := l.stored(ld.t, stream)
	for _, m := range msgs {
		seq := must[*nats.MsgMetadata](ld.t)(m.Metadata()).Sequence.Stream
		if have := at[string(m.Data)]; have > 0 && len(m.Data) > 0 {
			ld.t.Errorf("message %q is stored at %d and %d", m.Data, have, seq)
		}
		at[string(m.Data)] = seq
	}
	wrong := 0
	for payload, seq := range ld.acked {
		if at[payload] != seq {
			if wrong++; wrong < 5 {
				ld.t.Errorf("message %q: acknowledged at %d, stored at %d", payload, seq, at[payload])
			}
		}
	}
	if len(ld.acked) == 0 {
		ld.t.Error("no message was acknowledged")
	}
	return msgs
}

// never and nobody are how publications end that reach no stream.
var never, nobody = nats.ErrTimeout.Error(), nats.ErrNoResponders.Error()

// short is how long a publisher waits that is not to be answered.
const short = 300 * time.Millisecond

func TestLanesComeAndGoWhilePublishersSend(t *testing.T) {
	both := append(lanesOf("A", "a.*"), lanesOf("B", "b.*")...)
	l := newLab(t, true, both)
	l.stream(jetstream.StreamConfig{Name: "A", Subjects: []string{"a.*"}})
	l.stream(jetstream.StreamConfig{Name: "B", Subjects: []string{"b.*"}})
	i := l.ingest(both)
	a, b := l.publish(t, 8, "a", 10*time.Second), l.publish(t, 8, "b", 10*time.Second)
	for range 6 {
		b.more(3)
		if err := i.Set(t.Context(), "A", labSecret, both[:1]); err != nil {
			t.Fatal(err)
		}
		a.more(3)
		if err := i.Set(t.Context(), "A", labSecret, both); err != nil {
			t.Fatal(err)
		}
	}
	a.verify(l, "A")
	b.verify(l, "B")
	if got := a.failures(); len(got) > 0 {
		t.Errorf("publishers of the lane that stays: got %v", got)
	}
	// Nobody responds while the way in leads nowhere; package appliance takes it away first.
	if got := b.failures(nobody); len(got) > 0 {
		t.Errorf("publishers of the lane that comes and goes: got %v", got)
	}
	if got := i.Accounts()["A"].Grouped.Load(); got == 0 {
		t.Error("nothing was grouped")
	}
}

func TestCloseUnderLoadLosesNothingAcknowledged(t *testing.T) {
	lanes := lanesOf("A", "a.*")
	l := newLab(t, true, lanes)
	l.stream(jetstream.StreamConfig{Name: "A", Subjects: []string{"a.*"}})
	i := l.ingest(lanes)
	ld := l.publish(t, 16, "a", short)
	ld.more(5)
	closed := make(chan struct{})
	go func() { i.Close(); close(closed) }()
	select {
	case <-closed:
	case <-time.After(10 * time.Second):
		t.Fatal("Close does not return")
	}
	if got := i.Connections(); got != 0 {
		t.Errorf("connections after Close: got %d, want 0", got)
	}
	if err := i.Set(t.Context(), "A", labSecret, lanes); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Set after Close: got %v, want %v", err, net.ErrClosed)
	}
	ld.verify(l, "A")
	if got := ld.failures(nobody, never); len(got) > 0 {
		t.Errorf("publishers: got %v", got)
	}
	eventually(t, 10*time.Second, func() error {
		if cids := l.ingestClients(); len(cids) > 0 {
			return fmt.Errorf("the server has connections %v", cids)
		}
		return nil
	})
}

// ingestClients returns the connections of ingest that the server knows.
func (l *lab) ingestClients() (out []uint64) {
	l.t.Helper()
	for _, c := range must[*server.Connz](l.t)(l.server.Connz(&server.ConnzOptions{})).Conns {
		if c.Name == "holdfast ingest" {
			out = append(out, c.Cid)
		}
	}
	return out
}

func TestAConnectionThatIsCutIsMadeAgain(t *testing.T) {
	lanes := lanesOf("A", "a.*")
	l := newLab(t, true, lanes)
	l.stream(jetstream.StreamConfig{Name: "A", Subjects: []string{"a.*"}})
	i := l.ingest(lanes)
	ld := l.publish(t, 16, "a", short)
	for range 3 {
		ld.more(5)
		cids := l.ingestClients()
		if len(cids) != 1 {
			t.Fatalf("connections of ingest: got %v, want one", cids)
		}
		if err := l.server.DisconnectClientByID(cids[0]); err != nil {
			t.Fatal(err)
		}
	}
	ld.more(5)
	if got := i.Connections(); got != 1 {
		t.Errorf("connections: got %d, want 1", got)
	}
	ld.verify(l, "A")
	if got := ld.failures(nobody, never); len(got) > 0 {
		t.Errorf("publishers: got %v", got)
	}
	if got := i.Accounts()["A"].Grouped.Load(); got == 0 {
		t.Error("nothing was grouped")
	}
}

func TestSetWaitsForCredentials(t *testing.T) {
	lanes := lanesOf("A", "a.*")
	l := newLab(t, false, lanes)
	l.stream(jetstream.StreamConfig{Name: "A", Subjects: []string{"a.*"}})
	var asked atomic.Int64
	i := New(Options{
		Dialer: l.server, Listening: l, Log: slog.New(slog.DiscardHandler),
		Credentials: func(string) (string, []byte, error) {
			if asked.Add(1) < 3 {
				return "", nil, errors.New("not yet")
			}
			return l.user()
		},
	})
	t.Cleanup(i.Close)
	if err := i.Set(t.Context(), "A", labSecret, lanes); err != nil {
		t.Fatal(err)
	}
	if ack, err := l.js().Publish(t.Context(), "a.0", nil); err != nil || ack.Sequence != 1 {
		t.Errorf("publish: got %v, error %v", ack, err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	other := New(Options{
		Dialer: l.server, Listening: l, Log: slog.New(slog.DiscardHandler),
		Credentials: func(string) (string, []byte, error) { return "", nil, errors.New("never") },
	})
	t.Cleanup(other.Close)
	if err := other.Set(gone, "A", labSecret, lanes); !errors.Is(err, context.Canceled) {
		t.Errorf("Set without credentials: got %v, want %v", err, context.Canceled)
	}
}

// meter counts the reads that ended without anything, because of their deadline.
type meter struct {
	Dialer
	idle atomic.Int64
}

type metered struct {
	net.Conn
	m *meter
}

func (m *meter) InProcessConn() (net.Conn, error) {
	c, err := m.Dialer.InProcessConn()
	return metered{c, m}, err
}

func (c metered) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		c.m.idle.Add(1)
	}
	return n, err
}

func TestSetDoesNotKeepTheConnectionFromReading(t *testing.T) {
	lanes := lanesOf("A", "a.*")
	l := newLab(t, false, lanes)
	l.stream(jetstream.StreamConfig{Name: "A", Subjects: []string{"a.*"}})
	m := &meter{Dialer: l.server}
	i := New(Options{
		Dialer: m, Listening: l, Log: slog.New(slog.DiscardHandler),
		Credentials: func(string) (string, []byte, error) { return l.user() },
	})
	t.Cleanup(i.Close)
	js := l.js()
	const sets = 20
	begun := time.Now()
	for range sets {
		if err := i.Set(t.Context(), "A", labSecret, lanes); err != nil {
			t.Fatal(err)
		}
		if _, err := js.Publish(t.Context(), "a.0", nil); err != nil {
			t.Fatal(err)
		}
	}
	// Each Set ends one read, and each tick.
	if got, most := m.idle.Load(), 3*sets+int64(time.Since(begun)/tickEvery); got > most {
		t.Errorf("reads that ended at their deadline: got %d for %d calls of Set, want at most %d", got, sets, most)
	}
}

func TestASubscriberSeesMessagesAsTheyWerePublished(t *testing.T) {
	lanes := lanesOf("A", "a.*")
	l := newLab(t, true, lanes)
	l.stream(jetstream.StreamConfig{Name: "A", Subjects: []string{"a.*"}})
	i := l.ingest(lanes)
	ld := l.publish(t, 32, "a", 10*time.Second)
	stats := i.Accounts()["A"]
	for round := range 3 {
		before := stats.Grouped.Load()
		eventually(t, 10*time.Second, func() error {
			if got := stats.Grouped.Load() - before; got < 100 {
				return fmt.Errorf("round %d: %d messages were grouped", round, got)
			}
			return nil
		})
		nc := l.connect()
		seen := make(chan *nats.Msg, 1<<16)
		sub := must[*nats.Subscription](t)(nc.ChanSubscribe("a.*", seen))
		if err := nc.Flush(); err != nil {
			t.Fatal(err)
		}
		since := ld.epoch.Add(1)
		ld.more(3)
		ld.epoch.Add(1)
		ld.more(2) // so that all of the epoch are answered
		if err := errors.Join(nc.Flush(), sub.Unsubscribe()); err != nil {
			t.Fatal(err)
		}
		ld.compare(since, seen)
	}
	ld.verify(l, "A")
	if got := ld.failures(); len(got) > 0 {
		t.Errorf("publishers: got %v", got)
	}
}

// compare holds what a subscriber saw against what was published in an epoch.
func (ld *load) compare(epoch int64, seen chan *nats.Msg) {
	ld.t.Helper()
	prefix := fmt.Sprint(epoch, " ")
	got := map[string]int{}
	for len(seen) > 0 {
		m := <-seen
		to, ok := strings.CutPrefix(string(m.Data), prefix)
		if !ok {
			continue
		}
		if got[string(m.Data)]++; m.Reply != to || len(m.Header) > 0 {
			ld.t.Errorf("message %q: got reply %q and header %v", m.Data, m.Reply, m.Header)
		}
	}
	ld.mu.Lock()
	defer ld.mu.Unlock()
	n := 0
	for payload := range ld.acked {
		if strings.HasPrefix(payload, prefix) {
			if n++; got[payload] != 1 {
				ld.t.Errorf("message %q: got it %d times, want once", payload, got[payload])
			}
		}
	}
	if n < 3*len(ld.sent) || len(got) < n {
		ld.t.Errorf("got %d messages, want %d, at least %d", len(got), n, 3*len(ld.sent))
	}
}
