// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"fmt"
	"net"

	"github.com/holdfast-mq/holdfast/appliance/config"
	"github.com/holdfast-mq/holdfast/appliance/join"
)

// blockFor is the block `cluster:` of a machine that joins.
func blockFor(g join.Grant) *config.Cluster {
	return &config.Cluster{Name: g.Cluster, Peers: g.Peers, Advertise: g.For, Listen: listenFor(g)}
}

// listenFor is where the machine listens for the others: as the node that made the token
// does, with the port that it has itself.
func listenFor(g join.Grant) config.Address {
	theirs := (&config.Cluster{Listen: config.Address(g.Listen)}).Routes()
	host, port := theirs.Split()
	ownHost, ownPort := config.Address(g.For).Split()
	if g.For == "" {
		ownPort = port
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsUnspecified() {
		// It is that node's address, and not this one's.
		host = "0.0.0.0"
		if own := net.ParseIP(ownHost); own != nil {
			host = ownHost
		}
	}
	listen := config.Address(net.JoinHostPort(host, fmt.Sprint(ownPort)))
	if listen == (&config.Cluster{}).Routes() {
		return "" // the default
	}
	return listen
}

// notes say what the file of another node does not settle.
func notes(g join.Grant, cfg *config.Config, whole bool) []string {
	var out []string
	if !whole {
		out = append(out, fmt.Sprintf("accounts, users and streams in the file here stay as they are; make them those of node %s, for the node that leads applies its own. `holdfast cluster status` says whose file differs", g.Node))
		return out
	}
	for _, l := range []struct {
		key  string
		addr config.Address
	}{{"listen.client", cfg.Listen.Client}, {"listen.http", cfg.Listen.HTTP}} {
		host, _ := l.addr.Split()
		if ip := net.ParseIP(host); ip != nil && !ip.IsUnspecified() && !ip.IsLoopback() {
			out = append(out, fmt.Sprintf("%s is %s, which may be the address of node %s alone: write this machine's", l.key, l.addr, g.Node))
		}
	}
	if len(cfg.Listen.Advertise) > 0 {
		out = append(out, fmt.Sprintf("listen.advertise has the names of node %s: write this machine's", g.Node))
	}
	return out
}
