// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/holdfast-mq/holdfast/appliance/certs"
	"github.com/holdfast-mq/holdfast/appliance/config"
	"github.com/holdfast-mq/holdfast/appliance/datadir"
	"github.com/holdfast-mq/holdfast/appliance/diag"
	"github.com/holdfast-mq/holdfast/appliance/engine"
	"github.com/holdfast-mq/holdfast/appliance/ingest"
	"github.com/holdfast-mq/holdfast/appliance/join"
	"github.com/holdfast-mq/holdfast/bootstrap/identity"
	"github.com/holdfast-mq/holdfast/bootstrap/jetstream"
)

// routeUser is who the nodes log in to each other as.
const routeUser = "route"

// cluster is what a node has as one of several; nil on a single node.
type cluster struct {
	config   *config.Cluster
	secret   []byte
	routes   *certs.Store
	listener net.Listener // of keeper
	keeper   *join.Keeper
	invites  *invites
	shared   *jetstream.Shared
	news     chan struct{} // the shared identity changed

	mu    sync.Mutex
	self  int             // which of cluster.peers this node is; -1 while that is not known
	peers map[string]peer // by address, as cluster.peers has it
	sightings
}

// peer is what a node said about itself, or why it said nothing.
type peer struct {
	answer join.Answer
	asked  time.Time     // when it answered last
	ahead  time.Duration // its clock, give or take unsure
	unsure time.Duration
	err    error
}

// openCluster prepares what a node of a cluster needs, before the engine. A store of the
// other kind is not opened as it is: a server of a cluster deletes the streams of a single
// one, and a single server would go on with a copy that others go on with, too.
func (a *Appliance) openCluster() error {
	kind, err := engine.StoreOf(a.dir.StoreDir())
	if err != nil {
		return err
	}
	if a.opts.Config.Cluster == nil {
		if kind == engine.ClusterStore {
			return diag.FailPermanently(diag.CodeClusterStore, fmt.Errorf("data directory %s is that of a node of a cluster", a.dir.Path()),
				"put the block `cluster:` back into the file: alone it would go on with messages that the other nodes go on with, too")
		}
		return a.forgetGrowth()
	}
	c, err := a.newCluster(a.opts.Config.Cluster)
	if err != nil {
		return err
	}
	if kind == engine.SingleStore {
		a.beginGrowth(c)
		return nil
	}
	a.cluster = c
	return errors.Join(a.openHeld(), a.resumeSpreading())
}

func (a *Appliance) newCluster(c *config.Cluster) (*cluster, error) {
	if err := a.dir.MakeRoutesDir(); err != nil {
		return nil, err
	}
	secret, err := c.Secret.Reveal()
	if err != nil {
		return nil, err
	}
	var names []string
	for _, p := range c.Peers {
		if host, _, err := net.SplitHostPort(p); err == nil {
			names = append(names, host)
		}
	}
	out := &cluster{config: c, secret: []byte(secret), self: -1, peers: map[string]peer{}, news: make(chan struct{}, 1), sightings: newSightings()}
	out.invites = newInvites(a.wholeConfig, a.dir, out.secret, a.log, out.taken)
	out.routes, err = certs.OpenAuto(certs.Options{
		Dir: a.dir.RoutesDir(), Write: datadir.WriteFile, Now: time.Now, Names: names, NodeName: a.dir.NodeName(), BothEnds: true,
	})
	if err != nil {
		return nil, err
	}
	out.listener, err = listenJoin(c)
	return out, err
}

// others is what the node has of the cluster, before and after it is one of it; nil on a
// single node.
func (a *Appliance) others() *cluster {
	if a.growth != nil {
		return a.growth.cluster
	}
	return a.cluster
}

// serveCluster answers the other nodes, once there is something to answer with.
func (a *Appliance) serveCluster() error {
	c := a.others()
	if c == nil {
		return nil
	}
	var err error
	c.keeper, err = join.Serve(c.listener, c.secret, a.introduce, c.invites, a.log)
	return err
}

// close ends what openCluster and serveCluster began.
func (c *cluster) close() error {
	switch {
	case c.keeper != nil:
		return c.keeper.Close()
	case c.listener != nil:
		return c.listener.Close()
	}
	return nil
}

