// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// ackMessages is how many messages a work queue has at the beginning.
const ackMessages = 40

// ackBehaviour is what a worker does with a work queue.
type ackBehaviour struct {
	name      string
	config    string // of the stream
	consumers string // worker, when it says nothing
	work      func(w *worker)
}

// worker works on one queue of one side, and notes what it sees.
type worker struct {
	t      *testing.T
	side   *side
	stream string
	js     jetstream.JetStream
	mu     sync.Mutex
	notes  []string
}

func (w *worker) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.notes = append(w.notes, fmt.Sprintf(format, args...))
}

func (w *worker) consumer(name string) jetstream.Consumer {
	c, err := w.js.Consumer(w.t.Context(), w.stream, name)
	if err != nil {
		w.t.Errorf("%s: %v", w.side.name, err)
	}
	return c
}

// fetch returns n messages; those that do not come are noted.
func (w *worker) fetch(name string, n int) []jetstream.Msg {
	batch, err := w.consumer(name).Fetch(n, jetstream.FetchMaxWait(3*time.Second))
	if err != nil {
		w.t.Errorf("%s: %v", w.side.name, err)
		return nil
	}
	var out []jetstream.Msg
	for m := range batch.Messages() {
		out = append(out, m)
	}
	if len(out) != n {
		w.note("fetched %d of %d", len(out), n)
	}
	return out
}

// seen notes what was delivered.
func (w *worker) seen(all []jetstream.Msg) []jetstream.Msg {
	for _, m := range all {
		if meta, err := m.Metadata(); err == nil {
			w.note("%s %d, delivery %d", m.Data(), meta.Sequence.Stream, meta.NumDelivered)
		}
	}
	return all
}

func (w *worker) each(all []jetstream.Msg, f func(jetstream.Msg) error) {
	for _, m := range all {
		if err := f(m); err != nil {
			w.note("%s: %v", m.Data(), err)
		}
	}
}

func (w *worker) double(m jetstream.Msg) error { return m.DoubleAck(w.t.Context()) }

// nak waits until it is carried out: a fetch that comes after one that was only sent may be
// served before it.
func (w *worker) nak(m jetstream.Msg) error {
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	_, err := w.js.Conn().RequestWithContext(ctx, m.Reply(), []byte("-NAK"))
	return err
}

// drain acknowledges until nothing comes any more.
func (w *worker) drain(name string) {
	for {
		batch, err := w.consumer(name).FetchNoWait(100)
		if err != nil {
			w.t.Errorf("%s: %v", w.side.name, err)
			return
		}
		n := 0
		for m := range batch.Messages() {
			n++
			w.each([]jetstream.Msg{m}, jetstream.Msg.Ack)
		}
		if n == 0 {
			return
		}
	}
}

// state is what stream info and consumer info settle to.
func (w *worker) state() (string, error) {
	var info struct {
		State jetstream.StreamState `json:"state"`
	}
	if err := call(w.js.Conn(), "STREAM.INFO."+w.stream, nil, &info); err != nil {
		return "", err
	}
	out := fmt.Sprintf("messages %d, first %d, last %d, deleted %d", info.State.Msgs, info.State.FirstSeq, info.State.LastSeq, info.State.NumDeleted)
	var list struct {
		Consumers []jetstream.ConsumerInfo `json:"consumers"`
	}
	if err := call(w.js.Conn(), "CONSUMER.LIST."+w.stream, nil, &list); err != nil {
		return "", err
	}
	for _, c := range list.Consumers {
		out += fmt.Sprintf("; %s: pending %d, unacknowledged %d, redelivered %d, delivered %d/%d, floor %d/%d", c.Name, c.NumPending, c.NumAckPending, c.NumRedelivered,
			c.Delivered.Consumer, c.Delivered.Stream, c.AckFloor.Consumer, c.AckFloor.Stream)
	}
	return out, nil
}

