// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/holdfast-mq/holdfast/appliance/porttest"
)

// threeNodes are the nodes of a cluster, each of which can be started again on another
// store.
type threeNodes struct {
	t      *testing.T
	r      *realm
	routes []*url.URL
	stores map[string]string
	tags   map[string][]string
	pre    map[string]string
}

func newThreeNodes(t *testing.T, r *realm) *threeNodes {
	t.Helper()
	c := &threeNodes{t: t, r: r, stores: map[string]string{}, tags: map[string][]string{}, pre: r.settings(t).Preload}
	for i := range 3 {
		c.routes = append(c.routes, &url.URL{Scheme: "nats", Host: fmt.Sprintf("127.0.0.1:%d", porttest.Free(t, 1))})
		c.stores[fmt.Sprintf("n%d", i+1)] = t.TempDir()
	}
	return c
}

func (c *threeNodes) start(i int) *Engine {
	c.t.Helper()
	s := c.r.settings(c.t)
	s.SyncAlways = true
	s.NodeName, s.Preload = fmt.Sprintf("n%d", i), c.pre
	s.StoreDir, s.Tags = c.stores[s.NodeName], c.tags[s.NodeName]
	opts, err := options(s)
	if err != nil {
		c.t.Fatal(err)
	}
	host, port, err := net.SplitHostPort(c.routes[i-1].Host)
	if err != nil {
		c.t.Fatal(err)
	}
	opts.Cluster = server.ClusterOpts{Name: "c", Host: host}
	if _, err := fmt.Sscan(port, &opts.Cluster.Port); err != nil {
		c.t.Fatal(err)
	}
	opts.Routes = c.routes
	opts.DontListen = false
	e, err := build(s, opts, c.r.names(), discard())
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		if err := e.Stop(); err != nil {
			c.t.Errorf("Stop: %v", err)
		}
	})
	if err := e.Start(c.t.Context()); err != nil {
		c.t.Fatal(err)
	}
	return e
}

// kinds are streams that a server treats differently when they come back.
var kinds = map[string]jetstream.StreamConfig{
	"LIMITS":   {Name: "LIMITS", Subjects: []string{"limits"}},
	"QUEUE":    {Name: "QUEUE", Subjects: []string{"queue"}, Retention: jetstream.WorkQueuePolicy},
	"INTEREST": {Name: "INTEREST", Subjects: []string{"interest"}, Retention: jetstream.InterestPolicy},
	"SEALED":   {Name: "SEALED", Subjects: []string{"sealed"}},
}

