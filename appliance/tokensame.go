// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-mq/holdfast/appliance/certs"
	"github.com/holdfast-mq/holdfast/appliance/config"
	"github.com/holdfast-mq/holdfast/appliance/datadir"
	"github.com/holdfast-mq/holdfast/appliance/diag"
	"github.com/holdfast-mq/holdfast/appliance/join"
)

// sameCluster refuses a token of another cluster than that whose block and secret this
// machine has already. The token is not used for it: the machine proves that it knows the
// secret, and is told whether it would fit.
func (t TokenJoin) sameCluster(ctx context.Context, token join.Token, cfg *config.Config) error {
	c := cfg.Cluster
	other := func(format string, args ...any) error {
		return diag.Fail(diag.CodeClusterOwn, fmt.Errorf("the token is of another cluster than %s, whose block `cluster:` is in %s: %s", c.Name, t.File, fmt.Sprintf(format, args...)),
			fmt.Sprintf("to stay in %s nothing has to be done; to leave it for the other one stop the node, take the block and its secret away, empty %s, and run this again", c.Name, cfg.Node.DataDir))
	}
	if token.For != "" && !slices.Contains(c.Peers, token.For) {
		return other("it is for %s, and cluster.peers is [%s] here", token.For, strings.Join(c.Peers, ", "))
	}
	// A node that has joined, or has made a token itself, can tell by the CA.
	if ca, err := certs.Fingerprint(datadir.RoutesPath(cfg.Node.DataDir)); err == nil {
		if ca != token.CA {
			return other("the CA of its routes is not the one in %s", cfg.Node.DataDir)
		}
		return nil
	}
	secret, err := c.Secret.Reveal()
	if err != nil {
		return err
	}
	r := join.Request{Cluster: c.Name, Node: machineName(cfg), Version: t.Version, Peers: c.Peers, Look: true}
	for _, addr := range token.Addresses {
		var said join.Answer
		err = t.patiently(ctx, func() (err error) {
			r.Time = time.Now()
			said, err = join.Ask(ctx, addr, []byte(secret), r)
			return err
		})
		switch {
		case diag.CodeOf(err) == diag.CodeClusterSecret:
			return other("the node at %s has another secret", addr)
		case err != nil:
			continue // the next address may answer
		case said.Refused != "" && !said.Wait:
			return other("%s", said.Refused)
		}
		return nil
	}
	return diag.Fail(diag.CodeClusterPeer, fmt.Errorf("compare the cluster of the token with %s, whose block `cluster:` is in %s: %w", c.Name, t.File, err),
		fmt.Sprintf("to stay in %s nothing has to be done; else the node that made the token must run, and be reachable from here", c.Name))
}

// machineName is what this machine is called in what it is told.
func machineName(cfg *config.Config) string {
	if cfg.Node.Name != "" {
		return cfg.Node.Name
	}
	if stamp, err := datadir.Look(cfg.Node.DataDir, ""); err == nil && stamp.NodeName != "" {
		return stamp.NodeName
	}
	host, _ := os.Hostname() // it is only named
	return host
}
