// SPDX-License-Identifier: Apache-2.0

//go:build process && linux

package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/holdfast-mq/holdfast/appliance/admin"
)

const groupedShop = listening + `accounts:
  shop:
    users:
      admin: {role: admin}
      checkout: {role: producer, streams: [ORDERS]}
    streams:
      ORDERS: {subjects: ["orders.>"], max_bytes: 64MiB, group_commit: "on"}
      OTHER: {subjects: ["other.>"], max_bytes: 16MiB, group_commit: "on"}
`

func groupedCluster(t *testing.T) []*node {
	t.Helper()
	nodes := newCluster(t, groupedShop)
	for _, n := range nodes {
		n.launch()
	}
	waitAllReady(t, nodes...)
	for _, n := range nodes {
		n.waitCluster()
		n.waitGrouped(true)
	}
	return nodes
}

// waitGrouped waits until a node carries shop/ORDERS, or no more.
func (n *node) waitGrouped(on bool) {
	n.t.Helper()
	n.waitStatus(fmt.Sprintf("with group commit %t", on), func(s admin.Status) bool {
		for _, a := range s.Accounts {
			for _, st := range a.Streams {
				if st.Name == "ORDERS" {
					return st.GroupCommit.On == on
				}
			}
		}
		return false
	})
}

// steady publishes through a node, without trying again, until ctx is done: every message
// has to be acknowledged. It returns how many were.
func steady(ctx context.Context, n *node, name string) (acked int, err error) {
	js := n.jetStream()
	for ctx.Err() == nil {
		if _, err := js.Publish(context.WithoutCancel(ctx), "orders."+name, nil, jetstream.WithRetryAttempts(0)); err != nil {
			return acked, fmt.Errorf("%s after %d messages: %w", name, acked, err)
		}
		acked++
	}
	return acked, nil
}

// TestProcessGroupCommitComesAndGoesUnderPublishers turns it off and on again in the files
// of three nodes, which learn of it one after the other.
func TestProcessGroupCommitComesAndGoesUnderPublishers(t *testing.T) {
	t.Parallel()
	nodes := groupedCluster(t)
	ctx, stop := context.WithCancel(t.Context())
	var publishing sync.WaitGroup
	var mu sync.Mutex
	acked := 0
	for i := range 9 {
		publishing.Go(func() {
			n, err := steady(ctx, nodes[i%len(nodes)], fmt.Sprintf("p%d", i))
			mu.Lock()
			defer mu.Unlock()
			acked += n
			if err != nil {
				t.Error(err)
			}
		})
	}
	for range 3 {
		for _, on := range []bool{false, true} {
			for _, n := range nodes {
				if on {
					n.edit(`64MiB, group_commit: "off"`, `64MiB, group_commit: "on"`)
				} else {
					n.edit(`64MiB, group_commit: "on"`, `64MiB, group_commit: "off"`)
				}
			}
			for _, n := range nodes {
				n.signal(syscall.SIGHUP)
			}
			for _, n := range nodes {
				n.waitGrouped(on)
			}
		}
	}
	stop()
	publishing.Wait()
	stream, err := nodes[0].jetStream().Stream(t.Context(), "ORDERS")
	if err != nil {
		t.Fatal(err)
	}
	if got := stream.CachedInfo().State.Msgs; got != uint64(acked) {
		t.Errorf("got %d messages stored, want the %d that were acknowledged", got, acked)
	}
}

// TestProcessGroupCommitOfAClusterKeepsTheRoles asks at each node for what a producer may
// do, and for what it may not.
func TestProcessGroupCommitOfAClusterKeepsTheRoles(t *testing.T) {
	t.Parallel()
	for i, n := range groupedCluster(t) {
		refused := make(chan string, 10)
		nc := n.connect(nats.UserCredentials(filepath.Join(n.data, "creds", "shop", "checkout.creds")), nats.CustomInboxPrefix("_inbox.checkout"),
			nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refused <- err.Error() }))
		js, err := jetstream.New(nc)
		if err != nil {
			t.Fatal(err)
		}
		if a, err := js.Publish(t.Context(), "orders.new", nil); err != nil || a.Stream != "ORDERS" {
			t.Errorf("n%d: got %v and %v, want what the user may publish stored", i+1, a, err)
		}
		for _, subject := range []string{
			"other.new", "elsewhere", "_hf.in.OTHER.other.new", "_hf.in.ORDERS.other.new", "_hf.out.guess.other.new", "_INBOX.guess.3.1", "_hf.re.guess.3.1",
		} {
			if err := errors.Join(nc.Publish(subject, nil), nc.FlushTimeout(patience)); err != nil {
				t.Fatal(err)
			}
			select {
			case got := <-refused:
				if !strings.Contains(got, "Permissions Violation for Publish") {
					t.Errorf("n%d: %s: got %q, want it refused", i+1, subject, got)
				}
			case <-time.After(patience):
				t.Errorf("n%d: %s: got nothing, want it refused", i+1, subject)
			}
		}
		for _, subject := range []string{"_hf.in.>", "_INBOX.>", "orders.>", "_hf.>"} {
			if _, err := nc.SubscribeSync(subject); err != nil {
				t.Fatal(err)
			}
			if got := <-refused; !strings.Contains(got, "Permissions Violation for Subscription") {
				t.Errorf("n%d: subscribe to %s: got %q, want it refused", i+1, subject, got)
			}
		}
		line := n.logged("client refused")
		if strings.Contains(line, "_hf.in.") || !strings.Contains(line, "other.new") {
			t.Errorf("n%d: got %q, want the subject that the client used", i+1, line)
		}
	}
}
