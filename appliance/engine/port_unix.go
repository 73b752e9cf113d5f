// SPDX-License-Identifier: Apache-2.0

//go:build !windows

package engine

import "syscall"

const (
	errAddrInUse    = syscall.EADDRINUSE
	errAddrNotAvail = syscall.EADDRNOTAVAIL
	errNoAccess     = syscall.EACCES
)
