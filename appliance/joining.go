// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-mq/holdfast/appliance/admin"
	"github.com/holdfast-mq/holdfast/appliance/certs"
	"github.com/holdfast-mq/holdfast/appliance/config"
	"github.com/holdfast-mq/holdfast/appliance/datadir"
	"github.com/holdfast-mq/holdfast/appliance/diag"
	"github.com/holdfast-mq/holdfast/appliance/engine"
	"github.com/holdfast-mq/holdfast/appliance/join"
	"github.com/holdfast-mq/holdfast/bootstrap/identity"
)

const (
	// joinEvery is how often a node without an identity asks the others for it.
	joinEvery = time.Second
	// joinTold is how often it says that it still waits.
	joinTold = 30 * time.Second
)

// Join gives a node of a cluster that has no identity yet that of the others, and waits
// for them as long as it takes. A node that has one, or needs none, is not kept.
//
// Whoever has the identity hands it out. Where all nodes say that they have none, the
// first of cluster.peers makes it, by returning from here: a first node that lost its
// disk does not make another one, and neither does one that can't reach the others.
func Join(ctx context.Context, o Options) (err error) {
	if o.Config.Cluster == nil {
		return nil
	}
	dir, err := datadir.Open(o.Config.Node.DataDir, datadir.Options{
		Version: o.Version, NodeName: o.Config.Node.Name, AllowUnsafe: o.AllowUnsafe,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	stored, err := dir.StoredAccounts()
	if err != nil {
		return err
	}
	if _, err := os.Lstat(dir.IdentityFile()); err == nil || len(stored) > 0 {
		return nil // a store without an identity is refused by Open
	}
	secret, err := o.Config.Cluster.Secret.Reveal()
	if err != nil {
		return err
	}
	j := &joining{opts: o, dir: dir, secret: []byte(secret), started: time.Now(), waits: map[string]error{}, clocks: map[string]bool{}}
	j.invites = newInvites(func() *config.Config { return o.Config }, dir, j.secret, o.Log, func() map[string]string { return nil })
	closeServers, err := j.serve()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeServers()) }()
	return j.wait(ctx)
}

// joining is a node that has no identity yet.
type joining struct {
	opts    Options
	dir     *datadir.Dir
	secret  []byte
	invites *invites
	started time.Time

	clocks map[string]bool // of which peers it was logged that their clock is apart

	mu     sync.Mutex
	waits  map[string]error // why, by the address of a node; "" for this one
	httpAt net.Addr         // where listen.http is open; nil for nowhere
}

// serve opens the admin socket, so that status says for whom the node waits, and tells
// the others that it has no identity.
func (j *joining) serve() (closeAll func() error, err error) {
	l, err := listenAdmin(j.dir)
	if err != nil {
		return nil, err
	}
	s := newServer(admin.WithInvites(admin.Waiting(j), j))
	var serving sync.WaitGroup
	serving.Go(func() { _ = s.Serve(l) }) // ends with Close, below
	closeAdmin := func() error {
		err := s.Close()
		serving.Wait()
		return err
	}
	at, closeHTTP, err := j.serveHTTP()
	if err != nil {
		return nil, errors.Join(err, closeAdmin())
	}
	j.mu.Lock()
	j.httpAt = at
	j.mu.Unlock()
	port, err := listenJoin(j.opts.Config.Cluster)
	if err != nil {
		return nil, errors.Join(err, closeHTTP(), closeAdmin())
	}
	k, err := join.Serve(port, j.secret, j.introduce, j.invites, j.opts.Log)
	if err != nil {
		return nil, errors.Join(err, port.Close(), closeHTTP(), closeAdmin())
	}
	return func() error { return errors.Join(k.Close(), closeHTTP(), closeAdmin()) }, nil
}

// introduce answers another node.
func (j *joining) introduce(r join.Request) join.Answer {
	a := join.Answer{Node: j.dir.NodeName(), Time: time.Now(), Version: j.opts.Version, NATS: engine.ServerVersion(), Wants: newChange(j.opts.Config, "").digest}
	switch a.Refused = fits(j.opts.Config.Cluster, a.Node, r); {
	case a.Refused != "" || r.Look:
	case r.Node == a.Node:
		a.Refused = fmt.Sprintf("it is node %q, too; each needs a name and a data directory of its own", r.Node)
	default:
		a.Refused, a.Wait, a.None = "it has no identity itself yet", true, true
	}
	return a
}

// listenJoin opens the port after that of the routes.
func listenJoin(c *config.Cluster) (net.Listener, error) {
	host, port := c.Routes().Split()
	addr := net.JoinHostPort(host, fmt.Sprint(config.JoinPort(port)))
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, engine.ListenError("cluster.listen", addr, err)
	}
	return l, nil
}

// fits says why a node can't be one of the cluster that the file of node describes; ""
// when it can.
func fits(c *config.Cluster, node string, r join.Request) string {
	switch {
	case r.Cluster != c.Name:
		return fmt.Sprintf("cluster.name is %q on node %s and %q on node %s", r.Cluster, r.Node, c.Name, node)
	case !slices.Equal(r.Peers, c.Peers):
		return fmt.Sprintf("cluster.peers is [%s] on node %s and [%s] on node %s", strings.Join(r.Peers, ", "), r.Node, strings.Join(c.Peers, ", "), node)
	}
	return ""
}

func (j *joining) request() join.Request {
	c := j.opts.Config.Cluster
	return join.Request{Cluster: c.Name, Node: j.dir.NodeName(), Version: j.opts.Version, Peers: c.Peers, Time: time.Now()}
}