// introduce answers another node.
func (a *Appliance) introduce(r join.Request) join.Answer {
	out := a.describe()
	operator, err := a.identity.Operator()
	switch {
	case err != nil:
		out.Refused, out.Wait = err.Error(), true
		return out
	case r.Operator != "" && r.Operator != operator:
		out.Refused = "it has the identity of another cluster"
		return out
	}
	if out.Refused = fits(a.others().config, out.Node, r); out.Refused != "" || r.Look {
		return out
	}
	if r.Process == out.Process {
		return out // it asked itself
	}
	if r.Node == out.Node || a.connectedTo(r.Node) && r.Operator == "" {
		a.tellSameName(r)
		out.Refused = fmt.Sprintf("there is a node %q in the cluster already; each needs a name and a data directory of its own", r.Node)
		return out
	}
	if r.Operator != "" {
		return out
	}
	out.Identity, err = a.identity.Export()
	if err == nil {
		out.Routes, err = certs.Authority(a.dir.RoutesDir())
	}
	if err == nil && a.clientCerts != nil && a.opts.Config.Listen.TLS.Mode != "files" {
		out.Clients, err = certs.Authority(a.dir.TLSDir())
	}
	if err != nil {
		out.Identity, out.Routes, out.Clients = nil, nil, nil
		out.Refused, out.Wait = err.Error(), true
		return out
	}
	a.log.Warn("identity handed to a node that joins", keyNode, r.Node, keyVersion, r.Version)
	return out
}

func (a *Appliance) connectedTo(name string) bool {
	s, err := a.engine.Cluster()
	if err != nil {
		return false
	}
	for _, m := range s.Members {
		if m.Name == name && m.Connected && !m.Self {
			return true
		}
	}
	return false
}

// engineCluster is the cluster as the engine needs it; nil on a single node.
func (a *Appliance) engineCluster() (*engine.ClusterSettings, error) {
	if a.cluster == nil {
		return nil, nil //nolint:nilnil // no cluster, no fault
	}
	return a.cluster.engineSettings()
}

func (c *cluster) engineSettings() (*engine.ClusterSettings, error) {
	password, err := hkdf.Key(sha256.New, c.secret, nil, "holdfast routes", 32)
	if err != nil {
		return nil, fmt.Errorf("make the password of the routes: %w", err)
	}
	host, port := c.config.Routes().Split()
	return &engine.ClusterSettings{
		Name: c.config.Name, Host: host, Port: port, Routes: c.config.Peers,
		User: routeUser, Password: hex.EncodeToString(password), TLS: c.routes.RouteTLSConfig(),
		Private: []string{ingest.Own},
	}, nil
}

// sharedIdentity is where the cluster keeps its identity, for package identity.
type sharedIdentity struct {
	*jetstream.Shared
	leader func() string
}

func (s sharedIdentity) Load() ([]byte, uint64, error) {
	if s.leader() == "" {
		return nil, 0, errNoLeader
	}
	return s.Shared.Load(context.Background()) // bounds itself
}

func (s sharedIdentity) Store(data []byte, after uint64) (uint64, error) {
	return s.Shared.Store(context.Background(), data, after) // bounds itself
}

// shareIdentity makes the identity that of the cluster.
func (a *Appliance) shareIdentity() error {
	if a.cluster == nil || a.held != "" {
		return nil
	}
	shared, err := a.js.Shared(identity.InternalName, a.nodes(), a.cluster.secret)
	if err != nil {
		return err
	}
	a.cluster.shared = shared
	a.identity.Share(sharedIdentity{shared, a.leader}, func() { signalOnce(a.cluster.news) })
	return nil
}

// nodes is how many nodes there are.
func (a *Appliance) nodes() int { return a.opts.Config.Nodes() }

// errNoLeader keeps requests from waiting for somebody who is not there.
var errNoLeader = diag.Fail(diag.CodeNotReady, errors.New("the cluster has no leader yet"), "most nodes have to be up, at the first start all; `holdfast cluster status` says for whom this one waits")

// leader is who decides on streams and consumers; "" while nobody does.
func (a *Appliance) leader() string {
	s, err := a.engine.Cluster()
	if err != nil {
		return ""
	}
	return s.Leader
}

// catchUp takes what another node changed of the identity.
func (a *Appliance) catchUp(ctx context.Context) error {
	if a.cluster == nil || a.cluster.shared == nil {
		return nil
	}
	if err := a.identity.CatchUp(); err != nil {
		return err
	}
	a.rememberKeys()
	err := errors.Join(a.writeCreds(), a.publishIdentity(ctx))
	a.tellShared()
	return err
}