func ackBehaviours() []ackBehaviour {
	const worker1 = "worker: {}"
	do := func(f func(jetstream.Msg) error) func(w *worker) {
		return func(w *worker) { w.each(w.seen(w.fetch("worker", 10)), f) }
	}
	raw := func(body string) func(w *worker) {
		return func(w *worker) {
			for _, m := range w.fetch("worker", 5) {
				if err := w.js.Conn().Publish(m.Reply(), []byte(body)); err != nil {
					w.note("%v", err)
				}
			}
		}
	}
	return []ackBehaviour{
		{name: "Ack of all", work: func(w *worker) { w.each(w.fetch("worker", ackMessages), jetstream.Msg.Ack) }},
		{name: "Ack of some", work: do(jetstream.Msg.Ack)},
		{name: "DoubleAck", work: func(w *worker) { w.each(w.fetch("worker", 10), w.double) }},
		{name: "DoubleAck is done when it is answered", work: func(w *worker) {
			w.each(w.fetch("worker", 5), w.double)
			s, err := w.state()
			w.note("%s", s)
			if err != nil {
				w.t.Error(err)
			}
		}},
		{name: "Ack twice", work: func(w *worker) {
			all := w.fetch("worker", 5)
			for range 2 {
				for _, m := range all {
					_ = w.js.Conn().Publish(m.Reply(), []byte("+ACK"))
				}
			}
		}},
		{name: "empty ack", work: raw("")},
		{name: "+OK", work: raw("+OK")},
		{name: "nonsense for an ack", work: raw("+NONSENSE")},
		{name: "ack in the wrong order", work: func(w *worker) {
			all := w.fetch("worker", 20)
			for i := range all {
				w.each(all[len(all)-1-i:len(all)-i], jetstream.Msg.Ack)
			}
		}},
		{name: "ack of every other message", work: func(w *worker) {
			for i, m := range w.fetch("worker", 20) {
				if i%2 == 1 {
					w.each([]jetstream.Msg{m}, jetstream.Msg.Ack)
				}
			}
		}},
		{name: "Nak", work: func(w *worker) {
			w.each(w.seen(w.fetch("worker", 3)), w.nak)
			w.each(w.seen(w.fetch("worker", 3)), jetstream.Msg.Ack)
		}},
		{name: "Nak with a delay", work: func(w *worker) {
			w.each(w.fetch("worker", 2), func(m jetstream.Msg) error { return m.NakWithDelay(300 * time.Millisecond) })
			w.each(w.seen(w.fetch("worker", ackMessages)), jetstream.Msg.Ack)
		}},
		{name: "Term", work: do(jetstream.Msg.Term)},
		{name: "Term with a reason", work: do(func(m jetstream.Msg) error { return m.TermWithReason("no good") })},
		{name: "InProgress holds a message", consumers: "worker: {ack_wait: 600ms}", work: func(w *worker) {
			held := w.seen(w.fetch("worker", 1))
			for range 5 {
				w.each(held, jetstream.Msg.InProgress)
				<-time.After(250 * time.Millisecond)
			}
			w.each(held, w.double)
		}},
		{name: "ack and the next one", work: func(w *worker) {
			all := w.fetch("worker", 1)
			inbox := nats.NewInbox()
			sub, err := w.js.Conn().SubscribeSync(inbox)
			if err != nil || len(all) == 0 {
				w.note("%v", err)
				return
			}
			_ = w.js.Conn().PublishRequest(all[0].Reply(), inbox, []byte("+NXT"))
			m, err := sub.NextMsg(3 * time.Second)
			if err != nil {
				w.note("%v", err)
				return
			}
			w.note("next %s", m.Data)
			_ = m.Ack()
		}},
		{name: "ack after ack_wait", consumers: "worker: {ack_wait: 300ms}", work: func(w *worker) {
			late := w.fetch("worker", 1)
			again := w.seen(w.fetch("worker", ackMessages))
			w.each(late, jetstream.Msg.Ack)
			w.each(again, jetstream.Msg.Ack)
		}},
		{name: "ack of a redelivered message", consumers: "worker: {ack_wait: 300ms, max_ack_pending: 3}", work: func(w *worker) {
			w.fetch("worker", 3)
			w.each(w.seen(w.fetch("worker", 3)), jetstream.Msg.Ack)
		}},
		{name: "max_deliver", consumers: "worker: {max_deliver: 2}", work: func(w *worker) {
			w.each(w.fetch("worker", 2), w.nak)
			w.each(w.seen(w.fetch("worker", 2)), w.nak)
			w.drain("worker")
		}},
		{name: "two consumers of other subjects", consumers: "even: {filter_subject: '{s}.0'}, odd: {filter_subject: '{s}.1'}", work: func(w *worker) {
			w.each(w.fetch("even", 15), jetstream.Msg.Ack)
			w.each(w.fetch("odd", 5), jetstream.Msg.Ack)
		}},
		{name: "a consumer of some subjects", consumers: "even: {filter_subject: '{s}.0'}", work: func(w *worker) { w.each(w.fetch("even", 15), jetstream.Msg.Ack) }},
		{name: "max_ack_pending of two", consumers: "worker: {max_ack_pending: 2}", work: func(w *worker) {
			for range ackMessages / 2 {
				w.each(w.seen(w.fetch("worker", 2)), jetstream.Msg.Ack)
			}
		}},
		{name: "max_ack_pending of one", consumers: "worker: {max_ack_pending: 1}", work: func(w *worker) {
			for range ackMessages {
				w.each(w.seen(w.fetch("worker", 1)), jetstream.Msg.Ack)
			}
		}},
		{name: "a message that is held while others go on", work: func(w *worker) {
			held := w.fetch("worker", 1)
			w.each(w.fetch("worker", ackMessages-1), jetstream.Msg.Ack)
			w.note("held")
			w.settled()
			w.each(held, jetstream.Msg.Ack)
		}},
		{name: "a consumer that is made again", work: func(w *worker) {
			held := w.fetch("worker", 5)
			if err := w.js.DeleteConsumer(w.t.Context(), w.stream, "worker"); err != nil {
				w.note("%v", err)
			}
			if _, err := w.js.CreateConsumer(w.t.Context(), w.stream, jetstream.ConsumerConfig{Durable: "worker", AckPolicy: jetstream.AckExplicitPolicy}); err != nil {
				w.note("%v", err)
			}
			w.each(held, jetstream.Msg.Ack) // of a consumer of the past: sequences mean others now
			w.each(w.seen(w.fetch("worker", 10)), w.double)
		}},
		{name: "a purge in between", work: func(w *worker) {
			held := w.fetch("worker", 5)
			if err := call(w.js.Conn(), "STREAM.PURGE."+w.stream, nil, &struct{}{}); err != nil {
				w.note("%v", err)
			}
			w.each(held, jetstream.Msg.Ack)
			if _, err := w.js.Publish(w.t.Context(), w.side.subject(w.stream, 0), []byte("after")); err != nil {
				w.note("%v", err)
			}
			w.each(w.seen(w.fetch("worker", 1)), jetstream.Msg.Ack)
		}},
		{name: "ack_policy all", config: "retention: limits", consumers: "worker: {ack_policy: all}", work: func(w *worker) {
			all := w.fetch("worker", 10)
			w.each(all[max(len(all)-1, 0):], jetstream.Msg.Ack)
		}},
		{name: "ack_policy none", config: "retention: limits", consumers: "worker: {ack_policy: none}", work: func(w *worker) { w.seen(w.fetch("worker", 10)) }},
		{name: "four workers at once", work: func(w *worker) {
			var all sync.WaitGroup
			for range 4 {
				all.Go(func() { w.each(w.fetch("worker", ackMessages/4), jetstream.Msg.Ack) })
			}
			all.Wait()
		}},
		{name: "interest and two consumers", config: "retention: interest", consumers: "one: {}, two: {}", work: func(w *worker) {
			w.each(w.fetch("one", 20), jetstream.Msg.Ack)
			w.each(w.fetch("two", 10), jetstream.Msg.Ack)
		}},
		{name: "limits keep what is acknowledged", config: "retention: limits", consumers: worker1, work: do(jetstream.Msg.Ack)},
		{name: "a queue that is full has room after acks", config: "max_msgs: 40, discard: new, retention: workqueue", work: func(w *worker) {
			w.each(w.fetch("worker", 10), jetstream.Msg.Ack)
			room := 0
			if err := waitFor(patience, func() error {
				for room < 10 {
					if _, err := w.js.Publish(w.t.Context(), w.side.subject(w.stream, 0), []byte("more")); err != nil {
						return err
					}
					room++
				}
				return nil
			}); err != nil {
				w.note("got room for %d: %v", room, err)
			}
			if _, err := w.js.Publish(w.t.Context(), w.side.subject(w.stream, 0), []byte("too many")); err == nil {
				w.note("got room for one more")
			}
		}},
	}
}

