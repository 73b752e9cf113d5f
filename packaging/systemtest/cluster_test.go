// SPDX-License-Identifier: Apache-2.0

//go:build system && linux

package systemtest

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// TestClusterPageFromThreeFreshMachines and the next do what docs/cluster.md says, from
// the first command to the last.
func TestClusterPageFromThreeFreshMachines(t *testing.T) {
	t.Parallel()
	nodes := freshMachines(t)
	followAll(t, nodes, "From three fresh machines")
	wantCluster(t, nodes)
	wantOpenToOthers(t, nodes)
}

func TestClusterPageByAToken(t *testing.T) {
	t.Parallel()
	nodes := freshMachines(t)
	followAll(t, nodes, "By a token")
	wantCluster(t, nodes)
	wantOpenToOthers(t, nodes)
}

// TestClusterPageFromOneNodeThatHasMessages goes on publishing meanwhile.
func TestClusterPageFromOneNodeThatHasMessages(t *testing.T) {
	t.Parallel()
	nodes := freshMachines(t)
	n1 := nodes[0]
	n1.run("dpkg --install /root/holdfast_*.deb")
	n1.waitUnit("active")
	// In growth the process is opened anew, and is not to starve the watchdog.
	n1.dropIn("WatchdogSec=10s")
	n1.run("systemctl restart holdfast.service")
	n1.waitUnit("active")

	const done, left = 20, 80
	js, acked := n1.wantQueue(), acks{}
	publishMany(t, js, done)
	take(t, js, done)
	publishSome(t, js, &acked, left)
	before := position(t, js)
	l := startPublishers(t, js, &acked, 1, 50*time.Millisecond)
	followAll(t, nodes, "From one node that has messages")
	l.more(n1, 5)
	l.stop()
	for _, c := range nodes {
		c.wantReplicated()
	}
	wantStored(t, nodes, done+1)
	for _, c := range nodes {
		js := c.client("main/admin")
		wantAll(t, js, &acked)
		if got := position(t, js); got.AckFloor.Stream != before.AckFloor.Stream || got.Delivered.Stream != before.Delivered.Stream {
			t.Errorf("%s: got acknowledged up to %d, delivered up to %d, want %d and %d", c.host,
				got.AckFloor.Stream, got.Delivered.Stream, before.AckFloor.Stream, before.Delivered.Stream)
		}
		stream, err := js.Stream(t.Context(), "JOBS")
		if err != nil {
			t.Fatal(err)
		}
		for i := range left {
			want := fmt.Sprintf("%s-%d", t.Name(), i)
			if m, err := stream.GetMsg(t.Context(), uint64(done+1+i)); err != nil || string(m.Data) != want {
				t.Fatalf("%s: got %v, %v at sequence %d, want %q", c.host, m, err, done+1+i, want)
			}
		}
	}
	wantNeverDown(t, nodes)
	// The node that had everything may go now.
	n1.run("systemctl stop holdfast.service")
	var said string
	nodes[1].eventually(func() error {
		r := nodes[1].try("holdfast nats consumer next JOBS worker")
		said = r.out + r.err
		if r.code != 0 {
			return fmt.Errorf("take a message: exit code %d: %s", r.code, said)
		}
		return nil
	})
	nodes[1].wantSaid(said, t.Name()+"-0")
}

// freshMachines are three with the package in the directory of who installs it.
func freshMachines(t *testing.T) []*container {
	t.Helper()
	nodes := bootLAN(t)
	for _, c := range nodes {
		c.put(built(t, older, ".deb"))
	}
	return nodes
}

// wantReplicated fails unless a node says that all is well.
func (c *container) wantReplicated() {
	c.t.Helper()
	c.eventually(func() error {
		if r := c.try("holdfast cluster status"); r.code != 0 {
			return fmt.Errorf("%s: cluster status: exit code %d:\n%s%s", c.host, r.code, r.out, r.err)
		}
		return nil
	})
}

