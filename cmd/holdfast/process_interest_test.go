// SPDX-License-Identifier: Apache-2.0

//go:build process && linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/holdfast-mq/holdfast/appliance/porttest"
)

// interest is a stream whose messages stay until three consumers have had them. One of
// these reads nothing before the end, so that every message has to be there until then.
const interest = listening + `accounts:
  shop:
    streams:
      EVENTS:
        subjects: ["events.>"]
        retention: interest
        max_bytes: 64MiB
        duplicate_window: 30m
        num_replicas: REPLICAS
        consumers:
          ash: {ack_wait: 2s, max_ack_pending: 2000}
          elm: {ack_wait: 2s, max_ack_pending: 2000}
          slow: {ack_wait: 10m, max_ack_pending: 1000000}
`

// wood is a cluster with such a stream, and clients that never rest.
type wood struct {
	t     *testing.T
	nodes []*node
	js    jetstream.JetStream
	stop  context.CancelFunc
	busy  sync.WaitGroup

	mu    sync.Mutex
	acked map[uint64]string // by sequence
	done  atomic.Int64      // what the two quick consumers acknowledged
}

func newWood(t *testing.T, replicas string) *wood {
	t.Helper()
	w := &wood{t: t, nodes: newCluster(t, strings.Replace(interest, "REPLICAS", replicas, 1)), acked: map[uint64]string{}}
	var urls []string
	for _, n := range w.nodes {
		text, err := os.ReadFile(n.file())
		if err != nil {
			t.Fatal(err)
		}
		client := fmt.Sprintf("127.0.0.1:%d", porttest.Free(t, 1))
		n.configure(strings.Replace(string(text), `client: "127.0.0.1:0"`, `client: "`+client+`"`, 1))
		urls = append(urls, "nats://"+client)
		n.launch()
	}
	waitAllReady(t, w.nodes...)
	w.js = w.connect(strings.Join(urls, ","))
	return w
}

func (w *wood) connect(url string) jetstream.JetStream {
	w.t.Helper()
	nc, err := nats.Connect(url, nats.UserCredentials(w.nodes[0].credsFile("admin")), nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond), nats.RetryOnFailedConnect(true))
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(nc.Close)
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(2*time.Second))
	if err != nil {
		w.t.Fatal(err)
	}
	return js
}

// work publishes, and acknowledges what two of the consumers get, until rest.
func (w *wood) work() {
	ctx, stop := context.WithCancel(w.t.Context())
	w.stop = stop
	for i := range 4 {
		w.busy.Go(func() { w.publish(ctx, i) })
	}
	for _, name := range []string{"ash", "elm"} {
		w.busy.Go(func() { w.acknowledge(ctx, name) })
	}
}

func (w *wood) rest() {
	w.stop()
	w.busy.Wait()
}

func (w *wood) publish(ctx context.Context, publisher int) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for i := 0; ctx.Err() == nil; i++ {
		<-tick.C
		text := fmt.Sprintf("%d-%d", publisher, i)
		for ctx.Err() == nil {
			ack, err := w.js.Publish(ctx, "events.a", []byte(text), jetstream.WithMsgID(text))
			if err != nil {
				continue
			}
			w.mu.Lock()
			w.acked[ack.Sequence] = text
			w.mu.Unlock()
			break
		}
	}
}

func (w *wood) acknowledge(ctx context.Context, consumer string) {
	for ctx.Err() == nil {
		c, err := w.js.Consumer(ctx, "EVENTS", consumer)
		if err != nil {
			continue
		}
		b, err := c.Fetch(50, jetstream.FetchMaxWait(300*time.Millisecond))
		if err != nil {
			continue
		}
		for m := range b.Messages() {
			if m.Ack() == nil { // one that is lost is delivered again
				w.done.Add(1)
			}
		}
	}
}

func (w *wood) counted() (acked int, done int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.acked), w.done.Load()
}

// goesOn waits until clients have got on by some messages.
func (w *wood) goesOn() {
	w.t.Helper()
	acked, done := w.counted()
	eventually(w.t, 2*patience, func() error {
		if a, d := w.counted(); a < acked+100 || d < done+100 {
			return fmt.Errorf("got %d published and %d acknowledged, want the clients to get on", a-acked, d-done)
		}
		return nil
	})
}

