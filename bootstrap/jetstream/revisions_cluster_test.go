// SPDX-License-Identifier: Apache-2.0

package jetstream_test

import (
	"errors"
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/holdfast-mq/holdfast/appliance/porttest"
	"github.com/holdfast-mq/holdfast/bootstrap"
	"github.com/holdfast-mq/holdfast/bootstrap/jetstream"
)

// startOpenCluster runs three servers as openOptions has them.
func startOpenCluster(t *testing.T) []*server.Server {
	t.Helper()
	var routes []*url.URL
	var ports []int
	for range 3 {
		ports = append(ports, porttest.Free(t, 1))
		routes = append(routes, &url.URL{Scheme: "nats", Host: fmt.Sprintf("127.0.0.1:%d", ports[len(ports)-1])})
	}
	var servers []*server.Server
	for i, port := range ports {
		opts := openOptions(t)
		opts.ServerName = fmt.Sprintf("n%d", i+1)
		opts.DontListen, opts.Host, opts.Port = false, "127.0.0.1", -1 // routes start with the client port
		opts.Cluster = server.ClusterOpts{Name: "c", Host: "127.0.0.1", Port: port}
		opts.Routes = routes
		s, err := server.NewServer(opts)
		if err != nil {
			t.Fatal(err)
		}
		s.Start()
		t.Cleanup(func() {
			s.Shutdown()
			s.WaitForShutdown()
		})
		servers = append(servers, s)
	}
	for _, s := range servers {
		eventually(t, func() error {
			if st := s.Healthz(nil); st.Error != "" {
				return fmt.Errorf("server not healthy: %s", st.Error)
			}
			return nil
		})
	}
	return servers
}

func TestEveryNodeOfAClusterReadsTheLatestRevision(t *testing.T) {
	var nodes []jetstream.Revisions
	var alone jetstream.Revisions
	servers := startOpenCluster(t)
	for _, s := range servers {
		c := openClient(t, s)
		alone = c.Revisions(internal, 1)
		nodes = append(nodes, c.Revisions(internal, 3))
	}
	// The cluster grows around a record that is there already.
	first := bootstrap.Revision{Digest: "0", Objects: map[string]string{}}
	eventually(t, func() (err error) { // nobody may be there yet to hold the stream
		first.ID, err = alone.Begin(t.Context(), first)
		return err
	})
	first = finish(t, alone, first)
	want := bootstrap.History{first}
	for i := range 30 {
		rev := bootstrap.Revision{After: want[len(want)-1].ID, Digest: fmt.Sprint(i + 1), Objects: manyObjects(100)}
		var err error
		eventually(t, func() error { // while replicas are added the leader may change
			rev.ID, err = nodes[i%3].Begin(t.Context(), rev)
			if _, ok := errors.AsType[*jetstream.OvertakenError](err); ok {
				t.Fatal(err)
			}
			return err
		})
		eventually(t, func() error { return nodes[i%3].Finish(t.Context(), rev) })
		rev.Done = true
		want[i].Objects = nil
		want = append(want, rev)
		for n, node := range nodes {
			if diff := cmp.Diff(want, history(t, node), apartFromEnds); diff != "" {
				t.Fatalf("node %d after revision %d: got another history (-want +got):\n%s", n+1, rev.ID, diff)
			}
		}
	}
	if got := replicas(t, servers[0]); got != 3 {
		t.Errorf("got %d replicas, want 3 since the cluster grew", got)
	}
	wantOneWinner(t, nodes[0], want[len(want)-1].ID, nodes...)
}

func replicas(t *testing.T, s *server.Server) int {
	t.Helper()
	nc, err := nats.Connect("", nats.InProcessServer(s))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := nc.JetStream()
	if err != nil {
		t.Fatal(err)
	}
	info, err := js.StreamInfo("REVISIONS")
	if err != nil {
		t.Fatal(err)
	}
	return info.Config.Replicas
}

// In a cluster the other nodes hear of a new stream a moment after it was made.
func TestBeginWaitsUntilTheStreamIsKnown(t *testing.T) {
	c, nc := startWithoutJetStream(t)
	answer := func(subject, text string) {
		if _, err := nc.Subscribe(subject, func(m *nats.Msg) {
			if err := m.Respond([]byte(text)); err != nil {
				t.Error(err)
			}
		}); err != nil {
			t.Error(err)
		}
		if err := nc.Flush(); err != nil {
			t.Error(err)
		}
	}
	answer("$JS.API.STREAM.INFO.REVISIONS", `{"config":{"num_replicas":1,"subjects":["revisions.>"]}}`)
	known := make(chan struct{})
	time.AfterFunc(200*time.Millisecond, func() {
		defer close(known)
		answer("revisions.>", `{"stream":"REVISIONS","seq":7}`)
	})
	id, err := c.Revisions(internal, 1).Begin(t.Context(), bootstrap.Revision{})
	<-known
	if err != nil || id != 7 {
		t.Errorf("got revision %d, %v, want 7", id, err)
	}
}

func TestHistoryIsReadAgainFromAReplicaThatIsBehind(t *testing.T) {
	c, nc := startWithoutJetStream(t)
	subscribe := func(subject string, answer func(*nats.Msg) error) {
		if _, err := nc.Subscribe(subject, func(m *nats.Msg) {
			if err := answer(m); err != nil {
				t.Error(err)
			}
		}); err != nil {
			t.Fatal(err)
		}
	}
	subscribe("$JS.API.STREAM.MSG.GET.REVISIONS", func(m *nats.Msg) error { return m.Respond([]byte(`{"message":{"seq":5,"data":"e30="}}`)) })
	reads := 0
	subscribe("$JS.API.DIRECT.GET.REVISIONS", func(m *nats.Msg) error {
		if reads++; reads == 1 {
			return m.RespondMsg(&nats.Msg{Header: nats.Header{"Status": {"404"}}})
		}
		record := nats.Header{nats.JSSequence: {"5"}, nats.JSSubject: {"revisions.begun"}}
		end := nats.Header{"Status": {"204"}, "Nats-Num-Pending": {"0"}}
		return errors.Join(m.RespondMsg(&nats.Msg{Header: record, Data: []byte("{}")}), m.RespondMsg(&nats.Msg{Header: end}))
	})
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	wantHistory(t, c.Revisions(internal, 3), bootstrap.Revision{ID: 5})
}