// fillKinds makes the streams with a consumer each, some of whose messages are
// acknowledged.
func fillKinds(t *testing.T, js jetstream.JetStream) {
	t.Helper()
	for name, cfg := range kinds {
		if _, err := js.CreateStream(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
		c, err := js.CreateConsumer(t.Context(), name, jetstream.ConsumerConfig{Durable: "c", AckPolicy: jetstream.AckExplicitPolicy, AckWait: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 100 {
			if _, err := js.Publish(t.Context(), cfg.Subjects[0], []byte(fmt.Sprint(i))); err != nil {
				t.Fatal(err)
			}
		}
		b, err := c.Fetch(20)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for m := range b.Messages() {
			if n++; n%5 == 0 {
				continue // a gap
			}
			if err := m.DoubleAck(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	cfg := kinds["SEALED"]
	cfg.Sealed = true
	if _, err := js.UpdateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
}

// stateOf is what must be the same in a cluster.
func stateOf(t *testing.T, js jetstream.JetStream) (map[string]string, error) {
	t.Helper()
	out := map[string]string{}
	for name := range kinds {
		s, err := js.Stream(t.Context(), name)
		if err != nil {
			return nil, err
		}
		c, err := js.Consumer(t.Context(), name, "c")
		if err != nil {
			return nil, err
		}
		st, ci := s.CachedInfo().State, c.CachedInfo()
		out[name] = fmt.Sprintf("%d messages %d-%d, %d bytes, %d deleted, from %v; delivered %d/%d, floor %d/%d, %d pending, %d ack pending", st.Msgs, st.FirstSeq, st.LastSeq, st.Bytes, st.NumDeleted, st.FirstTime,
			ci.Delivered.Consumer, ci.Delivered.Stream, ci.AckFloor.Consumer, ci.AckFloor.Stream, ci.NumPending, ci.NumAckPending)
	}
	return out, nil
}

func asked(t *testing.T, nc *nats.Conn, subject string, body any) {
	t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		m, err := nc.Request("$JS.API."+subject, text, requestLimit)
		if err != nil {
			return err
		}
		var answer struct {
			Error *struct{ Description string } `json:"error"`
		}
		if err := json.Unmarshal(m.Data, &answer); err != nil || answer.Error != nil {
			return fmt.Errorf("%s: %s", subject, m.Data)
		}
		return nil
	})
}

// TestStoreEntersACluster takes the store of a single node into a cluster: what a server
// does with streams that it finds, and is assigned.
func TestStoreEntersACluster(t *testing.T) {
	r := newRealm(t, "shop")
	s := r.settings(t)
	s.SyncAlways = true
	single := started(t, r, s, nil)
	js, err := jetstream.New(connect(t, r, single, "shop"), jetstream.WithDefaultTimeout(patience))
	if err != nil {
		t.Fatal(err)
	}
	fillKinds(t, js)
	want, err := stateOf(t, js)
	if err != nil {
		t.Fatal(err)
	}
	if err := single.Stop(); err != nil {
		t.Fatal(err)
	}
	inventory, err := TakeInventory(s.StoreDir)
	if err != nil || len(inventory) != len(kinds) {
		t.Fatalf("got %d streams and %v, want %d", len(inventory), err, len(kinds))
	}

	c := newThreeNodes(t, r)
	c.pre, c.tags["n1"] = s.Preload, []string{"here"}
	engines := []*Engine{c.start(1), c.start(2), c.start(3)}
	for _, e := range engines {
		eventually(t, e.JetStreamReady)
	}
	nc := connect(t, r, engines[0], "shop")
	for _, st := range inventory {
		config := st.Config
		sealed := config["sealed"] == true
		delete(config, "sealed") // none is made sealed
		config["num_replicas"], config["placement"] = 1, map[string]any{"tags": []string{"here"}}
		asked(t, nc, "STREAM.CREATE."+st.Stream, config)
		for name, consumer := range st.Consumers {
			asked(t, nc, "CONSUMER.CREATE."+st.Stream+"."+name, map[string]any{"stream_name": st.Stream, "config": consumer})
		}
		if sealed {
			config["sealed"] = true
			asked(t, nc, "STREAM.UPDATE."+st.Stream, config)
		}
	}
	if err := engines[0].Stop(); err != nil {
		t.Fatal(err)
	}
	kept := filepath.Join(s.StoreDir, "kept")
	if err := KeepLinks(s.StoreDir, kept); err != nil {
		t.Fatal(err)
	}
	// That of an earlier try is not taken for this one's.
	stale := filepath.Join(kept, "stale")
	if err := os.WriteFile(stale, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := KeepLinks(s.StoreDir, kept); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(stale); !os.IsNotExist(err) {
		t.Errorf("got %v, want what is kept made anew", err)
	}
	if kind, err := StoreOf(s.StoreDir); err != nil || kind != SingleStore {
		t.Errorf("got %v and %v, want the store of a single node", kind, err)
	}
	if err := Enter(s.StoreDir, c.stores["n1"], r.public(t, "SYS")); err != nil {
		t.Fatal(err)
	}
	if kind, err := StoreOf(s.StoreDir); err != nil || kind != ClusterStore {
		t.Errorf("got %v and %v, want the store of a node of a cluster", kind, err)
	}
	c.stores["n1"], c.tags["n1"] = s.StoreDir, nil
	engines[0] = c.start(1)
	if js, err = jetstream.New(connect(t, r, engines[0], "shop"), jetstream.WithDefaultTimeout(requestLimit)); err != nil {
		t.Fatal(err)
	}
	same := func() error {
		got, err := stateOf(t, js)
		if err == nil && !reflect.DeepEqual(got, want) {
			err = fmt.Errorf("got %v\nwant %v", got, want)
		}
		return err
	}
	eventually(t, same)
	for name, cfg := range kinds {
		cfg.Replicas, cfg.Sealed = 3, name == "SEALED"
		cfg.DenyDelete, cfg.DenyPurge = cfg.Sealed, cfg.Sealed
		eventually(t, func() error {
			if _, err := js.UpdateStream(t.Context(), cfg); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			return nil
		})
	}
	eventually(t, func() error { // each copy has everything
		for name := range kinds {
			s, err := js.Stream(t.Context(), name)
			if err != nil {
				return err
			}
			c, err := js.Consumer(t.Context(), name, "c")
			if err != nil {
				return err
			}
			for _, info := range []*jetstream.ClusterInfo{s.CachedInfo().Cluster, c.CachedInfo().Cluster} {
				if info == nil || len(info.Replicas) != 2 || !info.Replicas[0].Current || !info.Replicas[1].Current {
					return fmt.Errorf("got %+v, want two copies besides the leader's", info)
				}
			}
		}
		return nil
	})
	if err := engines[0].Stop(); err != nil { // the one that brought them
		t.Fatal(err)
	}
	if js, err = jetstream.New(connect(t, r, engines[1], "shop"), jetstream.WithDefaultTimeout(requestLimit)); err != nil {
		t.Fatal(err)
	}
	eventually(t, same)
	if blocks, err := filepath.Glob(filepath.Join(kept, "jetstream", "*", "streams", "*", "msgs", "*.blk")); err != nil || len(blocks) < len(kinds) {
		t.Errorf("got %v and %v, want the blocks of all streams", blocks, err)
	}
}

// TestServerRemovesWhatItWasNotAssigned is why a store does not enter a cluster as it is.
func TestServerRemovesWhatItWasNotAssigned(t *testing.T) {
	r := newRealm(t, "shop")
	s := r.settings(t)
	e := started(t, r, s, nil)
	fill(t, r, e, "shop", 1, 3)
	if err := e.Stop(); err != nil {
		t.Fatal(err)
	}
	kept := filepath.Join(t.TempDir(), "kept") // on the same volume
	if err := KeepLinks(s.StoreDir, kept); err != nil {
		t.Fatal(err)
	}
	c := newThreeNodes(t, r)
	c.pre, c.stores["n1"] = s.Preload, s.StoreDir
	for i := range 3 {
		c.start(i + 1)
	}
	dir := filepath.Join(s.StoreDir, server.JetStreamStoreDir, r.public(t, "shop"), streamsDir, "S0")
	deadline := time.NewTimer(2 * patience)
	defer deadline.Stop()
	for tick := time.Tick(100 * time.Millisecond); ; {
		if _, err := os.Stat(dir); os.IsNotExist(err) {
			break
		}
		select {
		case <-tick:
		case <-deadline.C:
			t.Fatal("got the stream still there; if a server keeps it by now, a store could enter a cluster as it is")
		}
	}
	// What was kept beside it opens as it was.
	s.StoreDir = kept
	again := started(t, r, s, nil)
	js, err := jetstream.New(connect(t, r, again, "shop"))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := js.Stream(t.Context(), "S0"); err != nil || got.CachedInfo().State.Msgs != 3 {
		t.Errorf("got %v and %v, want 3 messages", got, err)
	}
}
