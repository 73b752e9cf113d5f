// SPDX-License-Identifier: Apache-2.0

//go:build !windows

package main

import (
	"errors"

	"github.com/spf13/cobra"
)

// What is called by other names on Windows.
const (
	serviceName    = "holdfast.service"
	unitWord       = "unit"
	startCommand   = "systemctl start holdfast"
	restartCommand = "systemctl restart holdfast"
	closedHint     = "run it with sudo, or join the group of the service: `sudo usermod -aG holdfast $USER`, then log in again"
	// otherDirHint takes the directory as its second argument, twice.
	otherDirHint = "`systemctl edit holdfast`, with ReadWritePaths=%[2]s under [Service] and RequiresMountsFor=%[2]s under [Unit]"
)

func serviceRegistered() bool {
	return exists("/usr/lib/systemd/system/holdfast.service") || exists("/etc/systemd/system/holdfast.service")
}

// addServiceFlag adds nothing: the service is a node in the foreground.
func addServiceFlag(*cobra.Command, *bool) {}

func runService(stdio, *globals) error { return errors.ErrUnsupported }

func installerCmds() []*cobra.Command { return nil }
