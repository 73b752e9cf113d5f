// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/holdfast-mq/holdfast/appliance"
)

// version and revision are set by the linker; see the Makefile.
var (
	version  = "0.1.0-dev"
	revision string
)

// commit is the revision the binary was built from, "unknown" when nothing tells.
func commit() string {
	if revision != "" {
		return revision
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				return s.Value
			}
		}
	}
	return "unknown"
}

func newVersionCmd(std stdio, g *globals) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version [read-only]",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if g.json() {
				printJSON(std.out, map[string]string{
					"version": version, "commit": commit(), "nats_version": appliance.NATSVersion(),
					"go_version": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH,
				})
				return nil
			}
			fmt.Fprintf(std.out, "holdfast %s (%s, nats-server %s, %s, %s/%s)\n", version, cmp.Or(short(commit()), "unknown"),
				appliance.NATSVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return nil
		},
	}
}

func short(rev string) string { return rev[:min(len(rev), 12)] }
