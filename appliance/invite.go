// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-mq/holdfast/appliance/admin"
	"github.com/holdfast-mq/holdfast/appliance/certs"
	"github.com/holdfast-mq/holdfast/appliance/config"
	"github.com/holdfast-mq/holdfast/appliance/datadir"
	"github.com/holdfast-mq/holdfast/appliance/diag"
	"github.com/holdfast-mq/holdfast/appliance/join"
)

const (
	// shortestInvite and longestInvite bound how long a token works: it is worth as much
	// as the secret.
	shortestInvite = time.Second
	longestInvite  = 7 * 24 * time.Hour
)

// invites makes the tokens of a node and answers who shows one.
type invites struct {
	config  func() *config.Config
	cluster *config.Cluster
	secret  []byte
	dir     *datadir.Dir
	ledger  *join.Ledger
	log     *slog.Logger
	// taken is which node is at which of cluster.peers, of those that are there.
	taken func() map[string]string
}

func newInvites(c func() *config.Config, dir *datadir.Dir, secret []byte, log *slog.Logger, taken func() map[string]string) *invites {
	return &invites{
		config: c, cluster: c().Cluster, secret: secret, dir: dir, log: log, taken: taken,
		ledger: &join.Ledger{Path: dir.InvitesFile(), Write: datadir.WriteFile, Now: time.Now},
	}
}

// Invite makes a token with which a machine joins this cluster.
func (a *Appliance) Invite(ctx context.Context, r admin.InviteRequest) (admin.Invitation, error) {
	if a.others() == nil {
		return admin.Invitation{}, diag.Fail(diag.CodeUnknownObject, errors.New("this is a single node, and not one of a cluster"),
			"write the block `cluster:` with the addresses of all three nodes and a secret into its file, and restart it; docs/cluster.md has an example")
	}
	return a.others().invites.make(ctx, r)
}

// taken is which node is at which of cluster.peers, of those that answered as they should
// when they were asked last.
func (c *cluster) taken() map[string]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := map[string]string{}
	for addr, p := range c.peers {
		if p.err == nil && p.answer.Node != "" {
			out[addr] = p.answer.Node
		}
	}
	return out
}

// Invite makes a token before there is an identity. The CA of the routes is made for it:
// the first of the peers is who would make it next, and where others turn out to have
// one, theirs takes its place.
func (j *joining) Invite(ctx context.Context, r admin.InviteRequest) (admin.Invitation, error) {
	c := j.opts.Config.Cluster
	self, err := selfAmong(ctx, c)
	if err != nil {
		return admin.Invitation{}, err
	}
	if self != 0 {
		return admin.Invitation{}, diag.Fail(diag.CodeNotReady, errors.New("this node has not joined the cluster itself yet"),
			fmt.Sprintf("make the token on %s, or here when this node is ready: `holdfast status` says for whom it waits", c.Peers[0]))
	}
	if err := j.dir.MakeRoutesDir(); err != nil {
		return admin.Invitation{}, err
	}
	if err := certs.MakeAuthority(certs.Options{Dir: j.dir.RoutesDir(), Write: datadir.WriteFile, Now: time.Now, NodeName: j.dir.NodeName()}); err != nil {
		return admin.Invitation{}, err
	}
	return j.invites.make(ctx, r)
}

