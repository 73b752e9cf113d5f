// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
)

// socket is a listening TCP socket of the kernel's table.
type socket struct {
	inode string
	uid   string
}

// portHolder says who listens on a port, as the end of a sentence: " by process
// 812 (nats-server)". The files of another user's process can't be read without
// privileges; the kernel's table still names the user.
func portHolder(host, port string) string {
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		s, ok := findListener(table, host, port)
		if !ok {
			continue
		}
		pid, ok := socketOwner(s.inode)
		switch {
		case ok && pid == strconv.Itoa(os.Getpid()):
			return " by Holdfast itself"
		case ok:
			comm, _ := os.ReadFile(filepath.Join("/proc", pid, "comm"))
			return fmt.Sprintf(" by process %s (%s)", pid, strings.TrimSpace(string(comm)))
		}
		name := "with uid " + s.uid
		if u, err := user.LookupId(s.uid); err == nil {
			name = u.Username
		}
		return " by a process of user " + name
	}
	return ""
}

// findListener looks for a listening socket on port whose address collides with
// host.
func findListener(table, host, port string) (socket, bool) {
	f, err := os.Open(table)
	if err != nil {
		return socket{}, false
	}
	defer f.Close()
	want := net.ParseIP(host)
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		// sl local_address rem_address st tx:rx tr:when retrnsmt uid timeout inode
		fields := strings.Fields(lines.Text())
		const listening = "0A"
		if len(fields) < 10 || fields[3] != listening {
			continue
		}
		ip, p, ok := parseAddr(fields[1])
		if !ok || p != port {
			continue
		}
		if want == nil || want.IsUnspecified() || ip.IsUnspecified() || ip.Equal(want) {
			return socket{inode: fields[9], uid: fields[7]}, true
		}
	}
	return socket{}, false
}

// parseAddr reads an address of /proc/net/tcp: 32-bit words in hexadecimal, each
// in the machine's byte order, and a port.
func parseAddr(s string) (net.IP, string, bool) {
	addr, port, _ := strings.Cut(s, ":")
	raw, err := hex.DecodeString(addr)
	if err != nil || len(raw) != net.IPv4len && len(raw) != net.IPv6len {
		return nil, "", false
	}
	ip := make(net.IP, len(raw))
	for i := 0; i < len(raw); i += 4 {
		binary.NativeEndian.PutUint32(ip[i:], binary.BigEndian.Uint32(raw[i:]))
	}
	n, err := strconv.ParseUint(port, 16, 16)
	if err != nil {
		return nil, "", false
	}
	return ip, strconv.FormatUint(n, 10), true
}

// socketOwner finds the process that has the socket open.
func socketOwner(inode string) (pid string, ok bool) {
	want := "socket:[" + inode + "]"
	processes, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return "", false
	}
	for _, p := range processes {
		files, err := os.ReadDir(filepath.Join(p, "fd"))
		if err != nil {
			continue
		}
		for _, f := range files {
			if target, err := os.Readlink(filepath.Join(p, "fd", f.Name())); err == nil && target == want {
				return filepath.Base(p), true
			}
		}
	}
	return "", false
}
