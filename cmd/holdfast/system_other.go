// SPDX-License-Identifier: Apache-2.0

//go:build !windows

package main

import (
	"errors"

	"github.com/spf13/cobra"
)

// What is called by other names on Windows.
const (
	serviceName = "holdfast.service"
	unitWord    = "unit"
	// otherDirHint takes the directory as its second argument, twice.
	otherDirHint = "`systemctl edit holdfast`, with ReadWritePaths=%[2]s under [Service] and RequiresMountsFor=%[2]s under [Unit]"
)

// serviceConfig is for Windows: elsewhere the unit is asked.
func serviceConfig() string { return "" }

func serviceRegistered() bool {
	return exists("/usr/lib/systemd/system/holdfast.service") || exists("/etc/systemd/system/holdfast.service")
}

// addServiceFlag adds nothing: the service is a node in the foreground.
func addServiceFlag(*cobra.Command, *bool) {}

func runService(stdio, *globals) error { return errors.ErrUnsupported }

func installerCmds() []*cobra.Command { return nil }
