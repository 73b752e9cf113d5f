// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-mq/holdfast/appliance/admin"
	"github.com/holdfast-mq/holdfast/appliance/config"
	"github.com/holdfast-mq/holdfast/appliance/diag"
)

func newClusterInviteCmd(std stdio, g *globals) *cobra.Command {
	var expiresText, forPeer string
	cmd := &cobra.Command{
		Use:   "invite",
		Short: "Print a token with which one machine joins the cluster [changes state, shows a secret]",
		Long: "Print a token, one line, with which one machine becomes a node of this cluster: give it to\n" +
			"`holdfast cluster join` there. It works once, and until it expires. Whoever has it can have\n" +
			"all keys of the cluster: hand it over as you would a password. The node has to run and have\n" +
			"the block `cluster:` in its file.",
		Example: "  holdfast cluster invite --for n2:6222 | ssh n2 sudo holdfast cluster join --yes\n" +
			"  holdfast cluster invite --expires 30m",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			expires, err := config.ParseDuration(expiresText)
			if err != nil {
				return diag.Fail(diag.CodeUsage, fmt.Errorf("read --expires: %w", err), "write a number and a unit, such as 30m or 4h")
			}
			return asked(c, g, func(ctx context.Context, node *admin.Client) error {
				token, err := node.Invite(ctx, admin.InviteRequest{For: forPeer, Expires: expires.Seconds()})
				if err != nil {
					return err
				}
				printInvitation(std, g, token)
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&expiresText, "expires", "1h", "how long the token works: `TIME`, from 1s to 7d")
	cmd.Flags().StringVar(&forPeer, "for", "", "which of cluster.peers the machine is, `HOST:PORT`; needed only where its addresses don't tell")
	return cmd
}

// printInvitation prints the token alone on stdout, so that it can be piped.
func printInvitation(std stdio, g *globals, i admin.Invitation) {
	if g.json() {
		printJSON(std.out, i)
		return
	}
	fmt.Fprintln(std.out, i.Token)
	fmt.Fprintf(std.err, "this token is a secret: with it one machine can join cluster %s and have all its keys, once and until %s\n",
		i.Cluster, i.Expires.Local().Format(time.DateTime))
	fmt.Fprintln(std.err, "on that machine: holdfast cluster join, and paste the line above")
}