// wait asks the others until one hands the identity out, or this node is to make it.
func (j *joining) wait(ctx context.Context) error {
	// From READY=1 on systemd kills who gives no sign of life.
	feeding, stop := context.WithCancel(ctx)
	var fed sync.WaitGroup
	fed.Go(func() { j.opts.Notify.Feed(feeding, func(context.Context) error { return nil }, func(error) {}) })
	defer fed.Wait()
	defer stop()
	var told time.Time
	for {
		done, err := j.round(ctx)
		if done || err != nil || ctx.Err() != nil {
			return err
		}
		line := strings.Join(j.missing(), "; ")
		if time.Since(told) >= joinTold {
			told = time.Now()
			j.opts.Log.Info("waiting for the other nodes", keyWhat, line)
		}
		if time.Since(j.started) < readyLimit {
			j.opts.Notify.Extend(startExtension, line)
		} else {
			// Units that are ordered after this one are not kept for a node that may
			// never come.
			j.opts.Notify.Ready(line)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(joinEvery):
		}
	}
}

// round asks every other node once.
func (j *joining) round(ctx context.Context) (done bool, err error) {
	c := j.opts.Config.Cluster
	self, err := selfAmong(ctx, c)
	j.note("", err)
	if err != nil {
		return false, nil //nolint:nilerr // a name may be known later; it is in the status
	}
	none := 0
	for i, peer := range c.Peers {
		if i == self {
			continue
		}
		asked := time.Now()
		a, err := join.Ask(ctx, joinAddress(peer), j.secret, j.request())
		j.lookAtClock(peer, a, asked, err)
		switch {
		case err != nil:
		case a.Wait:
			if a.None { // and not one that has an identity and can't hand it out now
				none++
			}
			err = errors.New(a.Refused)
		case a.Refused != "":
			err = diag.Fail(diag.CodeClusterJoin, fmt.Errorf("node %s refused this one: %s", a.Node, a.Refused), "the block `cluster:` has to be the same on every node")
		default:
			return true, j.take(a)
		}
		j.note(peer, err)
	}
	return self == 0 && none == len(c.Peers)-1, nil
}

// take keeps what a node handed out: the identity last, for with it the node is one of
// the cluster.
func (j *joining) take(a join.Answer) error {
	if err := j.dir.MakeRoutesDir(); err != nil {
		return err
	}
	if err := certs.ImportAuthority(j.dir.RoutesDir(), a.Routes, datadir.WriteFile); err != nil {
		return err
	}
	if len(a.Clients) > 0 {
		if err := certs.ImportAuthority(j.dir.TLSDir(), a.Clients, datadir.WriteFile); err != nil {
			return err
		}
	}
	if a.Grows != "" {
		if err := datadir.WriteFile(j.dir.GrowsFile(), []byte(a.Grows), 0o600); err != nil {
			return err
		}
	}
	f := identity.File{Path: j.dir.IdentityFile(), Write: datadir.WriteFile, Now: time.Now}
	if err := identity.Restore(f, a.Identity, nil, false); err != nil {
		return err
	}
	j.opts.Log.Info("joined the cluster", keyNode, a.Node)
	return nil
}

func (j *joining) note(peer string, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err == nil {
		delete(j.waits, peer)
		return
	}
	j.waits[peer] = err
}

// missing says for whom the node waits.
func (j *joining) missing() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.waits[""]; err != nil {
		return []string{"cluster: " + err.Error()}
	}
	var out []string
	for _, p := range j.opts.Config.Cluster.Peers {
		if err := j.waits[p]; err != nil {
			out = append(out, fmt.Sprintf("cluster: waiting for %s: %v", p, err))
		}
	}
	if len(out) == 0 {
		return []string{"cluster: asking the other nodes"} // it is not ready before it has an identity
	}
	return out
}

// Status is what a node knows that has no identity.
func (j *joining) Status(context.Context) (admin.Status, error) {
	s := admin.Status{
		Phase: admin.PhaseJoining, Missing: j.missing(), Accounts: []admin.AccountStatus{},
		Node: admin.NodeStatus{
			Name: j.dir.NodeName(), Version: j.opts.Version, NATSVersion: engine.ServerVersion(), PID: os.Getpid(), Started: j.started,
			UptimeSeconds: time.Since(j.started).Seconds(), DataDir: j.dir.Path(), ConfigFiles: j.opts.Config.Files(), ConfigDigest: digest(j.opts.Config),
		},
		Durability: admin.Durability{Mode: j.opts.Config.Storage.Durability},
		Listeners:  []admin.Listener{{Name: "admin", Address: socketPath(j.dir), Open: true}},
		Problems:   admin.Problems(j.opts.Warnings),
	}
	if vol, err := j.dir.Volume(); err == nil {
		s.Storage.VolumeTotal, s.Storage.VolumeFree, s.Storage.FileSystem = int64(vol.Total), int64(vol.Free), vol.FSType
	}
	c := j.opts.Config.Cluster
	s.Cluster = &admin.Cluster{Name: c.Name, Size: len(c.Peers), Quorum: len(c.Peers)/2 + 1}
	self, _ := selfAmong(context.Background(), c)
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.httpAt != nil {
		s.Listeners = append(s.Listeners, admin.Listener{Name: "http", Address: j.httpAt.String(), Open: true})
	}
	for i, p := range c.Peers {
		m := admin.Member{Address: p, Self: i == self}
		if err := j.waits[p]; err != nil {
			m.Problem, m.Fix = err.Error(), diag.Hint(err)
		}
		s.Cluster.Nodes = append(s.Cluster.Nodes, m)
	}
	return s, nil
}

// CA is none yet.
func (j *joining) CA() string { return "" }
