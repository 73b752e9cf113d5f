// SPDX-License-Identifier: Apache-2.0

package jetstream_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-mq/holdfast/appliance/diag"
	"github.com/holdfast-mq/holdfast/bootstrap/jetstream"
)

// recreateConsumer is recreate for a consumer.
func (l *lab) recreateConsumer(consumer, change string, stop int) []string {
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
		return c.RecreateConsumer(context.Background(), "shop", "ORDERS", consumer, set(l.t, change), func(what string) {
			if did = append(did, what); len(did) == stop {
				panic(errStopped)
			}
		})
	}
	err := attempt(stop)
	if errors.Is(err, errStopped) {
		err = attempt(0)
	}
	if err != nil {
		l.t.Fatalf("recreate, stopped in step %d of %q: %v", stop, did, err)
	}
	return did
}

func TestRecreateConsumerGoesOnAtItsFloorAfterAStopInAnyStep(t *testing.T) {
	floor := map[string][]uint64{"wa": {10}, "wb": {3, 4, 7, 8, 11}}
	exact := map[string][]uint64{"wa": {10}, "wb": {7, 8, 11}}
	for i, test := range []struct {
		name, stream, change string
		next                 map[string][]uint64
	}{
		{"limits, ack policy", `"retention":"limits"`, `{"ack_policy":"all"}`, floor},
		{"workqueue, max waiting", `"retention":"workqueue"`, `{"max_waiting":8}`, floor},
		{"interest, storage", `"retention":"interest"`, `{"mem_storage":true}`, floor},
		{"start sequence", `"retention":"limits"`, `{"deliver_policy":"by_start_sequence","opt_start_seq":2}`, floor},
		{"new", `"retention":"interest"`, `{"deliver_policy":"new"}`, exact},
		{"last", `"storage":"memory"`, `{"deliver_policy":"last"}`, exact},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			stride := 4
			if test.name == "interest, storage" {
				stride = 1
			}
			for stop := i % stride; ; stop += stride {
				l := newLab(t, -1)
				l.fill(swap{stream: test.stream, consumers: map[string]string{"wa": ordersA, "wb": ordersB}})
				messages := l.messages()
				did := l.recreateConsumer("wb", test.change, stop)
				if again := l.recreateConsumer("wb", test.change, 0); len(again) > 0 {
					t.Errorf("second call: got %q, want nothing to do", again)
				}
				if diff := cmp.Diff(messages, l.messages()); diff != "" {
					t.Errorf("messages (-want +got):\n%s", diff)
				}
				l.clean()
				have := observe(t, newClient(t, l.n), "shop").Accounts["shop"].Streams["ORDERS"].Consumers["wb"].Config
				for k, v := range set(t, test.change) {
					if have[k] != v {
						t.Errorf("%s: got %v, want %v", k, have[k], v)
					}
				}
				if diff := cmp.Diff(test.next, l.given()); diff != "" {
					t.Errorf("delivered next (-want +got):\n%s", diff)
				}
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

func TestRecreateConsumerRefusesAStartThatSkipsMessages(t *testing.T) {
	l := newLab(t, -1)
	l.fill(swap{stream: `"retention":"limits"`, consumers: map[string]string{"wa": ordersA, "wb": ordersB}})
	before := l.standings()
	for _, change := range []string{
		`{"deliver_policy":"by_start_sequence","opt_start_seq":9}`,
		`{"deliver_policy":"by_start_time","opt_start_time":"2998-01-01T00:00:00Z"}`,
		`{"ack_policy":"nonsense"}`,
	} {
		var did []string
		err := newClient(t, l.n).RecreateConsumer(context.Background(), "shop", "ORDERS", "wb", set(t, change),
			func(what string) { did = append(did, what) })
		if diag.Hint(err) == "" {
			t.Errorf("%s: got %v, want an error with a hint", change, err)
		}
		if i := slices.IndexFunc(did, func(s string) bool { return s != "delete the copy" }); i >= 0 {
			t.Errorf("%s: got %q, want nothing changed", change, did[i])
		}
	}
	if diff := cmp.Diff(before, l.standings()); diff != "" {
		t.Errorf("consumers (-want +got):\n%s", diff)
	}
}
