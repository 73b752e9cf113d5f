// SPDX-License-Identifier: Apache-2.0

package ingest

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/holdfast-mq/holdfast/appliance/porttest"
)

// cluster is three real servers with the same account.
type cluster struct {
	t     testing.TB
	nodes []*lab
}

// newCluster starts servers that lead what is published for the lanes through ingest.
func newCluster(t testing.TB, lanes []Lane) *cluster {
	t.Helper()
	c := &cluster{t: t}
	realm := newRealm(t, lanes)
	var routes []*url.URL
	for i := range 3 {
		n := *realm
		n.opts = realm.opts.Clone()
		n.opts.ServerName, n.opts.StoreDir = fmt.Sprint("n", i), t.TempDir()
		n.opts.Cluster = server.ClusterOpts{Name: "lab", Host: "127.0.0.1", Port: porttest.Free(t, 1), Permissions: &server.RoutePermissions{
			// As the engine has it: what is private stays on its node.
			Import: &server.SubjectPermission{Deny: []string{Own}},
		}}
		routes = append(routes, &url.URL{Scheme: "nats-route", Host: fmt.Sprint("127.0.0.1:", n.opts.Cluster.Port)})
		c.nodes = append(c.nodes, &n)
	}
	for _, n := range c.nodes {
		n.opts.Routes = routes
		n.server = must[*server.Server](t)(server.NewServer(n.opts.Clone()))
		s := n.server
		t.Cleanup(func() {
			s.Shutdown()
			s.WaitForShutdown()
		})
		go s.Start()
	}
	eventually(t, 30*time.Second, func() error {
		for _, n := range c.nodes {
			if !n.server.ReadyForConnections(time.Second) || !n.server.JetStreamIsCurrent() {
				return errors.New("the cluster does not start")
			}
		}
		return nil
	})
	return c
}

// connect connects to a node, and then to another when that is gone.
func (c *cluster) connect(node int) *nats.Conn {
	c.t.Helper()
	return c.nodes[node%3].connect(nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond))
}

// publish starts publishers, one after the other on each node.
func (c *cluster) publish(t *testing.T, publishers int, prefix string, within time.Duration) *load {
	t.Helper()
	return publish(t, c.connect, publishers, prefix, within)
}

// stream creates a stream with three copies, and waits for it to have a leader.
func (c *cluster) stream(cfg jetstream.StreamConfig) {
	c.t.Helper()
	cfg.Replicas = 3
	js := must[jetstream.JetStream](c.t)(jetstream.New(c.connect(0)))
	eventually(c.t, 20*time.Second, func() error {
		_, err := js.CreateStream(c.t.Context(), cfg)
		return err
	})
	c.leader(cfg.Name)
}

// leader returns the node that leads a stream, when it is one.
func (c *cluster) leader(stream string) int {
	c.t.Helper()
	leader := -1
	eventually(c.t, 20*time.Second, func() error {
		leader = -1
		n := 0
		for i, l := range c.nodes {
			if l.leads("", stream) {
				leader = i
				n++
			}
		}
		if n != 1 {
			return fmt.Errorf("%d nodes lead %s", n, stream)
		}
		return nil
	})
	return leader
}

// stepDown has another node lead a stream.
func (c *cluster) stepDown(nc *nats.Conn, stream string) {
	c.t.Helper()
	before := c.leader(stream)
	m, err := nc.Request("$JS.API.STREAM.LEADER.STEPDOWN."+stream, nil, 10*time.Second)
	if err != nil || !strings.Contains(string(m.Data), `"success":true`) {
		c.t.Fatalf("step down: %v, %v", m, err)
	}
	eventually(c.t, 20*time.Second, func() error {
		if c.leader(stream) == before {
			return fmt.Errorf("node %d still leads %s", before, stream)
		}
		return nil
	})
}

// ingest starts carrying the lanes on each node.
func (c *cluster) ingest(lanes []Lane) (out []*Ingest) {
	c.t.Helper()
	for _, n := range c.nodes {
		out = append(out, n.ingest(lanes))
	}
	return out
}

// carried waits until a stream's publishers have somebody who takes what they send.
func (c *cluster) carried(streams ...string) {
	c.t.Helper()
	for _, s := range streams {
		eventually(c.t, 20*time.Second, func() error {
			for _, n := range c.nodes {
				if !n.Interest("", inPrefix+s+".any") {
					return errors.New("nobody listens to what is for " + s)
				}
			}
			return nil
		})
	}
}