func (s *side) subject(stream string, i int) string {
	return fmt.Sprintf("%s.%d", strings.ToLower(stream), i%2)
}

// settled notes what both infos say when they have said it for a while.
func (w *worker) settled() {
	last, since := "", time.Now()
	err := waitFor(5*time.Second, func() error {
		s, err := w.state()
		if err != nil {
			return err
		}
		if s != last {
			last, since = s, time.Now()
		}
		if time.Since(since) < 250*time.Millisecond {
			return errStill
		}
		return nil
	})
	if err != nil {
		w.t.Errorf("%s: %v", w.side.name, err)
	}
	w.note("%s", last)
}

func TestTransparencyOfAcks(t *testing.T) {
	rows := ackBehaviours()
	text := "    users: {admin: {inbox: shared}}\n    streams:\n"
	for i, b := range rows {
		name := fmt.Sprintf("Q%02d", i)
		config, consumers := "retention: workqueue", "worker: {}"
		if b.config != "" {
			config = b.config
		}
		if b.consumers != "" {
			consumers = b.consumers
		}
		text += fmt.Sprintf("      %s: {group_commit: GROUP, subjects: ['{s}.>'], max_bytes: 8MiB, %s, consumers: {%s}}\n", name, config, consumers)
		text = strings.ReplaceAll(text, "{s}", strings.ToLower(name))
	}
	off, on := twoSides(t, text)
	for i, b := range rows {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			var workers [2]*worker
			var both sync.WaitGroup
			for n, s := range []*side{off, on} {
				both.Go(func() { workers[n] = s.works(t, fmt.Sprintf("Q%02d", i), b) })
			}
			both.Wait()
			if workers[0] == nil || workers[1] == nil {
				return
			}
			// Both settle, but not at the same pace.
			workers[0].settled()
			var diff string
			_ = waitFor(5*time.Second, func() error {
				state, err := workers[1].state()
				if diff = cmp.Diff(workers[0].notes, append(slices.Clone(workers[1].notes), state)); diff != "" {
					return errStill
				}
				return err
			})
			if diff != "" {
				t.Errorf("off (-) and on (+) differ:\n%s", diff)
			}
		})
	}
}

