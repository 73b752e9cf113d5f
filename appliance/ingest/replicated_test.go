// SPDX-License-Identifier: Apache-2.0

package ingest

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// moment is longer than anything is held, and shorter than the server waits for anything.
const moment = 1500 * time.Millisecond

// copied are lanes of streams with copies, each of which takes what begins with its name.
func copied(streams ...string) (lanes []Lane) {
	for _, s := range streams {
		lanes = append(lanes, Lane{Stream: s, Subjects: []string{s + ".*"}, Replicated: true})
	}
	return lanes
}

// inOrder wants what each publisher of a load sent stored in that order.
func (ld *load) inOrder(msgs []*nats.Msg) {
	ld.t.Helper()
	last := map[string]int{}
	for _, m := range msgs {
		if len(m.Header) > 0 {
			ld.t.Fatalf("message %q has headers %v, and was sent without", m.Data, m.Header)
		}
		_, name, _ := strings.Cut(string(m.Data), " ")
		i := strings.LastIndexByte(name, '.')
		n, err := strconv.Atoi(name[i+1:])
		if err != nil {
			ld.t.Fatal(err)
		}
		n++ // from 1
		from := name[:i]
		if n <= last[from] {
			ld.t.Errorf("publisher %s: message %d is stored after message %d", from, n, last[from])
		}
		last[from] = n
	}
}

func TestReplicatedStreams(t *testing.T) {
	lanes := copied("PLAIN", "STEPS", "GONE", "ENDS", "HEADERS", "ACKS")
	lanes[5].Consumer = "work"
	c := newCluster(t, lanes)
	for _, l := range lanes {
		cfg := jetstream.StreamConfig{Name: l.Stream, Subjects: l.Subjects}
		if l.Consumer != "" {
			cfg.Retention = jetstream.WorkQueuePolicy
		}
		c.stream(cfg)
	}
	nodes := c.ingest(Replicated(Mappings(labSecret, lanes)))
	for _, l := range lanes {
		c.carried(l.Stream)
	}
	t.Run("publishers of all nodes", func(t *testing.T) { testPublishersOfAllNodes(t, c, nodes) })
	t.Run("headers", func(t *testing.T) { testNothingChanges(t, c) })
	t.Run("acknowledgements", func(t *testing.T) { testAcknowledgementsArePassedOn(t, c) })
	t.Run("steps down", func(t *testing.T) { testLeadersStepDown(t, c) })
	t.Run("ends", func(t *testing.T) { testLanesEnd(t, c, nodes, lanes) })
	t.Run("gone", func(t *testing.T) { testTheLeaderIsGone(t, c) })
}

func testPublishersOfAllNodes(t *testing.T, c *cluster, nodes []*Ingest) {
	leader := c.leader("PLAIN")
	ld := c.publish(t, 64, "PLAIN", 10*time.Second)
	ld.more(20)
	ld.inOrder(ld.verify(c.nodes[leader], "PLAIN"))
	if got := ld.failures(); len(got) > 0 {
		t.Errorf("publishers: got %v", got)
	}
	for i, n := range nodes {
		s := n.Accounts()["A"]
		if grouped, batches := s.Grouped.Load(), s.Batches.Load(); batches == 0 || grouped/batches < 4 {
			t.Errorf("node %d: got %d messages in %d bursts, want about 21 in each", i, grouped, batches)
		}
	}
}

// testNothingChanges holds what is stored, answered and heard by others against what was
// sent.
func testNothingChanges(t *testing.T, c *cluster) {
	nc := c.connect(c.leader("HEADERS") + 1)
	js := must[jetstream.JetStream](t)(jetstream.New(nc))
	st := must[jetstream.Stream](t)(js.Stream(t.Context(), "HEADERS"))
	heard := must[*nats.Subscription](t)(nc.SubscribeSync("HEADERS.>"))
	for i, f := range []struct {
		header nats.Header
		answer string
	}{
		{nil, `"seq":1}`},
		{nats.Header{"x-Odd-case": {"1", "2"}, "Empty": {""}}, `"seq":2}`},
		{nats.Header{"Nats-Msg-Id": {"one"}}, `"seq":3}`},
		{nats.Header{"Nats-Msg-Id": {"one"}}, `"seq":3,"duplicate": true}`},
		{nats.Header{"Nats-Expected-Last-Sequence": {"3"}}, `"seq":4}`},
		{nats.Header{"Nats-Expected-Last-Sequence": {"3"}}, `"err_code":10071`},
		{nats.Header{"Nats-Expected-Stream": {"OTHER"}}, `"err_code":10060`},
		{nats.Header{"Nats-Batch-Id": {"mine"}, "Nats-Batch-Sequence": {"1"}}, `"err_code":10174`},
	} {
		stored := strings.HasPrefix(f.answer, `"seq"`) && !strings.Contains(f.answer, "duplicate")
		m := &nats.Msg{Subject: "HEADERS.x", Header: f.header, Data: fmt.Append(nil, "message ", i)}
		got, err := nc.RequestMsg(m, 10*time.Second)
		if err != nil || !strings.Contains(string(got.Data), f.answer) {
			t.Fatalf("message %d: got %v, error %v, want %s", i, got, err, f.answer)
		}
		h := must[*nats.Msg](t)(heard.NextMsg(10 * time.Second))
		if diff := cmp.Diff(f.header, h.Header); diff != "" || string(h.Data) != string(m.Data) || h.Subject != m.Subject || h.Reply == "" {
			t.Errorf("message %d: a subscriber got %v (-want +got):\n%s", i, h, diff)
		}
		if !stored {
			continue
		}
		raw := must[*jetstream.RawStreamMsg](t)(st.GetMsg(t.Context(), must[*jetstream.StreamInfo](t)(st.Info(t.Context())).State.LastSeq))
		if diff := cmp.Diff(f.header, raw.Header); diff != "" || string(raw.Data) != string(m.Data) || raw.Subject != m.Subject {
			t.Errorf("message %d is stored as %v (-want +got):\n%s", i, raw, diff)
		}
	}
	marks := 0
	for i := range 2 * probeEvery {
		m := &nats.Msg{Subject: "HEADERS.x", Header: nats.Header{"n": {fmt.Sprint(i)}}}
		got := must[*nats.Msg](t)(nc.RequestMsg(m, 10*time.Second))
		if want := fmt.Sprintf(`{"stream":"HEADERS","seq":%d}`, 5+i); string(got.Data) != want {
			t.Errorf("message %d: got %s, want %s", i, got.Data, want)
		}
		h := must[*nats.Msg](t)(heard.NextMsg(10 * time.Second))
		if strings.Count(h.Reply, ".") == strings.Count("_INBOX.session.lane.token", ".") {
			marks++
		}
		if diff := cmp.Diff(m.Header, h.Header); diff != "" {
			t.Errorf("message %d: a subscriber got %v (-want +got):\n%s", i, h, diff)
		}
	}
	if marks == 0 {
		t.Error("none of the messages was a mark")
	}
}

