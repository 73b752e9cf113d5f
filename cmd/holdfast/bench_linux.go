// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os/exec"
	"syscall"
)

// detach keeps the terminal's Ctrl-C away from a child, which this program stops, and
// lets the child die with this program, however that ends.
func detach(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// sameVolume is also true where nobody can tell.
func sameVolume(a, b string) bool {
	var one, other syscall.Stat_t
	if syscall.Stat(a, &one) != nil || syscall.Stat(b, &other) != nil {
		return true
	}
	return one.Dev == other.Dev
}
