// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"net"
	"slices"
	"strconv"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

const (
	// clusterNodes is how many nodes a cluster has: two of three agree, and any one may
	// be lost.
	clusterNodes = 3
	// shortestSecret is in bytes. Somebody between two nodes gets a proof to try words
	// against.
	shortestSecret = 32
	// joinAfter is how far behind the port for routes that for joining is.
	joinAfter = 1
)

// JoinPort is the port on which a node hands the identity to others: the one after the
// port of its routes.
func JoinPort(routes int) int { return routes + joinAfter }

func (c *checker) cluster() {
	k := c.cfg.Cluster
	if k == nil {
		return
	}
	o := object{c, path{"cluster"}}
	_, port := k.Routes().Split()
	o.errors(
		rule{k.Name == "" && !o.isSet("name"), diag.CodeRequired, "name", "the cluster has no name", "add name: NAME, the same on every node"},
		rule{k.Name != "" && !groupName.MatchString(k.Name), diag.CodeName, "name", fmt.Sprintf("%q can't be the name of a cluster", k.Name), "use 1 to 16 of: letters, digits, / _ = -"},
		rule{port == 0 || k.Listen == "" && o.isSet("listen") && !c.refused(o.at.with("listen")), diag.CodeRequired, "listen", "the other nodes have no port to connect to", "write 0.0.0.0:6222"},
		rule{len(k.Peers) == 0 && !o.isSet("peers"), diag.CodeRequired, "peers", "the nodes are not named", "add peers: [n1:6222, n2:6222, n3:6222], the same on every node"},
		rule{len(k.Peers) > 0 && len(k.Peers) != clusterNodes, diag.CodeValue, "peers", fmt.Sprintf("%d nodes; a cluster has three, of which any one may be lost", len(k.Peers)),
			"name three, this one included"},
		rule{!k.Secret.IsSet() && !o.isSet("secret"), diag.CodeRequired, "secret", "anybody could join without a secret", "add secret: file:PATH, the same on every node; `openssl rand -hex 32` makes one"},
		rule{k.Advertise != "" && !slices.Contains(k.Peers, k.Advertise), diag.CodeReference, "advertise", fmt.Sprintf("%q is not among peers", k.Advertise), "write it as it stands there"},
	)
	c.peers(o.in("peers"), k)
	for _, a := range []listener{{"client", c.cfg.Listen.Client}, {"http", c.cfg.Listen.HTTP}} {
		host, _ := k.Routes().Split()
		join := Address(net.JoinHostPort(host, strconv.Itoa(JoinPort(port))))
		o.errors(rule{port != 0 && (samePort(k.Routes(), a.addr) || samePort(join, a.addr)), diag.CodeConflict, "listen",
			fmt.Sprintf("it and the port after it are for the other nodes, and one of them is that of %s", c.ref(path{"listen", a.key})), "choose another port for one of the two"})
	}
}

// peers checks them one by one.
func (c *checker) peers(o object, k *Cluster) {
	local := k.Routes().Loopback()
	for i, p := range k.Peers {
		host, port, err := net.SplitHostPort(p)
		n, numErr := strconv.ParseUint(port, 10, 16)
		bad := err != nil || numErr != nil || n == 0 || n >= 1<<16-joinAfter || host == ""
		o.errors(
			rule{bad, diag.CodeValue, item(i), fmt.Sprintf("%q is not host:port", p), "write the port of the node's cluster.listen, such as n1:6222"},
			rule{!bad && slices.Index(k.Peers, p) != i, diag.CodeConflict, item(i), fmt.Sprintf("%q is named twice", p), "name each node once"},
			rule{!bad && local && !Address(p).Loopback(), diag.CodeConflict, item(i), fmt.Sprintf("%s can't reach this node, which listens on %s", p, k.Routes()), "write cluster.listen: 0.0.0.0:6222"},
		)
	}
}
