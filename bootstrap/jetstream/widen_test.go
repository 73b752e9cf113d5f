// SPDX-License-Identifier: Apache-2.0

package jetstream_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/holdfast-mq/holdfast/bootstrap"
	"github.com/holdfast-mq/holdfast/bootstrap/jetstream"
)

// events is a stream with retention interest. Of its consumers one reads nothing before
// the end, so that every message has to be there until then.
func events(t *testing.T, replicas int) bootstrap.Topology {
	t.Helper()
	return shop(stream(t, "EVENTS", fmt.Sprintf(`{"subjects":["events.>"],"retention":"interest","max_msgs":1000000,"max_msgs_per_subject":1000000,"discard":"old","num_replicas":%d}`, replicas),
		consumer(t, "quick", `{"ack_policy":"explicit","ack_wait":1000000000,"max_ack_pending":1000}`),
		consumer(t, "slow", `{"ack_policy":"explicit","ack_wait":600000000000,"max_ack_pending":1000000}`)))
}

// flow publishes to the stream, and acknowledges what the quick consumer gets.
type flow struct {
	js    nats.JetStreamContext
	stop  context.CancelFunc
	busy  sync.WaitGroup
	mu    sync.Mutex
	acked map[uint64]bool
	done  atomic.Int64
}

func startFlow(t *testing.T, s *server.Server) *flow {
	t.Helper()
	nc, err := nats.Connect("", nats.InProcessServer(s))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	f := &flow{acked: map[uint64]bool{}}
	if f.js, err = nc.JetStream(nats.MaxWait(2 * time.Second)); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	f.stop = stop
	for i := range 2 {
		f.busy.Go(func() {
			tick := time.NewTicker(2 * time.Millisecond)
			defer tick.Stop()
			for n := 0; ctx.Err() == nil; n++ {
				<-tick.C
				f.publish(ctx, fmt.Sprint(i, "-", n))
			}
		})
	}
	f.busy.Go(func() {
		for ctx.Err() == nil {
			f.work(ctx)
		}
	})
	t.Cleanup(f.rest)
	return f
}

func (f *flow) publish(ctx context.Context, id string) {
	for ctx.Err() == nil {
		ack, err := f.js.Publish("events."+id[:1], []byte(id), nats.MsgId(id))
		if err != nil {
			continue
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		f.acked[ack.Sequence] = true
		return
	}
}

func (f *flow) work(ctx context.Context) {
	sub, err := f.js.PullSubscribe("", "quick", nats.Bind("EVENTS", "quick"))
	if err != nil {
		return
	}
	defer func() { _ = sub.Unsubscribe() }()
	for ctx.Err() == nil {
		msgs, err := sub.Fetch(50, nats.MaxWait(200*time.Millisecond))
		if err != nil {
			continue
		}
		for _, m := range msgs {
			if m.Ack() == nil { // one that is lost is delivered again
				f.done.Add(1)
			}
		}
	}
}

func (f *flow) rest() {
	f.stop()
	f.busy.Wait()
}

func (f *flow) counted() (int, int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.acked), f.done.Load()
}

// goesOn waits until publisher and worker have got on.
func (f *flow) goesOn(t *testing.T) {
	t.Helper()
	acked, done := f.counted()
	eventually(t, func() error {
		if a, d := f.counted(); a < acked+50 || d < done+50 {
			return fmt.Errorf("got %d published and %d acknowledged, want them to get on", a-acked, d-done)
		}
		return nil
	})
}

// lost gives the slow consumer everything, and returns how many of the messages that were
// acknowledged to the publisher it does not get.
func (f *flow) lost(t *testing.T) int {
	t.Helper()
	sub, err := f.js.PullSubscribe("", "slow", nats.Bind("EVENTS", "slow"))
	if err != nil {
		t.Fatal(err)
	}
	left := maps.Clone(f.acked)
	eventually(t, func() error {
		msgs, err := sub.Fetch(1000, nats.MaxWait(500*time.Millisecond))
		if err != nil {
			return err
		}
		for _, m := range msgs {
			meta, err := m.Metadata()
			if err != nil {
				return err
			}
			delete(left, meta.Sequence.Stream)
		}
		info, err := sub.ConsumerInfo()
		if err == nil && info.NumPending > 0 {
			err = fmt.Errorf("got %d left, want none", info.NumPending)
		}
		return err
	})
	return len(left)
}

// missing is how many messages the copies of a stream lack of which nothing was to be
// removed.
func missing(t *testing.T, servers []*server.Server) (copies int, missing uint64) {
	t.Helper()
	copies, _, missing = copiesOf(t, servers, 0)
	return copies, missing
}

// copiesOf counts the copies, how many have not come to a sequence, and what they lack.
func copiesOf(t *testing.T, servers []*server.Server, last uint64) (copies, behind int, missing uint64) {
	t.Helper()
	for _, s := range servers {
		js, err := s.Jsz(&server.JSzOptions{Accounts: true, Streams: true})
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range js.AccountDetails {
			for _, st := range a.Streams {
				if st.Name == "EVENTS" {
					copies++
					missing += st.State.LastSeq - st.State.Msgs
					if st.State.LastSeq+50 < last { // it moves on
						behind++
					}
				}
			}
		}
	}
	return copies, behind, missing
}

