// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-mq/holdfast/appliance/config"
	"github.com/holdfast-mq/holdfast/appliance/diag"
)

// resolveLimit bounds how long a name of a node is looked up.
const resolveLimit = 2 * time.Second

// joinAddress is where a node hands the identity out, by where its routes are.
func joinAddress(peer string) string {
	host, port, err := net.SplitHostPort(peer)
	n, convErr := strconv.Atoi(port)
	if err != nil || convErr != nil {
		return peer // checked with the configuration
	}
	return net.JoinHostPort(host, strconv.Itoa(config.JoinPort(n)))
}

// selfAmong is which of cluster.peers this node is: the one that cluster.advertise
// names, or that has its port and one of its addresses or its name.
func selfAmong(ctx context.Context, c *config.Cluster) (int, error) {
	if c.Advertise != "" {
		return slices.Index(c.Peers, c.Advertise), nil // checked with the configuration
	}
	ctx, cancel := context.WithTimeout(ctx, resolveLimit)
	defer cancel()
	_, own := c.Routes().Split()
	var mine []int
	var unknown []error
	for i, p := range c.Peers {
		host, port, err := net.SplitHostPort(p)
		if err != nil || port != strconv.Itoa(own) {
			continue
		}
		is, err := isThisMachine(ctx, host)
		if err != nil {
			unknown = append(unknown, err)
		}
		if is {
			mine = append(mine, i)
		}
	}
	switch {
	case len(mine) == 1:
		return mine[0], nil
	case len(mine) > 1:
		return -1, diag.Fail(diag.CodeClusterPeer, fmt.Errorf("several of cluster.peers are this machine: %s and %s", c.Peers[mine[0]], c.Peers[mine[1]]),
			"write cluster.advertise: HOST:PORT, the one of cluster.peers that this node is")
	case len(unknown) > 0:
		return -1, diag.Fail(diag.CodeClusterPeer, fmt.Errorf("none of cluster.peers is known to be this node: %w", errors.Join(unknown...)),
			"make the names known to this machine; or write cluster.advertise: HOST:PORT, the one of cluster.peers that this node is")
	}
	return -1, diag.Fail(diag.CodeClusterPeer, fmt.Errorf("none of cluster.peers has an address of this machine and port %d: %s", own, strings.Join(c.Peers, ", ")),
		"correct cluster.peers or cluster.listen; or write cluster.advertise: HOST:PORT, the one of cluster.peers that this node is")
}

// isThisMachine reports whether a host name or an address is one of this machine.
func isThisMachine(ctx context.Context, host string) (bool, error) {
	var addrs []net.IP
	if ip := net.ParseIP(host); ip != nil {
		addrs = []net.IP{ip}
	} else {
		if own, err := os.Hostname(); err == nil && (strings.EqualFold(own, host) || strings.EqualFold(strings.Split(own, ".")[0], host)) {
			return true, nil
		}
		found, err := net.DefaultResolver.LookupIP(ctx, "ip", host)
		if err != nil {
			return false, err
		}
		addrs = found
	}
	own, err := net.InterfaceAddrs()
	if err != nil {
		return false, fmt.Errorf("read the addresses of this machine: %w", err)
	}
	for _, a := range own {
		if n, ok := a.(*net.IPNet); ok && slices.ContainsFunc(addrs, func(ip net.IP) bool { return ip.Equal(n.IP) || ip.IsLoopback() }) {
			return true, nil
		}
	}
	return false, nil
}
