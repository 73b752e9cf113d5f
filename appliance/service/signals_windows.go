// SPDX-License-Identifier: Apache-2.0

package service

import "os"

func ignorePipe() {}

// Hangups never delivers anything: Windows has no SIGHUP.
func Hangups() (c <-chan os.Signal, stop func()) {
	return make(chan os.Signal), func() {}
}
