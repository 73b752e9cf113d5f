// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/holdfast-mq/holdfast/appliance/admin"
	"github.com/holdfast-mq/holdfast/appliance/diag"
)

func newClusterCmd(std stdio, g *globals) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cluster",
		Short: "Look at the nodes that replicate to each other, and join them [changes state]",
		Args:  cobra.NoArgs,
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	cmd.AddCommand(newClusterStatusCmd(std, g), newClusterInviteCmd(std, g), newClusterJoinCmd(std, g))
	return cmd
}

func newClusterStatusCmd(std stdio, g *globals) *cobra.Command {
	var all, wait bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the nodes of the cluster, as this one sees them [read-only]",
		Long: "Show the nodes of the cluster, as this one sees them: who leads, who is connected and\n" +
			"has everything, versions, clocks and certificates, which copy of a stream is behind,\n" +
			"what losing one more node would do, and what is wrong where. Exit code 3 when there is\n" +
			"no leader, or a node or a stream has a problem, 1 when the node here does not answer\n" +
			"or is a single one.",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if wait {
				var w clusterWait
				p := newProgress(std.err, isTerminal(std.err), w.text)
				err := w.until(c.Context(), g.status)
				p.stop()
				if err != nil {
					return err
				}
			}
			s, err := g.status(c.Context())
			if err != nil {
				return err
			}
			if s.Cluster == nil {
				return diag.Fail(diag.CodeUnknownObject, errors.New("this is a single node, and not one of a cluster"),
					"the block `cluster:` in the file of each of three nodes makes one; see `holdfast schema`")
			}
			if g.json() {
				printJSON(std.out, s.Cluster)
			} else {
				printCluster(std.out, *s.Cluster, all)
			}
			if s.Cluster.Leader == "" || s.Cluster.Growth != nil || troubled(*s.Cluster) {
				return exitError(exitNotReady)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "name every stream and its copies, and every certificate, and not only what is in trouble")
	cmd.Flags().BoolVar(&wait, "wait", false, "wait until there is a leader, every node has everything and nothing is copied any more; shows how far it is")
	return cmd
}

// clusterText is how the cluster is in a few words.
func clusterText(c admin.Cluster) string {
	up := 0
	for _, m := range c.Nodes {
		if m.Self || m.Connected {
			up++
		}
	}
	text := fmt.Sprintf("%d of %d nodes connected, ", up, c.Size)
	if c.Leader == "" {
		return text + "NO LEADER"
	}
	return text + c.Leader + " leads"
}

func troubled(c admin.Cluster) bool { return len(firstTrouble(c)) > 0 }

// firstTrouble is the first of what is wrong with a node or a stream; nothing while all
// is well.
func firstTrouble(c admin.Cluster) []string {
	for _, m := range c.Nodes {
		if m.Problem != "" {
			return []string{m.Address + ": " + m.Problem}
		}
	}
	for _, p := range c.Streams {
		if p.Problem != "" {
			return []string{p.Name + ": " + p.Problem}
		}
	}
	return nil
}
