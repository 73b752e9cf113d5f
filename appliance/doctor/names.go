// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"

	"github.com/holdfast-mq/holdfast/appliance/howto"
)

// hosts are the entries without ports.
func hosts(entries []string) []string {
	out := make([]string, len(entries))
	for i, e := range entries {
		out[i] = e
		if host, _, err := net.SplitHostPort(e); err == nil {
			out[i] = host
		}
	}
	return out
}

// wanted is a host of the configuration.
type wanted struct {
	key, host string
	listen    bool // this machine has to have it
	local     bool // loopback is all right
	addrs     []string
	err       error
}

func (m *machine) wantedNames() []*wanted {
	c := m.in.Config
	var all []*wanted
	for _, h := range hosts(c.Listen.Advertise) {
		all = append(all, &wanted{key: "listen.advertise", host: h, local: c.Listen.Client.Loopback()})
	}
	if c.Cluster != nil {
		names := hosts(c.Cluster.Peers)
		slices.Sort(names)
		for _, h := range slices.Compact(names) {
			all = append(all, &wanted{key: "cluster.peers", host: h})
		}
	}
	for _, l := range m.listeners() {
		host, _ := l.addr.Split()
		all = append(all, &wanted{key: l.key, host: host, listen: true, local: true})
	}
	return all
}

// lookAtNames resolves what the configuration names.
func lookAtNames(ctx context.Context, m *machine) report {
	var r report
	all := m.wantedNames()
	var wait sync.WaitGroup
	for _, w := range all {
		wait.Go(func() {
			if net.ParseIP(w.host) != nil {
				w.addrs = []string{w.host}
				return
			}
			w.addrs, w.err = m.lookup(ctx, w.host)
		})
	}
	wait.Wait()
	own, err := ownAddresses()
	var seen []string
	for _, w := range all {
		if w.err != nil {
			m.unresolved(&r, w)
			continue
		}
		slices.Sort(w.addrs)
		if net.ParseIP(w.host) == nil && w.host != "localhost" {
			seen = append(seen, w.host+" is "+strings.Join(w.addrs, ", "))
		}
		loopback := slices.ContainsFunc(w.addrs, func(a string) bool { return net.ParseIP(a).IsLoopback() })
		switch {
		case loopback && !w.local:
			r.warn(fmt.Sprintf("%s (%s) is %s here, which means this machine to everybody who looks it up here", w.host, w.key, strings.Join(w.addrs, ", ")),
				"other machines that got this address can't reach it", comment("give it its real address in the name server, or in %s (Debian writes 127.0.1.1 there)", howto.Here().HostsFile()))
		case w.listen && err == nil && !slices.ContainsFunc(w.addrs, func(a string) bool { return hasAddress(own, a) }):
			r.warn(fmt.Sprintf("no interface of this machine has %s (%s); it has %s", strings.Join(w.addrs, ", "), w.key, some(own)),
				"the node can't listen on an address that is not there", comment("set %s to one of these, or to 0.0.0.0 for all", w.key))
		}
	}
	if len(seen) == 0 {
		seen = []string{"the configuration names only addresses"}
	}
	r.measured("%s", some(seen))
	return r
}

func (m *machine) unresolved(r *report, w *wanted) {
	evidence := fmt.Sprintf("%s (%s) does not resolve: %v", w.host, w.key, w.err)
	fix := comment("correct %s, or make the name known:\necho 'ITS-ADDRESS %s' >> %s", w.key, w.host, howto.Here().HostsFile())
	if w.key == "listen.advertise" {
		r.warn(evidence, "clients that are told this name may not find the node", fix)
		return
	}
	r.fail(evidence, "the node can't use an address that nobody knows", fix)
}

func ownAddresses() ([]string, error) {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	var out []string
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && !n.IP.IsLinkLocalUnicast() {
			out = append(out, n.IP.String())
		}
	}
	return out, nil
}

func hasAddress(own []string, want string) bool {
	ip := net.ParseIP(want)
	// All of 127/8 and every "all interfaces" is there without being listed.
	return ip == nil || ip.IsUnspecified() || ip.IsLoopback() || slices.ContainsFunc(own, func(o string) bool { return net.ParseIP(o).Equal(ip) })
}
