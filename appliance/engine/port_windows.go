// SPDX-License-Identifier: Apache-2.0

package engine

import "syscall"

// The E names of package syscall are made up on Windows; these are what the
// sockets return.
const (
	errAddrInUse    = syscall.Errno(10048) // WSAEADDRINUSE
	errAddrNotAvail = syscall.Errno(10049) // WSAEADDRNOTAVAIL
	errNoAccess     = syscall.Errno(10013) // WSAEACCES
)