// copyState is a node's own copy of the stream.
type copyState struct {
	Messages uint64 `json:"messages"`
	Last     uint64 `json:"last_seq"`
}

func (n *node) copyOf(stream string) (copyState, error) {
	status, body := n.get("/jsz?accounts=true&streams=true")
	var jsz struct {
		Accounts []struct {
			Streams []struct {
				Name  string    `json:"name"`
				State copyState `json:"state"`
			} `json:"stream_detail"`
		} `json:"account_details"`
	}
	if err := json.Unmarshal([]byte(body), &jsz); err != nil {
		return copyState{}, fmt.Errorf("got status %d: %w", status, err)
	}
	for _, a := range jsz.Accounts {
		for _, s := range a.Streams {
			if s.Name == stream {
				return s.State, nil
			}
		}
	}
	return copyState{}, errors.New("no copy")
}

// missing is how many messages the copies lack: while the slow consumer has had nothing
// each has to have all, from the first.
func (w *wood) missing() (missing uint64) {
	w.t.Helper()
	for _, n := range w.nodes {
		s, err := n.copyOf("EVENTS")
		if err != nil {
			w.t.Fatal(err)
		}
		missing += s.Last - s.Messages
	}
	return missing
}

// deliver gives the slow consumer what it has not had, and returns how many of the
// acknowledged messages it does not get.
func (w *wood) deliver() (acked, lost int) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	got := map[uint64]bool{}
	eventually(w.t, 4*patience, func() error {
		c, err := w.js.Consumer(w.t.Context(), "EVENTS", "slow")
		if err != nil {
			return err
		}
		b, err := c.Fetch(500, jetstream.FetchMaxWait(time.Second))
		if err != nil {
			return err
		}
		for m := range b.Messages() {
			meta, err := m.Metadata()
			if err != nil {
				return err
			}
			got[meta.Sequence.Stream] = true
			if err := m.Ack(); err != nil {
				return err
			}
		}
		info, err := c.Info(w.t.Context())
		if err != nil {
			return err
		}
		if info.NumPending > 0 {
			return fmt.Errorf("got %d left, want none", info.NumPending)
		}
		return nil
	})
	for seq := range w.acked {
		if !got[seq] {
			lost++
		}
	}
	return len(w.acked), lost
}

// restart is a way in which nodes go and come back.
type restart struct {
	name string
	do   func(w *wood, i int)
}

var restarts = []restart{
	{"stopped", func(w *wood, i int) {
		w.nodes[i].stop()
		w.nodes[i].launch()
	}},
	{"killed", func(w *wood, i int) {
		w.nodes[i].kill9()
		w.nodes[i].launch()
	}},
	{"all killed", func(w *wood, _ int) {
		for _, n := range w.nodes {
			n.kill9()
		}
		for _, n := range w.nodes {
			n.launch()
		}
	}},
	{"all stopped", func(w *wood, _ int) {
		for _, n := range w.nodes {
			n.signal(syscall.SIGTERM)
		}
		for _, n := range w.nodes {
			n.wait()
		}
		for _, n := range w.nodes {
			n.launch()
		}
	}},
	{"wiped", func(w *wood, i int) {
		w.nodes[i].kill9()
		if err := os.RemoveAll(w.nodes[i].data); err != nil {
			w.t.Fatal(err)
		}
		w.nodes[i].launch()
	}},
	{"leaders step down", stepDown},
}

func stepDown(w *wood, _ int) {
	for _, what := range []string{"STREAM.LEADER.STEPDOWN.EVENTS", "CONSUMER.LEADER.STEPDOWN.EVENTS.ash", "CONSUMER.LEADER.STEPDOWN.EVENTS.elm", "CONSUMER.LEADER.STEPDOWN.EVENTS.slow"} {
		if _, err := w.js.Conn().Request("$JS.API."+what, nil, patience); err != nil {
			w.t.Errorf("%s: %v", what, err)
		}
	}
}

