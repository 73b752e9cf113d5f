// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"fmt"
	"net"

	"golang.org/x/sys/windows"
)

// peerName is the user of the process at the other end of a pipe, or the process,
// where the service may not look at it.
func peerName(c net.Conn) (string, bool) {
	f, ok := c.(interface{ Fd() uintptr })
	if !ok {
		return "", false
	}
	var pid uint32
	if err := windows.GetNamedPipeClientProcessId(windows.Handle(f.Fd()), &pid); err != nil {
		return "", false
	}
	if name, err := userOf(pid); err == nil {
		return name, true
	}
	return fmt.Sprintf("process %d", pid), true
}

func userOf(pid uint32) (string, error) {
	process, err := windows.OpenProcess(windows.PROCESS_QUERY_LIMITED_INFORMATION, false, pid)
	if err != nil {
		return "", err
	}
	defer func() { _ = windows.CloseHandle(process) }()
	var token windows.Token
	if err := windows.OpenProcessToken(process, windows.TOKEN_QUERY, &token); err != nil {
		return "", err
	}
	defer func() { _ = token.Close() }()
	user, err := token.GetTokenUser()
	if err != nil {
		return "", err
	}
	account, domain, _, err := user.User.Sid.LookupAccount("")
	if err != nil {
		return "", err
	}
	return domain + `\` + account, nil
}
