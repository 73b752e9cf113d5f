// SPDX-License-Identifier: Apache-2.0

//go:build unix

package service

import (
	"os"
	"os/signal"
	"syscall"
)

func ignorePipe() { signal.Ignore(syscall.SIGPIPE) }

// Hangups delivers SIGHUP, which asks for a reload. Without it the end of the
// terminal would kill the node without a drain.
func Hangups() (c <-chan os.Signal, stop func()) {
	ch := make(chan os.Signal, 1)
	signal.Notify(ch, syscall.SIGHUP)
	return ch, func() { signal.Stop(ch) }
}
