// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/holdfast-mq/holdfast/appliance"
	"github.com/holdfast-mq/holdfast/appliance/admin"
)

func newCredsBackupCmd(std stdio, g *globals) *cobra.Command {
	return &cobra.Command{
		Use:   "backup FILE",
		Short: "Write all keys of the node to a new file, to restore from [read-only, writes a secret]",
		Long: "Write the identity of the node to FILE, with mode 0600: operator, accounts, users and\n" +
			"revocations. Without it nobody can read the messages in the store. Whoever has the file\n" +
			"is everybody on this node: keep it where you keep such things.",
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return asked(c, g, func(ctx context.Context, node *admin.Client) error {
				data, err := node.ExportIdentity(ctx)
				if err != nil {
					return err
				}
				if err := createFile(args[0], data, 0o600); err != nil {
					return err
				}
				fmt.Fprintf(std.out, "%s written; restore it with: holdfast creds restore %s\n", args[0], args[0])
				return nil
			})
		},
	}
}

func newCredsRestoreCmd(std stdio, g *globals) *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use:   "restore FILE",
		Short: "Put the keys of a backup into the data directory of a stopped node [changes state]",
		Long: "Put the identity that `holdfast creds backup` wrote into the data directory, while no\n" +
			"node runs on it. Refused when messages in the store belong to accounts it does not know,\n" +
			"and, without --force, when another identity is there.",
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			data, err := readSome(args[0])
			if err != nil {
				return fmt.Errorf("read backup: %w", err)
			}
			dir, err := g.nodeDir()
			if err != nil {
				return err
			}
			if err := appliance.RestoreIdentity(dir, data, force, version); err != nil {
				return err
			}
			fmt.Fprintf(std.out, "identity restored into %s; start the node now\n", dir)
			return nil
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "replace another identity: its accounts made since, and its revocations, are gone then")
	return cmd
}

// readSome reads a file, but not a device without an end.
func readSome(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	const most = 256 << 20
	return io.ReadAll(io.LimitReader(f, most))
}
