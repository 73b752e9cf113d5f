// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"net"
	"strconv"
)

// Address is host:port; empty is off. Port 0 lets the kernel choose.
type Address string

func (a *Address) set(raw any) error {
	const fix = "write host:port, such as 127.0.0.1:4222 or [::1]:4222"
	s, ok := raw.(string)
	if !ok {
		return wrong(shown(raw)+" is not an address", fix)
	}
	if s == "" || s == "off" {
		*a = ""
		return nil
	}
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return wrong(fmt.Sprintf("%q is not an address", s), fix)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || strconv.FormatUint(n, 10) != port {
		return wrong(fmt.Sprintf("%q is not a port", port), "write a number from 0 to 65535; with 0 the system chooses")
	}
	if host == "" {
		return wrong(fmt.Sprintf("%q names no host", s), "write 127.0.0.1 for this machine only, 0.0.0.0 or [::] for every interface")
	}
	*a = Address(s)
	return nil
}

func (a *Address) api() any   { return string(*a) }
func (*Address) kind() string { return "address" }

// Split returns host and port; an empty address gives "" and 0.
func (a Address) Split() (host string, port int) {
	host, p, err := net.SplitHostPort(string(a))
	if err != nil {
		return "", 0
	}
	port, _ = strconv.Atoi(p) // checked by set
	return host, port
}

// Loopback reports whether only this machine can reach the address. A name
// counts as loopback only when it is localhost: others can change what they mean.
func (a Address) Loopback() bool {
	host, _ := a.Split()
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
