// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/holdfast-mq/holdfast/appliance/porttest"
)

var errNotYet = errors.New("not yet")

// requestLimit is for one request: what is asked for while leaders are chosen has no
// answer and is asked for again.
const requestLimit = 3 * time.Second

// cluster runs three engines that are one cluster, by the names of their nodes. Stores
// are in directories of their own, but for those that are given.
func cluster(t *testing.T, r *realm, stores map[string]string) map[string]*Engine {
	t.Helper()
	var routes []*url.URL
	var ports []int
	for range 3 {
		ports = append(ports, porttest.Free(t, 1))
		routes = append(routes, &url.URL{Scheme: "nats", Host: fmt.Sprintf("127.0.0.1:%d", ports[len(ports)-1])})
	}
	engines := make(map[string]*Engine)
	preload := r.settings(t).Preload
	for i, port := range ports {
		s := r.settings(t)
		s.NodeName, s.Preload = fmt.Sprintf("n%d", i+1), preload
		if dir := stores[s.NodeName]; dir != "" {
			s.StoreDir = dir
		}
		opts, err := options(s)
		if err != nil {
			t.Fatal(err)
		}
		opts.Cluster = server.ClusterOpts{
			Name: "c", Host: "127.0.0.1", Port: port, Permissions: staying([]string{"_own.>"}),
		}
		opts.Routes = routes
		// A server that does not listen from its start never begins with its routes.
		opts.DontListen = false
		e, err := build(s, opts, r.names(), discard())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := e.Stop(); err != nil {
				t.Errorf("Stop: %v", err)
			}
		})
		if err := e.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		engines[s.NodeName] = e
	}
	for _, e := range engines {
		eventually(t, e.JetStreamReady)
	}
	return engines
}

// threefold makes a stream with three copies, and returns who leads it.
func threefold(t *testing.T, js jetstream.JetStream) (leader string) {
	t.Helper()
	eventually(t, func() error {
		_, err := js.CreateOrUpdateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}, Replicas: 3})
		return err
	})
	eventually(t, func() error {
		s, err := js.Stream(t.Context(), "S")
		if err != nil {
			return err
		}
		c := s.CachedInfo().Cluster
		if c == nil || c.Leader == "" || len(c.Replicas) != 2 || !c.Replicas[0].Current || !c.Replicas[1].Current {
			return fmt.Errorf("got %+v, want a leader and two copies", c)
		}
		leader = c.Leader
		return nil
	})
	return leader
}

// has waits until a node has stored a stream up to a sequence.
func has(t *testing.T, r *realm, e *Engine, last uint64) {
	t.Helper()
	eventually(t, func() error { return r.copied(t, e, last) })
}

// copied is nil when a node's copy of the stream has all messages up to a sequence.
func (r *realm) copied(t *testing.T, e *Engine, last uint64) error {
	t.Helper()
	detail, err := e.server.JszAccount(&server.JSzOptions{Account: r.public(t, "shop"), Streams: true})
	if err != nil {
		return err
	}
	for _, s := range detail.Streams {
		if s.Name == "S" && s.State.LastSeq >= last && s.State.Msgs == s.State.LastSeq {
			return nil
		}
	}
	return fmt.Errorf("got %+v, want messages up to %d", detail.Streams, last)
}

