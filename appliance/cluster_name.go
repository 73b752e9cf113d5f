// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-mq/holdfast/appliance/admin"
	"github.com/holdfast-mq/holdfast/appliance/diag"
	"github.com/holdfast-mq/holdfast/appliance/join"
)

// greetLimit bounds how long a start waits for others to say who they are. One that can't
// be reached is met later, by the server, which turns a second node of one name away.
const greetLimit = 2 * time.Second

// greet asks the other nodes whether one of them goes by this node's name, and waits
// while one does: two that vote with one name, such as a data directory and its copy,
// could undo what was acknowledged. It asks before anything of the server runs, and the
// others are answered meanwhile, so that of two that start at once each sees the other.
func (a *Appliance) greet(ctx context.Context) error {
	if a.cluster == nil {
		return nil
	}
	// From READY=1 on systemd kills who gives no sign of life.
	feeding, stop := context.WithCancel(ctx)
	var fed sync.WaitGroup
	defer fed.Wait()
	defer stop()
	for told := false; ; {
		at := a.namesake(ctx)
		if at == "" || ctx.Err() != nil {
			return ctx.Err()
		}
		line := fmt.Sprintf("another node is %s, too: the one at %s", a.dir.NodeName(), at)
		a.mu.Lock()
		a.phase, a.waitsFor = admin.PhaseJoining, "cluster: "+line+"; this one does not start"
		a.mu.Unlock()
		if !told {
			told = true
			fed.Go(func() { a.opts.Notify.Feed(feeding, func(context.Context) error { return nil }, func(error) {}) })
			a.log.Error("this node does not start while another has its name", keyNode, a.dir.NodeName(), keyAddress, at, keyCode, string(diag.CodeClusterName), keyFix, sameNameFix)
			a.opts.Notify.Ready(line) // nobody is kept for it
		}
		a.opts.Notify.Status("waiting: " + line)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(joinEvery):
		}
	}
}

// namesake is where another node says that it has this one's name; "" where none does.
func (a *Appliance) namesake(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, greetLimit)
	defer cancel()
	c := a.cluster
	operator, err := a.identity.Operator()
	if err != nil {
		return ""
	}
	found := make([]bool, len(c.config.Peers))
	var asking sync.WaitGroup
	for i, p := range c.config.Peers {
		asking.Go(func() {
			said, err := join.Ask(ctx, joinAddress(p), c.secret, a.question(c, operator))
			found[i] = err == nil && said.Node == a.dir.NodeName() && said.Process != a.process
		})
	}
	asking.Wait()
	for i, p := range c.config.Peers {
		if found[i] {
			return p
		}
	}
	return ""
}

// question is what this node says when it asks another one.
func (a *Appliance) question(c *cluster, operator string) join.Request {
	return join.Request{
		Cluster: c.config.Name, Node: a.dir.NodeName(), Version: a.opts.Version, Peers: c.config.Peers, Operator: operator,
		Time: time.Now(), Process: a.process,
	}
}

// tellSameName logs that a node came which is called as another.
func (a *Appliance) tellSameName(r join.Request) {
	err := diag.Fail(diag.CodeClusterName, fmt.Errorf("another process goes by the name of node %q", r.Node), sameNameFix)
	if a.news("name "+r.Node+" "+r.Process, err) {
		a.log.Error("a second node has the name of one of the cluster, and was turned away", keyNode, r.Node, keyCode, string(diag.CodeClusterName), keyFix, sameNameFix)
	}
}
