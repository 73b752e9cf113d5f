// SPDX-License-Identifier: Apache-2.0

package datadir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"golang.org/x/sys/unix"
)

// processName returns " (holdfast run)" for a living process, or an empty name
// when it may not be known. Of the arguments only a verb is shown: the others
// can hold secrets.
func processName(pid int) (name string, alive bool) {
	if err := unix.Kill(pid, 0); errors.Is(err, unix.ESRCH) {
		return "", false
	}
	cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil || len(cmdline) == 0 {
		return "", true
	}
	args := strings.Split(string(cmdline), "\x00")
	program := filepath.Base(args[0])
	if !regexp.MustCompile(`^[\w.@+-]{1,64}$`).MatchString(program) {
		return "", true
	}
	if len(args) > 1 && regexp.MustCompile(`^[a-z][a-z-]{0,19}$`).MatchString(args[1]) {
		program += " " + args[1]
	}
	return " (" + program + ")", true
}
