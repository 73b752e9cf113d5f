// SPDX-License-Identifier: Apache-2.0

//go:build !linux && !windows

package admin

import "net"

func peerName(net.Conn) (string, bool) { return "", false }
