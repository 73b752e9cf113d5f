// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package admin

import "net"

func peerUID(net.Conn) (int, bool) { return 0, false }