// TestInterestStreamIsGivenCopiesWhileItIsUsed adds copies, stopped after each request and
// gone on with, and takes them away again.
func TestInterestStreamIsGivenCopiesWhileItIsUsed(t *testing.T) {
	servers := startOpenCluster(t)
	c := openClient(t, servers[0])
	one, three := events(t, 1), events(t, 3)
	eventually(t, func() error {
		return c.Execute(t.Context(), bootstrap.Diff(one, observe(t, c, "shop"), nil), jetstream.Order{}).Err()
	})
	var config map[string]any
	eventually(t, func() error { // a group that has just begun may not answer yet
		if config = observe(t, c, "shop").Accounts["shop"].Streams["EVENTS"].Config; config == nil {
			return errors.New("the stream could not be read")
		}
		return nil
	})
	f := startFlow(t, servers[0])
	stops := 0
	for after := 1; ; after++ {
		f.goesOn(t)
		plan := bootstrap.Diff(three, observe(t, c, "shop"), nil)
		if plan.Count(bootstrap.Keep) == len(plan.Actions) {
			break
		}
		if after > 1 && !strings.Contains(plan.String(), "keeps what is acknowledged") {
			t.Errorf("got\n%swant it to say what goes on", plan)
		}
		ctx, cancel := context.WithCancel(t.Context())
		steps := 0
		report := c.Execute(ctx, plan, jetstream.Order{Step: func(string) {
			if steps++; steps == 1 {
				cancel() // as if the process ended here
			}
		}})
		if report.Err() != nil {
			stops++
		}
		cancel()
	}
	if stops < 3 {
		t.Errorf("got %d stops in between, want one after each request", stops)
	}
	eventually(t, func() error {
		copies, lacking := missing(t, servers)
		if copies != 3 || lacking > 0 {
			return fmt.Errorf("got %d copies without %d messages, want 3 with all", copies, lacking)
		}
		return nil
	})
	f.goesOn(t)
	want := maps.Clone(config)
	want["num_replicas"] = jsonNumber(3)
	if diff := cmp.Diff(want, observe(t, c, "shop").Accounts["shop"].Streams["EVENTS"].Config); diff != "" {
		t.Errorf("configuration at the end (-want +got):\n%s", diff)
	}
	f.rest()
	if _, lacking := missing(t, servers); lacking > 0 {
		t.Errorf("got %d messages missing in copies, want none", lacking)
	}
	acked, done := f.counted()
	if lost := f.lost(t); lost > 0 {
		t.Errorf("got %d of %d messages lost, want none", lost, acked)
	}
	t.Logf("%d stops, %d published, %d acknowledged", stops, acked, done)
}

func jsonNumber(n int) any { return json.Number(strconv.Itoa(n)) }

// TestCopiesThatAreRefusedLeaveTheStreamAsItWas asks a single node for three.
func TestCopiesThatAreRefusedLeaveTheStreamAsItWas(t *testing.T) {
	n := startNode(t, "shop")
	c := newClient(t, n)
	converge(t, c, events(t, 1))
	before := observe(t, c, "shop").Accounts["shop"].Streams["EVENTS"].Config
	report := c.Execute(t.Context(), bootstrap.Diff(events(t, 3), observe(t, c, "shop"), nil), jetstream.Order{})
	if err := report.Err(); err == nil || !strings.Contains(err.Error(), "replicas > 1 not supported") {
		t.Errorf("got %v, want a refusal", err)
	}
	if diff := cmp.Diff(before, observe(t, c, "shop").Accounts["shop"].Streams["EVENTS"].Config); diff != "" {
		t.Errorf("configuration after it (-before +after):\n%s", diff)
	}
}

// TestServerLosesMessagesOfAnInterestStreamThatItGivesCopies is why Holdfast does not
// simply raise the number.
func TestServerLosesMessagesOfAnInterestStreamThatItGivesCopies(t *testing.T) {
	servers := startOpenCluster(t)
	c := openClient(t, servers[0])
	eventually(t, func() error {
		return c.Execute(t.Context(), bootstrap.Diff(events(t, 1), observe(t, c, "shop"), nil), jetstream.Order{}).Err()
	})
	f := startFlow(t, servers[0])
	f.goesOn(t)
	eventually(t, func() error {
		info, err := f.js.StreamInfo("EVENTS")
		if err != nil {
			return err
		}
		info.Config.Replicas = 3
		_, err = f.js.UpdateStream(&info.Config)
		return err
	})
	eventually(t, func() error { // the copies wait 10 s for their consumers
		stored, _ := f.counted()
		copies, behind, lacking := copiesOf(t, servers, uint64(stored))
		if copies != 3 || behind > 0 {
			return fmt.Errorf("got %d copies, and %d behind", copies, behind)
		}
		if lacking == 0 {
			return errors.New("got every message in every copy; if the server sees to that by now, Holdfast need not")
		}
		return nil
	})
}
