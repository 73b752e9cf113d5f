// SPDX-License-Identifier: Apache-2.0

package child

import (
	"os/exec"
	"syscall"
)

// Tied makes a command end with the thread that starts it: a program locks its main
// goroutine to its thread beforehand.
func Tied(cmd *exec.Cmd) {
	// Not ended by the ^C that this process gets: a node is to be cut, not stopped.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
