// SPDX-License-Identifier: Apache-2.0

//go:build process && linux

package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/holdfast-mq/holdfast/appliance/admin"
)

// recovering is a node with a large stream and a small one.
const recovering = `node: {data_dir: data}
listen: {client: "127.0.0.1:0", http: "127.0.0.1:0"}
storage: {limit: 400MiB, durability: interval, sync_interval: 1s}
accounts:
  shop:
    streams:
      ORDERS: {subjects: ["orders.>"], max_bytes: 330MiB}
      JOBS: {subjects: ["jobs.>"], max_bytes: 16MiB}
`

// TestProcessTellsHowFarARecoveryIs kills a node with a store of some size, and asks
// again and again during the next start.
func TestProcessTellsHowFarARecoveryIs(t *testing.T) {
	t.Parallel()
	n := newNode(t, recovering).start()
	js, err := jetstream.New(n.connect(), jetstream.WithDefaultTimeout(patience), jetstream.WithPublishAsyncMaxPending(64))
	if err != nil {
		t.Fatal(err)
	}
	const messages, size = 4800, 64 << 10
	for i := range messages {
		if _, err := js.PublishAsync(fmt.Sprintf("orders.%d", i%10), make([]byte, size), jetstream.WithStallWait(patience)); err != nil {
			t.Fatal(err)
		}
	}
	<-js.PublishAsyncComplete()
	if got := messagesIn(t, js, "ORDERS"); got != messages {
		t.Fatalf("got %d messages, want %d", got, messages)
	}
	n.kill9()

	s := n.listenAsSystemd()
	n.launch()
	var seen []admin.Recovery
	n.waitStatus("ready", func(s admin.Status) bool {
		if r := s.Recovery; r != nil {
			if s.Ready {
				t.Errorf("got a ready node that recovers: %+v", *r)
			}
			seen = append(seen, *r)
		}
		return s.Ready
	})
	var checked, done int64
	steps := 0
	for _, r := range seen {
		if r.BytesChecked < checked || r.BytesDone < done {
			t.Errorf("got %+v after %d and %d bytes, want figures that rise", r, checked, done)
		}
		if r.BytesChecked > checked || r.BytesDone > done {
			steps++
		}
		checked, done = r.BytesChecked, r.BytesDone
		if r.BytesTotal < messages*size || r.BytesToCheck > 0 && r.BytesToCheck < messages*size {
			t.Errorf("got %+v, want all that is on the disk as its whole", r)
		}
		if r.BytesChecked > r.BytesToCheck || r.BytesDone > r.BytesTotal {
			t.Errorf("got %+v, want no more than the whole", r)
		}
	}
	if steps < 3 {
		t.Errorf("got %d steps in %d looks, want progress that can be seen: %+v", steps, len(seen), seen)
	}
	eventually(t, patience, func() error { // systemd is told a moment after the status
		all := strings.Join(s.all(), "\n")
		if first, ready := strings.Index(all, "STATUS=recovering streams"), strings.Index(all, "READY=1"); first < 0 || ready < first {
			return fmt.Errorf("got %q, want systemd told of the recovery, and that it is over after that", all)
		}
		return nil
	})
	if got := messagesIn(t, n.jetStream(), "ORDERS"); got != messages {
		t.Errorf("got %d messages after the recovery, want %d", got, messages)
	}
	n.stop()
}
