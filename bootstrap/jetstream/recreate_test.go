// SPDX-License-Identifier: Apache-2.0

package jetstream_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"github.com/holdfast-mq/holdfast/bootstrap/jetstream"
)

// swap is a stream with consumers, and what is to become of it.
type swap struct {
	name      string
	stream    string
	consumers map[string]string
	set       string
	// gone are the messages that have no place in the new stream.
	gone []uint64
	// volatile is true when a restart of the server loses the stream or a consumer.
	volatile bool
	// everyStep has the process stopped in every step.
	everyStep bool
}

const (
	ordersA = `"filter_subject":"orders.a","ack_policy":"explicit"`
	ordersB = `"filter_subject":"orders.b","ack_policy":"explicit"`
)

func swaps() []swap {
	two := map[string]string{"wa": ordersA, "wb": ordersB}
	return []swap{
		{name: "file to memory", stream: `"storage":"file"`, consumers: two, set: `{"storage":"memory"}`},
		{name: "memory to file", stream: `"storage":"memory"`, consumers: two, set: `{"storage":"file"}`, volatile: true},
		{name: "limits to workqueue", stream: `"retention":"limits"`, consumers: two, set: `{"retention":"workqueue"}`,
			gone: []uint64{1, 2, 6}, everyStep: true},
		{name: "workqueue to limits", stream: `"retention":"workqueue"`, consumers: two, set: `{"retention":"limits"}`},
		{name: "interest to workqueue", stream: `"retention":"interest"`, consumers: two, set: `{"retention":"workqueue"}`},
		{name: "workqueue to interest", stream: `"retention":"workqueue"`, consumers: two, set: `{"retention":"interest"}`, everyStep: true},
		{name: "interest to memory", stream: `"retention":"interest"`, consumers: map[string]string{"wa": ordersA, "wb": ordersB, "all": `"ack_policy":"explicit"`},
			set: `{"storage":"memory"}`},
		{name: "persist mode", stream: `"storage":"file"`, consumers: map[string]string{
			"wa": ordersA, "wb": ordersB, "new": `"deliver_policy":"new","ack_policy":"explicit"`,
			"last": `"deliver_policy":"last_per_subject","filter_subject":"orders.*","ack_policy":"none"`,
			"all":  `"ack_policy":"all"`, "mem": `"ack_policy":"explicit","mem_storage":true`,
		}, set: `{"persist_mode":"async"}`, volatile: true},
	}
}

// next is what consumers are given after fill and one more message for orders.b;
// what was delivered before waits for its ack_wait.
func (s swap) next() map[string][]uint64 {
	next := map[string][]uint64{"wa": {10}, "wb": {7, 8, 11, 13}}
	if s.consumers["mem"] != "" {
		next["all"] = []uint64{6, 7, 8, 9, 10, 11, 13}
		next["last"] = []uint64{2, 3, 4, 6, 7, 8, 9, 10, 11, 13}
		next["new"] = []uint64{1, 2, 3, 4, 6, 7, 8, 9, 10, 11, 13}
		next["mem"] = []uint64{4, 6, 7, 8, 9, 10, 11, 13}
	} else if s.consumers["all"] != "" {
		next["all"] = []uint64{7, 8, 9, 10, 11, 13}
	}
	return next
}

// message is all there is to know about a stored message.
type message struct {
	Seq     uint64
	Subject string
	Time    time.Time
	Header  nats.Header
	Data    string
}

// fill makes the stream with 12 messages, of which two are deleted and some are
// delivered and acknowledged, in the middle too.
func (l *lab) fill(s swap) {
	l.t.Helper()
	call(l.t, l.nc, "STREAM.CREATE.ORDERS", `{"name":"ORDERS","subjects":["orders.*"],"duplicate_window":120000000000,"metadata":{"team":"a"},`+s.stream+`}`)
	for name, config := range s.consumers {
		call(l.t, l.nc, "CONSUMER.CREATE.ORDERS."+name, fmt.Sprintf(`{"stream_name":"ORDERS","config":{"name":%q,"durable_name":%q,"ack_wait":60000000000,%s}}`, name, name, config))
	}
	for i := range 12 {
		msg := nats.NewMsg([]string{"orders.a", "orders.b"}[i/2%2])
		msg.Data = fmt.Appendf(nil, "data %d", i+1)
		msg.Header.Set("Nats-Msg-Id", fmt.Sprintf("id-%d", i+1))
		msg.Header.Add("Kind", "x")
		if _, err := l.js.PublishMsg(msg); err != nil {
			l.t.Fatal(err)
		}
	}
	// wa: 1 2 5 6 9 10, wb: 3 4 7 8 11 12.
	call(l.t, l.nc, "STREAM.MSG.DELETE.ORDERS", `{"seq":5}`)
	call(l.t, l.nc, "STREAM.MSG.DELETE.ORDERS", `{"seq":12}`)
	l.ack("wa", 4, 1, 2, 6)
	l.ack("wb", 2)
	if _, ok := s.consumers["all"]; ok && s.consumers["all"] != `"ack_policy":"all"` {
		l.ack("all", 5, 1, 4)
	}
	if _, ok := s.consumers["mem"]; ok {
		l.ack("mem", 3, 1)
		l.ack("all", 4, 3)
		l.ack("last", 1)
	}
	eventually(l.t, func() error {
		if at := l.standings(); at["wa"].Pending != 1 || at["wb"].Pending != 3 {
			return fmt.Errorf("got %+v, want 1 message pending for wa and 3 for wb", at)
		}
		return nil
	})
}