func (i *invites) make(ctx context.Context, r admin.InviteRequest) (admin.Invitation, error) {
	life := time.Duration(r.Expires * float64(time.Second))
	if life < shortestInvite || life > longestInvite {
		return admin.Invitation{}, diag.Fail(diag.CodeUsage, fmt.Errorf("a token can't expire after %v", life), "write a time from 1s to 7d, such as --expires 30m")
	}
	self, err := selfAmong(ctx, i.cluster)
	if err != nil {
		return admin.Invitation{}, err
	}
	if err := i.free(self, r.For); err != nil {
		return admin.Invitation{}, err
	}
	ca, err := certs.Fingerprint(i.dir.RoutesDir())
	if err != nil {
		return admin.Invitation{}, err
	}
	t := join.NewToken([]string{joinAddress(i.cluster.Peers[self])}, ca, i.ledger.Now().Add(life), r.For)
	text, err := t.Reveal()
	if err != nil {
		return admin.Invitation{}, err
	}
	if err := i.ledger.Add(t); err != nil {
		return admin.Invitation{}, err
	}
	i.log.Warn("token made: whoever has it can join the cluster", keyWhere, cmp.Or(r.For, "any of cluster.peers"), keyDur, life)
	return admin.Invitation{
		Token: text, Cluster: i.cluster.Name, Node: i.dir.NodeName(), For: t.For, Addresses: t.Addresses,
		Fingerprint: hex.EncodeToString(ca[:]), Expires: t.Expires,
	}, nil
}

// free refuses to invite where there is no place.
func (i *invites) free(self int, forPeer string) error {
	peers := i.cluster.Peers
	if forPeer != "" && !slices.Contains(peers, forPeer) {
		return diag.Fail(diag.CodeUsage, fmt.Errorf("%s is not among cluster.peers", forPeer), "write one of them: "+strings.Join(peers, ", "))
	}
	if forPeer == peers[self] {
		return diag.Fail(diag.CodeUsage, fmt.Errorf("%s is this node itself", forPeer), "write another one of cluster.peers: "+strings.Join(peers, ", "))
	}
	taken := i.taken()
	if name := taken[forPeer]; name != "" {
		return diag.Fail(diag.CodeExists, fmt.Errorf("%s is node %s of the cluster already", forPeer, name), "a machine that takes its place is invited when that one is stopped")
	}
	if len(taken) >= len(peers)-1 {
		return diag.Fail(diag.CodeExists, errors.New("all nodes of the cluster are there already"), "a machine that takes the place of one is invited when that one is stopped")
	}
	return nil
}

// Certificate is what a machine knows this node by.
func (i *invites) Certificate() (tls.Certificate, error) {
	return certs.Introduction(i.dir.RoutesDir(), i.dir.NodeName(), time.Now())
}

// Grant gives a machine with a token the secret of the cluster and what stands in its
// file. The token is bound to the machine first, for good.
func (i *invites) Grant(c join.Claim) (join.Grant, error) {
	out := join.Grant{Node: i.dir.NodeName()}
	forPeer, refused, err := i.ledger.Use(c)
	switch {
	case err != nil:
		out.Reason, out.Refused = join.ReasonOther, "it can't look up its tokens; its log says why"
		return out, err
	case refused != nil:
		out.Reason, out.Refused = refused.Reason, refused.What
		return out, nil
	}
	if name := i.nameTaken(c.Node, forPeer); name != "" {
		out.Reason, out.Refused = join.ReasonOther, fmt.Sprintf("there is a node %q in the cluster already; each needs a name and a data directory of its own", name)
		return out, nil
	}
	k := i.cluster
	out.Cluster, out.Peers, out.Listen, out.For, out.Secret = k.Name, k.Peers, string(k.Listen), forPeer, i.secret
	if self, err := selfAmong(context.Background(), k); err == nil {
		out.Self = k.Peers[self]
	}
	cfg := i.config()
	if files := cfg.Files(); len(files) == 1 {
		if text, ok := config.Shared(cfg.Source(files[0])); ok {
			out.File = text
		}
	}
	i.log.Warn("token used: the secret of the cluster was handed to a machine that joins", keyAddress, c.From, keyNode, c.Node, keyVersion, c.Version, keyWhere, cmp.Or(forPeer, "any of cluster.peers"))
	return out, nil
}

// nameTaken is the name of a machine, when a node has it that the machine is not to
// replace.
func (i *invites) nameTaken(name, forPeer string) string {
	if name == "" {
		return ""
	}
	if name == i.dir.NodeName() {
		return name
	}
	for addr, other := range i.taken() {
		if other == name && addr != forPeer {
			return name
		}
	}
	return ""
}
