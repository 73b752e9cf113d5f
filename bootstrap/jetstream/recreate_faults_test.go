// SPDX-License-Identifier: Apache-2.0

package jetstream_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"github.com/holdfast-mq/holdfast/appliance/diag"
	"github.com/holdfast-mq/holdfast/bootstrap/jetstream"
)

// attempt is a recreation that is expected to fail.
func (l *lab) attempt(change string, step func(string)) error {
	l.t.Helper()
	c := jetstream.New(l.n, l.n.credentials)
	defer c.Close()
	return c.RecreateStream(context.Background(), "shop", "ORDERS", set(l.t, change), step)
}

func (l *lab) config() map[string]any {
	l.t.Helper()
	config := observe(l.t, newClient(l.t, l.n), "shop").Accounts["shop"].Streams["ORDERS"].Config
	return config
}

func TestRecreateRefusesBeforeItTouchesTheStream(t *testing.T) {
	two := map[string]string{"wa": ordersA, "wb": ordersB}
	for _, test := range []struct {
		name      string
		disk      int64
		stream    string
		consumers map[string]string
		set       string
		want      string
	}{
		{"no room", 1 << 20, `"storage":"file"`, two, `{"retention":"workqueue"}`, "no room for a copy"},
		{"two consumers for one message", -1, `"storage":"file"`, map[string]string{"wa": ordersA, "wb": ordersB, "all": `"ack_policy":"explicit"`},
			`{"retention":"workqueue"}`, "try the new configuration"},
		{"message for nobody", -1, `"retention":"workqueue"`, map[string]string{"wa": ordersA, "wb": ordersB},
			`{"retention":"interest"}`, "for no consumer"},
		{"fields that exclude each other", -1, `"allow_atomic":true`, two, `{"persist_mode":"async"}`, "try the new configuration"},
		{"counters", -1, `"storage":"file"`, two, `{"allow_msg_counter":true}`, "counters"},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := newLab(t, test.disk)
			l.fill(swap{stream: test.stream, consumers: test.consumers})
			if test.want == "for no consumer" {
				publish(t, l.nc, "orders.c")
			}
			config, messages, standings := l.config(), l.messages(), l.standings()
			err := l.attempt(test.set, nil)
			if err == nil || !strings.Contains(err.Error(), test.want) || diag.Hint(err) == "" {
				t.Errorf("got %v (hint %q), want %q and a hint", err, diag.Hint(err), test.want)
			}
			if diff := cmp.Diff(config, l.config()); diff != "" {
				t.Errorf("configuration (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(messages, l.messages()); diff != "" {
				t.Errorf("messages (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(standings, l.standings()); diff != "" {
				t.Errorf("consumers (-want +got):\n%s", diff)
			}
			l.clean()
		})
	}
}

