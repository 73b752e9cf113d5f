// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

// ClusterSettings make the server one of several that replicate to each other.
type ClusterSettings struct {
	Name string
	Host string
	Port int
	// Routes are host:port of every node, this one included: the server takes their
	// number for the size of the cluster, and the first election needs them all.
	Routes []string
	// User and Password are what the nodes log in to each other with.
	User, Password string
	// TLS is for both ends of a route. It should answer with callbacks, so that a new
	// certificate counts for the next handshake.
	TLS *tls.Config
	// Private are subjects that stay on each node: nobody hears of what is published there
	// on another one, unless by a subscription that covers more.
	Private []string
	// Closed keeps clients out until Admit, those in the process, too. They get an error
	// after which they try again.
	Closed bool
}

func (c *ClusterSettings) validate() error {
	switch {
	case c == nil:
		return nil
	case c.Name == "" || c.Port == 0 || len(c.Routes) < 2:
		return errors.New("needs a name, a port and the routes of a cluster")
	case c.Password == "" || c.TLS == nil:
		return errors.New("needs a password and TLS for the routes")
	}
	return nil
}

// routesLimit bounds how long the server may take to listen for routes, which it begins
// with behind the caller's back.
const routesLimit = 10 * time.Second

// routePing is how often a route is tried; after three without an answer it is closed.
const routePing = 2 * time.Second

// setCluster goes past the configuration text, which may be shown: there is a password
// in it.
func setCluster(opts *server.Options, c *ClusterSettings) {
	if c == nil {
		return
	}
	// The server begins with its routes when the port for clients is open, and waits for
	// that in vain when it is opened later.
	opts.DontListen = false
	opts.Cluster.Name, opts.Cluster.Host, opts.Cluster.Port = c.Name, c.Host, c.Port
	opts.Cluster.Username, opts.Cluster.Password = c.User, c.Password
	opts.Cluster.TLSConfig, opts.Cluster.TLSTimeout = c.TLS.Clone(), tlsTimeout.Seconds()
	opts.Cluster.Permissions = staying(c.Private)
	if c.Closed {
		opts.MaxConn = -1
	}
	// A node that hears nothing, and is heard, disturbs the others with elections until they
	// notice: a minute and a half with the default of 30 s.
	opts.Cluster.PingInterval = routePing
	// What the others are is in the file; hearsay only adds addresses that can't be reached.
	opts.Cluster.NoAdvertise = true
	for _, addr := range c.Routes {
		opts.Routes = append(opts.Routes, &url.URL{Scheme: "nats-route", Host: addr, User: url.UserPassword(c.User, c.Password)})
	}
}

// staying keeps what is published on subjects on its node: what a server may not import,
// it does not ask the others for.
func staying(subjects []string) *server.RoutePermissions {
	if len(subjects) == 0 {
		return nil
	}
	return &server.RoutePermissions{Import: &server.SubjectPermission{Deny: subjects}}
}

// Member is a node of the cluster, as this one sees it.
type Member struct {
	Name string
	// Self is this node.
	Self bool
	// Connected is true while there is a route; RTT is its round trip then, and Address
	// where it goes.
	Connected bool
	RTT       time.Duration
	Address   string
}

// ClusterState is what this node knows of the cluster.
type ClusterState struct {
	// Leader is the node that decides on streams and consumers; empty while there is none.
	Leader string
	// Quorum is how many nodes have to be up for that, of Size.
	Size, Quorum int
	Members      []Member // by name
}

// Admit lets clients in that Closed kept out.
//
// A server that starts gets its streams first, and their consumers one after the other. An
// acknowledgement that comes in between removes a message of a stream with retention
// interest that a consumer has not had which the server does not know yet (stream.go,
// ackMsg, of nats-server 2.15.3).
func (e *Engine) Admit() error {
	open := e.opts.Clone()
	open.MaxConn = server.DEFAULT_MAX_CONNECTIONS
	open.TrustedKeys = nil // which the server has from TrustedOperators
	if err := e.server.ReloadOptions(open); err != nil {
		return diag.Fail(diag.CodeEngine, fmt.Errorf("let clients in: %w", err), "restart the node")
	}
	return nil
}

// Clustered reports whether the server is one of several.
func (e *Engine) Clustered() bool { return e.settings.Cluster != nil }

// Leads reports whether this node decides on streams and consumers. A node that is
// alone does.
func (e *Engine) Leads() bool { return !e.Clustered() || e.server.JetStreamIsLeader() }

// Whole reports why this node does not have everything that it should: what the cluster
// agreed on, and all messages and positions of the streams it keeps a copy of. Nothing
// when it does.
func (e *Engine) Whole() error { return e.healthz(server.HealthzOptions{}) }

// Connected are the names of the other nodes that there is a route to; none on a single
// node.
func (e *Engine) Connected() ([]string, error) {
	state, err := e.Cluster()
	var out []string
	for _, m := range state.Members {
		if m.Connected && !m.Self {
			out = append(out, m.Name)
		}
	}
	return out, err
}

// Cluster returns the state of the cluster; the zero value on a single node.
func (e *Engine) Cluster() (ClusterState, error) {
	if !e.Clustered() {
		return ClusterState{}, nil
	}
	routes, err := e.server.Routez(nil)
	if err != nil {
		return ClusterState{}, fmt.Errorf("read the routes: %w", err)
	}
	js, err := e.server.Jsz(nil)
	if err != nil {
		return ClusterState{}, fmt.Errorf("read the state of JetStream: %w", err)
	}
	members := map[string]*Member{e.settings.NodeName: {Name: e.settings.NodeName, Self: true, Connected: true}}
	member := func(name string) *Member {
		if members[name] == nil {
			members[name] = &Member{Name: name}
		}
		return members[name]
	}
	for _, r := range routes.Routes {
		m := member(r.RemoteName)
		m.Connected, m.Address = true, r.IP
		if rtt, err := time.ParseDuration(r.RTT); err == nil && (m.RTT == 0 || rtt < m.RTT) {
			m.RTT = rtt
		}
	}
	var out ClusterState
	if meta := js.Meta; meta != nil {
		out.Leader, out.Size, out.Quorum = meta.Leader, meta.Size, meta.QuorumNeeded
		for _, p := range meta.Replicas {
			member(NodeName(p.Name))
		}
	}
	for _, m := range members {
		out.Members = append(out.Members, *m)
	}
	slices.SortFunc(out.Members, func(a, b Member) int { return cmp.Compare(a.Name, b.Name) })
	return out, nil
}
