// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

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
	var wait bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the nodes of the cluster, as this one sees them [read-only]",
		Long: "Show the nodes of the cluster, as this one sees them: who leads, who is connected and\n" +
			"has everything, and what is wrong where. Exit code 3 when there is no leader or a node\n" +
			"has a problem, 1 when the node here does not answer or is a single one.",
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
				printCluster(std.out, *s.Cluster)
			}
			if s.Cluster.Leader == "" || s.Cluster.Growth != nil || troubled(*s.Cluster) {
				return exitError(exitNotReady)
			}
			return nil
		},
	}
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

func troubled(c admin.Cluster) bool {
	for _, m := range c.Nodes {
		if m.Problem != "" {
			return true
		}
	}
	return false
}

func printCluster(w io.Writer, c admin.Cluster) {
	fmt.Fprintf(w, "Cluster %s, leader %s, %d of %d nodes needed\n\n", c.Name, cmp.Or(c.Leader, "NONE"), c.Quorum, c.Size)
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(t, "ADDRESS\tNODE\tROUTE\tHAS EVERYTHING\tVERSION\tFILE")
	for _, m := range c.Nodes {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", m.Address, cmp.Or(m.Name, "?"), routeText(m), currentText(m, c.Leader), cmp.Or(m.Version, "?"), fileText(m))
	}
	t.Flush()
	if c.Growth != nil {
		fmt.Fprintf(w, "\n%s\n", growthText(*c.Growth))
		if c.Growth.Problem != "" {
			fmt.Fprintf(w, "    %s\n", c.Growth.Problem)
		}
		if c.Growth.Fix != "" {
			fmt.Fprintf(w, "    fix: %s\n", c.Growth.Fix)
		}
	}
	for _, m := range c.Nodes {
		if m.Problem == "" {
			continue
		}
		fmt.Fprintf(w, "\n%s: %s\n", m.Address, m.Problem)
		if m.Fix != "" {
			fmt.Fprintf(w, "    fix: %s\n", m.Fix)
		}
	}
}

func routeText(m admin.Member) string {
	switch {
	case m.Self:
		return "this node"
	case !m.Connected:
		return "NONE"
	case m.RTT > 0:
		return "up, " + time.Duration(m.RTT*float64(time.Second)).Round(10*time.Microsecond).String()
	}
	return "up"
}

func currentText(m admin.Member, leader string) string {
	switch {
	case m.Current && m.Name == leader && leader != "":
		return "yes, leads"
	case m.Current:
		return "yes"
	}
	return "no"
}

func fileText(m admin.Member) string {
	if m.OtherFile {
		return "DIFFERS"
	}
	if m.Name == "" {
		return "?"
	}
	return "same"
}