// wantCluster fails unless three fresh nodes are one, and what is given to one can be
// had from another.
func wantCluster(t *testing.T, nodes []*container) {
	t.Helper()
	for _, c := range nodes {
		c.wantReplicated()
	}
	nodes[0].run("holdfast nats pub --jetstream jobs.hello first-job")
	nodes[2].run("holdfast nats pub --jetstream jobs.hello second-job")
	wantStored(t, nodes, 1)
	nodes[1].wantSaid(nodes[1].run("holdfast nats consumer next JOBS worker"), "first-job")
	nodes[0].wantSaid(nodes[0].run("holdfast nats consumer next JOBS worker"), "second-job")
	wantNeverDown(t, nodes)
}

// wantOpenToOthers fails unless each node lets clients in from beyond the loopback.
func wantOpenToOthers(t *testing.T, nodes []*container) {
	t.Helper()
	for i := range nodes {
		conn, err := nodes[(i+1)%len(nodes)].Dial("tcp", address(i)+":4222")
		if err != nil {
			t.Errorf("n%d: %v", i+1, err)
			continue
		}
		conn.Close()
	}
}

// wantNeverDown fails if systemd had to do anything about a node, or one saw an error.
func wantNeverDown(t *testing.T, nodes []*container) {
	t.Helper()
	for _, c := range nodes {
		if got, result := c.restarts(), c.prop("Result"); got != 0 || result != "success" {
			t.Errorf("%s: got %d restarts, and %s, want none", c.host, got, result)
		}
		for line := range strings.Lines(c.run("journalctl --unit=holdfast.service --priority=err --no-pager --quiet --output=short-precise")) {
			t.Errorf("%s: got an error in the journal, want none: %s", c.host, strings.TrimSpace(line))
		}
	}
}

// take acknowledges the first n messages.
func take(t *testing.T, js jetstream.JetStream, n int) {
	t.Helper()
	worker, err := js.Consumer(t.Context(), "JOBS", "worker")
	if err != nil {
		t.Fatal(err)
	}
	for range n {
		m, err := worker.Next(jetstream.FetchMaxWait(patience))
		if err != nil {
			t.Fatal(err)
		}
		if err := m.DoubleAck(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func position(t *testing.T, js jetstream.JetStream) *jetstream.ConsumerInfo {
	t.Helper()
	worker, err := js.Consumer(t.Context(), "JOBS", "worker")
	if err != nil {
		t.Fatal(err)
	}
	return worker.CachedInfo()
}

// wantStored fails unless the store of each node itself has the same, from a sequence on.
func wantStored(t *testing.T, nodes []*container, first uint64) {
	t.Helper()
	nodes[0].eventually(func() error {
		var states []jetstream.StreamState
		for _, c := range nodes {
			s, err := c.stored("JOBS")
			if err != nil {
				return fmt.Errorf("%s: %w", c.host, err)
			}
			states = append(states, s)
		}
		for i, s := range states {
			if s.FirstSeq != first || s.LastSeq != states[0].LastSeq || s.Msgs != states[0].Msgs || s.Msgs == 0 {
				return fmt.Errorf("%s: got %d messages, %d to %d, want as on n1: %d, %d to %d", nodes[i].host,
					s.Msgs, s.FirstSeq, s.LastSeq, states[0].Msgs, first, states[0].LastSeq)
			}
		}
		return nil
	})
}

// stored is a stream as the server of this node has it.
func (c *container) stored(name string) (jetstream.StreamState, error) {
	client := http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(_ context.Context, network, addr string) (net.Conn, error) { return c.Dial(network, addr) }}}
	req, err := http.NewRequestWithContext(c.t.Context(), http.MethodGet, "http://127.0.0.1:8222/jsz?streams=true", nil)
	if err != nil {
		return jetstream.StreamState{}, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return jetstream.StreamState{}, err
	}
	defer resp.Body.Close()
	var all struct {
		Accounts []struct {
			Streams []struct {
				Name  string                `json:"name"`
				State jetstream.StreamState `json:"state"`
			} `json:"stream_detail"`
		} `json:"account_details"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&all); err != nil {
		return jetstream.StreamState{}, err
	}
	var names []string
	for _, a := range all.Accounts {
		for _, s := range a.Streams {
			if s.Name == name {
				return s.State, nil
			}
			names = append(names, s.Name)
		}
	}
	return jetstream.StreamState{}, fmt.Errorf("got streams %s, want %s", strings.Join(names, ", "), name)
}