// Acknowledgements are led here since the stream had one copy.
func testAcknowledgementsArePassedOn(t *testing.T, c *cluster) {
	js := must[jetstream.JetStream](t)(jetstream.New(c.connect(0)))
	must[jetstream.Consumer](t)(js.CreateConsumer(t.Context(), "ACKS", jetstream.ConsumerConfig{Durable: "work", AckPolicy: jetstream.AckExplicitPolicy}))
	const each = 5
	for i := range 3 * each {
		must[*jetstream.PubAck](t)(js.Publish(t.Context(), "ACKS.x", fmt.Append(nil, i)))
	}
	for node := range c.nodes {
		js := must[jetstream.JetStream](t)(jetstream.New(c.connect(node)))
		work := must[jetstream.Consumer](t)(js.Consumer(t.Context(), "ACKS", "work"))
		for i := range each {
			m := must[jetstream.Msg](t)(work.Next(jetstream.FetchMaxWait(10 * time.Second)))
			if i%2 == 0 {
				if err := m.Ack(); err != nil {
					t.Error(err)
				}
			} else if err := m.DoubleAck(t.Context()); err != nil {
				t.Errorf("acknowledge by node %d: %v", node, err)
			}
		}
	}
	eventually(t, 10*time.Second, func() error {
		info, err := must[jetstream.Consumer](t)(js.Consumer(t.Context(), "ACKS", "work")).Info(t.Context())
		if err != nil {
			return err
		}
		left := must[jetstream.Stream](t)(js.Stream(t.Context(), "ACKS")).CachedInfo().State.Msgs
		if info.NumAckPending > 0 || left > 0 || info.AckFloor.Consumer != 3*each {
			return fmt.Errorf("%d acknowledgements are awaited, %d messages left, all up to %d acknowledged", info.NumAckPending, left, info.AckFloor.Consumer)
		}
		return nil
	})
}

func testLeadersStepDown(t *testing.T, c *cluster) {
	nc := c.connect(0)
	ld := c.publish(t, 24, "STEPS", moment)
	for range 3 {
		ld.more(3)
		c.stepDown(nc, "STEPS")
	}
	ld.more(3)
	ld.inOrder(ld.verify(c.nodes[0], "STEPS"))
	if got := ld.failures(nobody, never); len(got) > 0 {
		t.Errorf("publishers: got %v", got)
	}
}

// testLanesEnd has what waits go out: who was taken in is answered.
func testLanesEnd(t *testing.T, c *cluster, nodes []*Ingest, lanes []Lane) {
	all := Replicated(Mappings(labSecret, lanes))
	without := Replicated(Mappings(labSecret, append(copied("PLAIN"), lanes[5])))
	// What comes from another node while the interest ends reaches nobody, and nobody says so.
	leader := c.leader("ENDS")
	ld := publish(t, func(int) *nats.Conn { return c.connect(leader) }, 24, "ENDS", moment)
	for range 3 {
		ld.more(3)
		for _, with := range [][]Lane{without, nil, all} {
			for _, n := range nodes {
				if err := n.Set(t.Context(), "A", labSecret, with); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	ld.more(3)
	ld.inOrder(ld.verify(c.nodes[0], "ENDS"))
	// Nobody responds while the way in leads nowhere; package appliance takes it away first.
	if got := ld.failures(nobody); len(got) > 0 && c.leader("ENDS") == leader {
		t.Errorf("publishers: got %v", got)
	}
}

func testTheLeaderIsGone(t *testing.T, c *cluster) {
	ld := c.publish(t, 24, "GONE", moment)
	ld.more(3)
	leader := c.leader("GONE")
	c.nodes[leader].server.Shutdown()
	c.nodes[leader].server.WaitForShutdown()
	ld.more(3)
	other := c.nodes[(leader+1)%3]
	ld.inOrder(ld.verify(other, "GONE"))
	if got := ld.failures(nobody, never, nats.ErrConnectionReconnecting.Error()); len(got) > 0 {
		t.Errorf("publishers: got %v", got)
	}
}