// ack fetches n messages and acknowledges those of the given sequences.
func (l *lab) ack(consumer string, n int, seqs ...uint64) {
	l.t.Helper()
	msgs := l.fetch(consumer, n)
	if len(msgs) != n {
		l.t.Fatalf("fetch %d from %q: got %d", n, consumer, len(msgs))
	}
	for _, m := range msgs {
		meta, err := m.Metadata()
		if err != nil {
			l.t.Fatal(err)
		}
		if !slices.Contains(seqs, meta.Sequence.Stream) {
			continue
		}
		if err := m.AckSync(); err != nil {
			l.t.Fatal(err)
		}
	}
}

// fetch takes what there is for a consumer now, n messages at most.
func (l *lab) fetch(consumer string, n int) []*nats.Msg {
	l.t.Helper()
	inbox := l.nc.NewInbox()
	sub, err := l.nc.SubscribeSync(inbox)
	if err != nil {
		l.t.Fatal(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	req := fmt.Sprintf(`{"batch":%d,"expires":5000000000}`, n)
	if err := l.nc.PublishRequest("$JS.API.CONSUMER.MSG.NEXT.ORDERS."+consumer, inbox, []byte(req)); err != nil {
		l.t.Fatal(err)
	}
	var msgs []*nats.Msg
	for len(msgs) < n {
		m, err := sub.NextMsg(10 * time.Second)
		if err != nil {
			l.t.Fatalf("fetch from %q: %v", consumer, err)
		}
		if m.Header.Get("Status") != "" {
			break
		}
		msgs = append(msgs, m)
	}
	return msgs
}

func (l *lab) fetchNow(consumer string) []*nats.Msg {
	l.t.Helper()
	inbox := l.nc.NewInbox()
	sub, err := l.nc.SubscribeSync(inbox)
	if err != nil {
		l.t.Fatal(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	if err := l.nc.PublishRequest("$JS.API.CONSUMER.MSG.NEXT.ORDERS."+consumer, inbox, []byte(`{"batch":100,"expires":200000000}`)); err != nil {
		l.t.Fatal(err)
	}
	var msgs []*nats.Msg
	for {
		m, err := sub.NextMsg(10 * time.Second)
		if err != nil {
			l.t.Fatalf("fetch from %q: %v", consumer, err)
		}
		if m.Header.Get("Status") != "" {
			return msgs
		}
		msgs = append(msgs, m)
	}
}

func (l *lab) messages() []message {
	l.t.Helper()
	info, err := l.js.StreamInfo("ORDERS")
	if err != nil {
		l.t.Fatal(err)
	}
	var found []message
	for seq := uint64(1); seq <= info.State.LastSeq; seq++ {
		m, err := l.js.GetMsg("ORDERS", seq)
		if errors.Is(err, nats.ErrMsgNotFound) {
			continue
		}
		if err != nil {
			l.t.Fatal(err)
		}
		found = append(found, message{m.Sequence, m.Subject, m.Time, m.Header, string(m.Data)})
	}
	return found
}

// standing is what a consumer has to do.
type standing struct {
	Floor, Delivered uint64
	AckPending       int
	Pending          uint64
}

func (l *lab) standings() map[string]standing {
	l.t.Helper()
	info, err := l.js.StreamInfo("ORDERS")
	if err != nil {
		l.t.Fatal(err)
	}
	first := info.State.FirstSeq
	if info.State.Msgs == 0 {
		first = info.State.LastSeq + 1
	}
	found := map[string]standing{}
	for o := range l.js.Consumers("ORDERS") {
		// Below the first message all positions are the same.
		at := standing{max(o.AckFloor.Stream, first-1), max(o.Delivered.Stream, first-1), o.NumAckPending, o.NumPending}
		if o.Config.DeliverPolicy == nats.DeliverLastPerSubjectPolicy {
			// After a start the server counts other messages than it delivers.
			at.Pending = 0
		}
		found[o.Name] = at
	}
	return found
}

// recreate runs until all is done. It is stopped in the given step, and calls
// between before it goes on with a new client. It returns the steps.
func (l *lab) recreate(s swap, stop int, between func()) []string {
	l.t.Helper()
	var did []string
	attempt := func(stop int) (err error) {
		c := jetstream.New(l.n, l.n.credentials)
		defer c.Close()
		defer func() {
			if p := recover(); p != nil {
				err = errStopped
			}
		}()
		return c.RecreateStream(context.Background(), "shop", "ORDERS", set(l.t, s.set), func(what string) {
			if did = append(did, what); len(did) == stop {
				panic(errStopped)
			}
		})
	}
	err := attempt(stop)
	if errors.Is(err, errStopped) {
		if between != nil {
			between()
		}
		err = attempt(0)
	}
	if err != nil {
		l.t.Fatalf("recreate, stopped in step %d of %q: %v", stop, did, err)
	}
	return did
}

var errStopped = errors.New("stopped")

// given is what each consumer is given now.
func (l *lab) given() map[string][]uint64 {
	l.t.Helper()
	found := map[string][]uint64{}
	for o := range l.js.Consumers("ORDERS") {
		for _, m := range l.fetchNow(o.Name) {
			meta, err := m.Metadata()
			if err != nil {
				l.t.Fatal(err)
			}
			found[o.Name] = append(found[o.Name], meta.Sequence.Stream)
		}
	}
	return found
}

// clean fails when something of a recreation is left.
func (l *lab) clean() {
	l.t.Helper()
	for name, o := range observe(l.t, newClient(l.t, l.n), "shop").Accounts["shop"].Streams["ORDERS"].Consumers {
		if o.State.Paused || o.Config["pause_until"] != nil {
			l.t.Errorf("consumer %q: got paused until %v, want it resumed", name, o.Config["pause_until"])
		}
	}
	var names []string
	for name := range l.js.StreamNames() {
		names = append(names, name)
	}
	if !slices.Equal(names, []string{"ORDERS"}) {
		l.t.Errorf("streams: got %v, want ORDERS only", names)
	}
	info, err := l.js.StreamInfo("ORDERS")
	if err != nil {
		l.t.Fatal(err)
	}
	for key := range maps.Keys(info.Config.Metadata) {
		if strings.HasPrefix(key, "holdfast.") {
			l.t.Errorf("metadata: got %q, want nothing left of the recreation", key)
		}
	}
}

// check compares all there is with what has to be.
func (l *lab) check(s swap, messages []message, standings map[string]standing) {
	l.t.Helper()
	want := slices.DeleteFunc(slices.Clone(messages), func(m message) bool { return slices.Contains(s.gone, m.Seq) })
	if diff := cmp.Diff(want, l.messages()); diff != "" {
		l.t.Errorf("messages (-want +got):\n%s", diff)
	}
	standings = maps.Clone(standings)
	for name, at := range standings {
		at.Floor, at.Delivered = max(at.Floor, want[0].Seq-1), max(at.Delivered, want[0].Seq-1)
		standings[name] = at
	}
	eventually(l.t, func() error {
		if diff := cmp.Diff(standings, l.standings()); diff != "" {
			return fmt.Errorf("consumers (-want +got):\n%s", diff)
		}
		return nil
	})
	l.clean()
	info, err := l.js.StreamInfo("ORDERS")
	if err != nil {
		l.t.Fatal(err)
	}
	if info.State.LastSeq != 12 || !slices.Equal(info.Config.Subjects, []string{"orders.*"}) || info.Config.Metadata["team"] != "a" {
		l.t.Errorf("got %+v %+v, want the subjects and metadata as before and the last sequence 12", info.Config, info.State)
	}
	have := observe(l.t, newClient(l.t, l.n), "shop").Accounts["shop"].Streams["ORDERS"].Config
	for k, v := range set(l.t, s.set) {
		if have[k] != v {
			l.t.Errorf("%s: got %v, want %v", k, have[k], v)
		}
	}
	ack, err := l.js.PublishMsg(&nats.Msg{Subject: "orders.a", Header: nats.Header{"Nats-Msg-Id": {"id-10"}}})
	if err != nil || !ack.Duplicate {
		l.t.Errorf("publish id-10 again: got %+v %v, want a duplicate", ack, err)
	}
	if ack, err = l.js.Publish("orders.b", nil); err != nil || ack.Sequence != 13 {
		l.t.Errorf("publish: got %+v %v, want sequence 13", ack, err)
	}
}

func TestRecreateKeepsMessagesAndPositions(t *testing.T) {
	for _, s := range swaps() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, -1)
			l.fill(s)
			messages, standings := l.messages(), l.standings()
			l.recreate(s, 0, nil)
			if again := l.recreate(s, 0, nil); len(again) > 0 {
				t.Errorf("second call: got %q, want nothing to do", again)
			}
			l.check(s, messages, standings)
			if diff := cmp.Diff(s.next(), l.given()); diff != "" {
				t.Errorf("delivered next (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRecreateGoesOnAfterAStopInAnyStep(t *testing.T) {
	for i, s := range swaps() {
		// In every step where much differs, in some where it is the same again.
		stride := 4
		if s.everyStep {
			stride = 1
		}
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			for stop := 1 + i%stride; ; stop += stride {
				l := newLab(t, -1)
				l.fill(s)
				messages, standings := l.messages(), l.standings()
				var between func()
				if stop%3 == 0 && !s.volatile {
					between = l.restartWithCopy
				}
				did := l.recreate(s, stop, between)
				l.check(s, messages, standings)
				if t.Failed() {
					t.Fatalf("stopped in step %d of %q", stop, did)
				}
				l.stop()
				if len(did) < stop {
					break
				}
			}
		})
	}
}
