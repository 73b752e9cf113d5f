// SPDX-License-Identifier: Apache-2.0

//go:build process && linux

package main

import (
	"errors"
	"syscall"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/holdfast-mq/holdfast/appliance/admin"
)

// TestProcessANodeThatStopsServesGroupCommitToTheEnd publishes, and acknowledges what it is
// given, until a node that stops has sent the client away.
func TestProcessANodeThatStopsServesGroupCommitToTheEnd(t *testing.T) {
	t.Parallel()
	n := newNode(t, listening+`accounts:
  shop:
    streams:
      JOBS: {subjects: ["jobs.>"], max_bytes: 64MiB, retention: workqueue, group_commit: "on", consumers: {worker: {}}}
`).start()
	n.waitStatus("with group commit", func(s admin.Status) bool {
		return len(s.Accounts) > 0 && len(s.Accounts[0].Streams) > 0 && s.Accounts[0].Streams[0].GroupCommit.On
	})
	js := n.jetStream()
	worker, err := js.Consumer(t.Context(), "JOBS", "worker")
	if err != nil {
		t.Fatal(err)
	}
	stopping, served := false, 0
	for {
		_, err := js.Publish(t.Context(), "jobs.a", nil, jetstream.WithRetryAttempts(0))
		if errors.Is(err, jetstream.ErrNoStreamResponse) {
			t.Fatalf("after %d messages of a node that stops: got %v, want it stored", served, err)
		}
		if err != nil {
			break // the client was sent away
		}
		m, err := worker.Next()
		if err != nil {
			break
		}
		if err := m.DoubleAck(t.Context()); errors.Is(err, nats.ErrNoResponders) {
			t.Fatalf("after %d messages of a node that stops: got %v, want it acknowledged", served, err)
		} else if err != nil {
			break
		}
		if !stopping {
			n.signal(syscall.SIGTERM)
			stopping = true
			n.logged("stopping")
		}
		served++
	}
	if code := n.wait(); code != exitOK {
		t.Errorf("got exit code %d, want %d", code, exitOK)
	}
	if served < 2 {
		t.Errorf("got %d messages of a node that stops, want some: the test shows nothing", served)
	}
}