func TestRecreateTakesBackWhatFailsHalfWay(t *testing.T) {
	l := newLab(t, -1)
	l.fill(swap{stream: `"storage":"memory"`, consumers: map[string]string{"wa": ordersA, "wb": ordersB}})
	info, err := l.js.StreamInfo("ORDERS")
	if err != nil {
		t.Fatal(err)
	}
	// All of it fits in memory, and not in a file.
	call(t, l.nc, "STREAM.UPDATE.ORDERS", fmt.Sprintf(`{"name":"ORDERS","subjects":["orders.*"],"storage":"memory","max_bytes":%d}`, info.State.Bytes))
	call(t, l.nc, "CONSUMER.PAUSE.ORDERS.wb", `{"pause_until":"2997-01-01T00:00:00Z"}`)
	config, messages, standings := l.config(), l.messages(), l.standings()
	var did []string
	err = l.attempt(`{"storage":"file"}`, func(what string) { did = append(did, what) })
	if err == nil || !strings.Contains(diag.Hint(err), "max_bytes") || !slices.Contains(did, "park the stream") {
		t.Fatalf("got %v after %q, want a hint about max_bytes after the stream was parked", err, did)
	}
	if diff := cmp.Diff(config, l.config()); diff != "" {
		t.Errorf("configuration (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(messages, l.messages()); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(standings, l.standings()); diff != "" {
		t.Errorf("consumers (-want +got):\n%s", diff)
	}
	consumers := observe(t, newClient(t, l.n), "shop").Accounts["shop"].Streams["ORDERS"].Consumers
	if wa, wb := consumers["wa"].State.Paused, consumers["wb"].Config["pause_until"]; wa || wb != "2997-01-01T00:00:00Z" {
		t.Errorf("got wa paused %v and wb until %v, want them as before", wa, wb)
	}
}

func TestRecreateKeepsEveryAcknowledgedPublish(t *testing.T) {
	for _, change := range []string{`{"storage":"memory"}`, `{"retention":"workqueue"}`} {
		t.Run(change, func(t *testing.T) {
			l := newLab(t, -1)
			l.fill(swap{stream: `"retention":"limits"`, consumers: map[string]string{"wa": ordersA, "wb": ordersB}})
			nc := connect(t, l.n, "shop")
			ctx, cancel := context.WithCancel(context.Background())
			var acked, refused = map[uint64]string{}, 0
			var wg sync.WaitGroup
			defer wg.Wait()
			defer cancel()
			wg.Go(func() {
				js, err := nc.JetStream()
				if err != nil {
					t.Error(err)
					return
				}
				for i := 0; ctx.Err() == nil; i++ {
					data := fmt.Sprint("published ", i)
					for ctx.Err() == nil {
						ack, err := js.Publish("orders.b", []byte(data), nats.MsgId(data), nats.RetryAttempts(0))
						if err == nil {
							if !ack.Duplicate {
								acked[ack.Sequence] = data
							}
							break
						}
						refused++
					}
				}
			})
			published := func() error {
				info, err := l.js.StreamInfo("ORDERS")
				if err == nil && info.State.LastSeq < 50 {
					err = fmt.Errorf("got %d messages, want 50", info.State.LastSeq)
				}
				return err
			}
			eventually(t, published)
			if err := l.attempt(change, nil); err != nil {
				t.Fatal(err)
			}
			info, err := l.js.StreamInfo("ORDERS")
			if err != nil {
				t.Fatal(err)
			}
			after := info.State.LastSeq + 20
			eventually(t, func() error {
				info, err := l.js.StreamInfo("ORDERS")
				if err == nil && info.State.LastSeq < after {
					err = fmt.Errorf("got sequence %d after the swap, want %d", info.State.LastSeq, after)
				}
				return err
			})
			cancel()
			wg.Wait()
			if refused == 0 {
				t.Error("got no refused publish, want some: the swap was not under load")
			}
			stored := map[uint64]string{}
			for _, m := range l.messages() {
				stored[m.Seq] = m.Data
			}
			for seq, data := range acked {
				if stored[seq] != data {
					t.Errorf("message %d: got %q, want the acknowledged %q", seq, stored[seq], data)
				}
			}
		})
	}
}

func TestRecreateLeavesAStreamThatTookTheNameAlone(t *testing.T) {
	l := newLab(t, -1)
	s := swap{stream: `"retention":"limits"`, consumers: map[string]string{"wa": ordersA, "wb": ordersB}, set: `{"storage":"memory"}`}
	l.fill(s)
	messages, standings := l.messages(), l.standings()
	func() {
		defer func() { _ = recover() }()
		_ = l.attempt(s.set, func(what string) {
			if what == "delete the stream" {
				panic(errStopped)
			}
		})
	}()
	call(t, l.nc, "STREAM.CREATE.ORDERS", `{"name":"ORDERS","subjects":["orders.*"]}`)
	publish(t, l.nc, "orders.a")
	if err := l.attempt(s.set, nil); diag.Hint(err) == "" {
		t.Fatalf("got %v, want an error with a hint", err)
	}
	publish(t, l.nc, "orders.a") // it takes messages as before
	call(t, l.nc, "STREAM.PURGE.ORDERS", `{}`)
	call(t, l.nc, "STREAM.DELETE.ORDERS", ``)
	call(t, l.nc, "STREAM.CREATE.ORDERS", `{"name":"ORDERS","subjects":["orders.*"]}`)
	if err := l.attempt(s.set, nil); err != nil {
		t.Fatal(err)
	}
	l.check(s, messages, standings)
}

func TestRecreateOfWhatIsGoneSaysSo(t *testing.T) {
	l := newLab(t, -1)
	err := l.attempt(`{"storage":"memory"}`, nil)
	if err == nil || !strings.Contains(err.Error(), "there is no such stream") || diag.Hint(err) == "" {
		t.Errorf("stream: got %v (hint %q), want that there is none and a hint", err, diag.Hint(err))
	}
	err = newClient(t, l.n).RecreateConsumer(t.Context(), "shop", "ORDERS", "c", set(t, `{"max_waiting":7}`), nil)
	if err == nil || !strings.Contains(err.Error(), "there is no such stream") || diag.Hint(err) == "" {
		t.Errorf("consumer: got %v (hint %q), want that there is no stream and a hint", err, diag.Hint(err))
	}
}