// TestProcessInterestStreamLosesNothingToRestarts lets nodes go and come back while two
// of three consumers acknowledge what the third one has not had.
func TestProcessInterestStreamLosesNothingToRestarts(t *testing.T) {
	t.Parallel()
	w := newWood(t, "auto")
	w.work()
	for i, r := range restarts {
		w.goesOn()
		r.do(w, i%len(w.nodes))
		waitAllReady(t, w.nodes...)
		acked, done := w.counted()
		t.Logf("%s: %d published, %d acknowledged, %d missing", r.name, acked, done, w.missing())
	}
	w.goesOn()
	w.rest()
	missing := w.missing()
	acked, lost := w.deliver()
	t.Logf("%d acknowledged, %d lost, %d missing in copies", acked, lost, missing)
	if lost > 0 || missing > 0 {
		t.Errorf("got %d of %d messages lost, and %d missing in copies, want none", lost, acked, missing)
	}
}

// copies waits until the stream and all of its consumers have a number of copies.
func (w *wood) copies(n int) {
	w.t.Helper()
	ctx := w.t.Context()
	eventually(w.t, 4*patience, func() error {
		s, err := w.js.Stream(ctx, "EVENTS")
		if err != nil {
			return err
		}
		infos := []*jetstream.ClusterInfo{s.CachedInfo().Cluster}
		for _, name := range []string{"ash", "elm", "slow"} {
			c, err := s.Consumer(ctx, name)
			if err != nil {
				return err
			}
			infos = append(infos, c.CachedInfo().Cluster)
		}
		if config := s.CachedInfo().Config; config.Retention != jetstream.InterestPolicy || config.Metadata["holdfast.widened"] != "" {
			return fmt.Errorf("got %+v, want it to be as declared", config)
		}
		for _, info := range infos {
			current := 1
			for _, r := range info.Replicas {
				if r.Current {
					current++
				}
			}
			if info.Leader == "" || current != n || len(info.Replicas) != n-1 {
				return fmt.Errorf("got %+v, want %d copies", info, n)
			}
		}
		return nil
	})
}

// raise has the stream have a number of copies, by the file on all nodes, and kills one of
// them on the way.
func (w *wood) raise(from, to string, kill *node) {
	w.t.Helper()
	for _, n := range w.nodes {
		n.edit("num_replicas: "+from, "num_replicas: "+to)
	}
	var applying sync.WaitGroup
	applying.Go(func() {
		code, out := w.nodes[0].holdfast("apply", "--config", "holdfast.yaml", "--yes", "--rollback")
		w.t.Logf("apply: exit code %d\n%s", code, out)
	})
	if kill != nil {
		eventually(w.t, 2*patience, func() error {
			s, err := w.js.Stream(w.t.Context(), "EVENTS")
			if err == nil && s.CachedInfo().Config.Metadata["holdfast.widened"] == "" {
				err = errors.New("the copies are not begun")
			}
			return err
		})
		kill.kill9()
		kill.launch()
	}
	applying.Wait()
}

// TestProcessInterestStreamIsGivenCopiesWhileItIsUsed gives the stream three copies, and
// one again, while two of three consumers acknowledge what the third one has not had.
func TestProcessInterestStreamIsGivenCopiesWhileItIsUsed(t *testing.T) {
	t.Parallel()
	w := newWood(t, "1")
	w.work()
	for i, kill := range []*node{nil, w.nodes[1], w.nodes[2]} {
		if i > 0 {
			w.raise("auto", "1", nil)
			w.copies(1)
		}
		w.goesOn()
		w.raise("1", "auto", kill)
		w.copies(3)
		w.goesOn()
		acked, done := w.counted()
		t.Logf("round %d: %d published, %d acknowledged, %d missing in copies", i, acked, done, w.missing())
	}
	w.rest()
	missing := w.missing()
	stepDown(w, 0)
	w.copies(3)
	acked, lost := w.deliver()
	t.Logf("%d acknowledged, %d lost, %d missing in copies", acked, lost, missing)
	if lost > 0 || missing > 0 {
		t.Errorf("got %d of %d messages lost, and %d missing in copies, want none", lost, acked, missing)
	}
}