// TestPrivateSubjectsStayOnTheirNode pins what group commit relies on: each node carries
// what its own clients publish, and nothing else about the subjects of others changes.
func TestPrivateSubjectsStayOnTheirNode(t *testing.T) {
	r := newRealm(t, "shop")
	engines := cluster(t, r, nil)
	here, there := connect(t, r, engines["n1"], "shop"), connect(t, r, engines["n2"], "shop")
	answer := func(nc *nats.Conn, name, subject string) {
		t.Helper()
		if _, err := nc.Subscribe(subject, func(m *nats.Msg) { _ = m.Respond([]byte(name)) }); err != nil {
			t.Fatal(err)
		}
		if err := nc.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	asked := func(nc *nats.Conn, subject string) string {
		m, err := nc.Request(subject, nil, requestLimit)
		if err != nil {
			return err.Error()
		}
		return string(m.Data)
	}
	answer(here, "here", "_own.in.>")
	answer(here, "here", "other.in.>")
	// What comes later on the same route has come after it.
	eventually(t, func() error {
		if got := asked(there, "other.in.a"); got != "here" {
			return errors.New(got)
		}
		return nil
	})
	if got := asked(here, "_own.in.a"); got != "here" {
		t.Errorf("asked on the node itself: got %q, want its own answer", got)
	}
	if got, want := asked(there, "_own.in.a"), nats.ErrNoResponders.Error(); got != want {
		t.Errorf("asked on another node: got %q, want %q", got, want)
	}
	answer(there, "there", "_own.in.>")
	for range 20 {
		if got := asked(here, "_own.in.a"); got != "here" {
			t.Fatalf("asked on the node itself: got %q, want its own answer", got)
		}
		if got := asked(there, "_own.in.a"); got != "there" {
			t.Fatalf("asked on another node: got %q, want that one's answer", got)
		}
	}
}

// TestBrakeInAClusterIsThatOfTheLeader pins what docs/adr/0009 says.
func TestBrakeInAClusterIsThatOfTheLeader(t *testing.T) {
	r := newRealm(t, "shop")
	engines := cluster(t, r, nil)
	accounts := []string{engines["n1"].settings.Preload[r.public(t, "shop")]}
	clients := map[string]jetstream.JetStream{}
	for name, e := range engines {
		js, err := jetstream.New(connect(t, r, e, "shop"), jetstream.WithDefaultTimeout(requestLimit))
		if err != nil {
			t.Fatal(err)
		}
		clients[name] = js
	}
	leader := threefold(t, clients["n1"])
	last := uint64(0)
	publish := func(node string) error {
		ack, err := clients[node].Publish(t.Context(), "s", []byte("m"))
		if err == nil {
			last = ack.Sequence
		}
		return err
	}
	if err := publish(leader); err != nil {
		t.Fatal(err)
	}
	for name, e := range engines {
		if err := e.Brake(true, accounts); err != nil {
			t.Fatal(err)
		}
		for from := range engines {
			err, apiErr := publish(from), new(jetstream.APIError)
			refused := errors.As(err, &apiErr) && apiErr.ErrorCode == full
			if name == leader && !refused {
				t.Errorf("got %v from %s while its leader brakes, want error %d", err, from, full)
			}
			if name != leader && err != nil {
				t.Errorf("got %v from %s while a follower brakes, want it stored", err, from)
			}
		}
		if name != leader {
			has(t, r, e, last) // a follower that brakes stores on: it is not behind
		}
		if err := e.Brake(false, accounts); err != nil {
			t.Fatal(err)
		}
	}
	if err := publish(leader); err != nil {
		t.Errorf("got %v after the brake, want it stored", err)
	}
	for _, e := range engines {
		has(t, r, e, last)
	}
}

// TestANodeKnowsWhatItKeeps has a stream on all nodes with a consumer on one, and a stream
// on one.
func TestANodeKnowsWhatItKeeps(t *testing.T) {
	r := newRealm(t, "shop")
	engines := cluster(t, r, nil)
	js, err := jetstream.New(connect(t, r, engines["n1"], "shop"), jetstream.WithDefaultTimeout(requestLimit))
	if err != nil {
		t.Fatal(err)
	}
	threefold(t, js)
	eventually(t, func() error {
		_, err := js.CreateOrUpdateStream(t.Context(), jetstream.StreamConfig{Name: "ONE", Subjects: []string{"one"}, Replicas: 1})
		return err
	})
	for name, copies := range map[string]int{"one": 1, "all": 3} {
		eventually(t, func() error {
			_, err := js.CreateOrUpdateConsumer(t.Context(), "S", jetstream.ConsumerConfig{Durable: name, Replicas: copies})
			return err
		})
	}
	for _, e := range engines {
		e.settings.Cluster = &ClusterSettings{} // which the helper did not need
	}
	for _, c := range []struct {
		stream, consumer string
		want             int
	}{
		{"S", "", 3}, {"ONE", "", 1}, {"S", "one", 1}, {"S", "all", 3}, {"NONE", "", 0}, {"NONE", "all", 0}, {"ONE", "all", 0}, {"S", "none", 0},
	} {
		eventually(t, func() error {
			got := 0
			for _, e := range engines {
				if e.Keeps(r.public(t, "shop"), c.stream, c.consumer) {
					got++
				}
			}
			if got != c.want {
				return fmt.Errorf("%s/%s: got %d nodes that keep it, want %d", c.stream, c.consumer, got, c.want)
			}
			return nil
		})
	}
}