// works fills a queue and lets a worker loose on it.
func (s *side) works(t *testing.T, stream string, b ackBehaviour) *worker {
	nc, _ := s.connect(t, "admin")
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(patience))
	if err != nil {
		t.Error(err)
		return nil
	}
	for n := range ackMessages {
		if _, err := js.PublishAsync(s.subject(stream, n), fmt.Appendf(nil, "message %d", n)); err != nil {
			t.Error(err)
		}
	}
	select {
	case <-js.PublishAsyncComplete():
	case <-time.After(patience):
		t.Errorf("%s: got no answers to publishes, want %d", s.name, ackMessages)
	}
	w := &worker{t: t, side: s, stream: stream, js: js}
	b.work(w)
	if err := nc.Flush(); err != nil {
		t.Error(err)
	}
	return w
}

// TestTransparencyOfAQueueUnderWay publishes and works at the same time: each message
// is worked on, and the queue is empty in the end.
func TestTransparencyOfAQueueUnderWay(t *testing.T) {
	_, on := twoSides(t, "    users: {admin: {inbox: shared}}\n    streams:\n      JOBS: {group_commit: GROUP, subjects: ['jobs.>'], max_bytes: 64MiB, retention: workqueue, consumers: {work: {max_ack_pending: 50}}}\n")
	const publishers, each = 16, 60
	done := make(chan string, publishers*each)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var workers sync.WaitGroup
	for range 8 {
		nc, _ := on.connect(t, "admin")
		js, err := jetstream.New(nc)
		if err != nil {
			t.Fatal(err)
		}
		c, err := js.Consumer(ctx, "JOBS", "work")
		if err != nil {
			t.Fatal(err)
		}
		messages, err := c.Messages(jetstream.PullMaxMessages(4))
		if err != nil {
			t.Fatal(err)
		}
		context.AfterFunc(ctx, messages.Stop)
		workers.Go(func() {
			for {
				m, err := messages.Next()
				if err != nil {
					return
				}
				done <- string(m.Data())
				if err := m.Ack(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	nc, _ := on.connect(t, "admin")
	for i := range publishers {
		go func() {
			for n := range each {
				m, err := nc.Request(fmt.Sprintf("jobs.%d", i), fmt.Appendf(nil, "%d/%d", i, n), patience)
				if err != nil {
					t.Error(err)
					return
				}
				if a, err := readAnswer(m); err != nil || a.kind() != "ok" {
					t.Errorf("got %s, %v, want an ack", m.Data, err)
				}
			}
		}()
	}
	seen := map[string]bool{}
	deadline := time.After(patience)
	for len(seen) < publishers*each {
		select {
		case d := <-done:
			if seen[d] {
				t.Errorf("got %s twice, want it once", d)
			}
			seen[d] = true
		case <-deadline:
			t.Fatalf("got %d messages, want %d: the queue stands still", len(seen), publishers*each)
		}
	}
	eventually(t, func() error {
		_, state, err := stored(nc, "JOBS")
		if err == nil && state.Msgs != 0 {
			err = fmt.Errorf("got %d messages left, want none", state.Msgs)
		}
		return err
	})
	stop()
	workers.Wait()
}
