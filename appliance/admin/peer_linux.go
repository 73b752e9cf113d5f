// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"net"
	"os/user"
	"strconv"

	"golang.org/x/sys/unix"
)

// peerName is the user of the process at the other end of a unix socket.
func peerName(c net.Conn) (string, bool) {
	uid, ok := peerUID(c)
	if !ok {
		return "", false
	}
	if u, err := user.LookupId(strconv.Itoa(uid)); err == nil {
		return u.Username, true
	}
	return "uid " + strconv.Itoa(uid), true
}

func peerUID(c net.Conn) (int, bool) {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return 0, false
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return 0, false
	}
	var cred *unix.Ucred
	if cerr := raw.Control(func(fd uintptr) { cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); cerr != nil || err != nil {
		return 0, false
	}
	return int(cred.Uid), true
}
