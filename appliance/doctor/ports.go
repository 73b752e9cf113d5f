// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	netstat "github.com/shirou/gopsutil/v4/net"

	"github.com/holdfast-mq/holdfast/appliance/config"
	"github.com/holdfast-mq/holdfast/appliance/howto"
)

// listener is an address of the configuration, with its key.
type listener struct {
	key  string
	addr config.Address
}

func (m *machine) listeners() []listener {
	c := m.in.Config
	all := []listener{
		{"listen.client", c.Listen.Client}, {"listen.http", c.Listen.HTTP}, {"listen.websocket", c.Listen.WebSocket},
		{"listen.mqtt", c.Listen.MQTT}, {"listen.leafnode", c.Listen.Leafnode},
	}
	if c.Cluster != nil {
		all = append(all, listener{"cluster.listen", c.Cluster.Routes()})
	}
	return slices.DeleteFunc(all, func(l listener) bool { _, port := l.addr.Split(); return port == 0 })
}

// lookAtPorts finds who has the addresses that the node needs.
func lookAtPorts(ctx context.Context, m *machine) report {
	var r report
	taken, err := netstat.ConnectionsWithContext(ctx, "tcp")
	if err != nil {
		r.blind(m, "can't list the sockets: "+err.Error())
		return r
	}
	own := m.running(ctx)
	var free, held []string
	for _, l := range m.listeners() {
		pids, found := m.holders(ctx, taken, l.addr)
		m.lookAtPrivilege(&r, l)
		switch {
		case !found:
			free = append(free, string(l.addr))
		case own != 0 && slices.Contains(pids, own):
			held = append(held, string(l.addr))
		case len(pids) == 0: // another user's, and this one is not root
			if _, err := m.ask(ctx); err == nil {
				held = append(held, string(l.addr))
				continue
			}
			r.blind(m, fmt.Sprintf("%s (%s) is taken, and by whom can't be seen", l.addr, l.key))
		default:
			r.fail(fmt.Sprintf("%s (%s%s) is taken by %s", l.addr, l.key, m.assumed(), m.describe(ctx, pids[0])),
				"the node can't listen there, so that nobody can connect", m.freePort(l, pids[0]))
		}
	}
	var text []string
	if len(held) > 0 {
		text = append(text, "the node listens on "+strings.Join(held, ", "))
	}
	if len(free) > 0 {
		text = append(text, "free: "+strings.Join(free, ", "))
	}
	r.measured("%s", cmp.Or(strings.Join(text, "; "), "the system chooses the ports"))
	return r
}

// holders are the processes that listen where addr would; found is true also when
// they can't be seen.
func (m *machine) holders(ctx context.Context, all []netstat.ConnectionStat, addr config.Address) (pids []int, found bool) {
	host, port := addr.Split()
	want := []net.IP{net.ParseIP(host)}
	if want[0] == nil {
		want = nil
		names, err := m.lookup(ctx, host)
		if err != nil {
			return nil, false // said by names
		}
		for _, n := range names {
			want = append(want, net.ParseIP(n))
		}
	}
	for _, c := range all {
		if c.Status != "LISTEN" || int(c.Laddr.Port) != port {
			continue
		}
		ip := net.ParseIP(c.Laddr.IP)
		if !slices.ContainsFunc(want, func(w net.IP) bool { return collide(w, ip) }) {
			continue
		}
		found = true
		if c.Pid != 0 && !slices.Contains(pids, int(c.Pid)) {
			pids = append(pids, int(c.Pid))
		}
	}
	return pids, found
}

func collide(a, b net.IP) bool {
	if a.IsUnspecified() || b.IsUnspecified() {
		// :: takes the port of both families, 0.0.0.0 only of its own.
		sameFamily := (a.To4() != nil) == (b.To4() != nil)
		return sameFamily || a.Equal(net.IPv6unspecified) || b.Equal(net.IPv6unspecified)
	}
	return a.Equal(b)
}

// freePort stops what is another broker for certain; anything else is a person's
// decision.
func (m *machine) freePort(l listener, pid int) string {
	program, service := m.program(pid), m.unitOf(pid)
	broker := slices.Contains([]string{"nats-server", "gnatsd", "holdfast"}, program)
	switch {
	case broker && service == unitName:
		return m.asRoot(howto.Here().Stop())
	case broker && service != "":
		return m.asRoot("systemctl disable --now " + quote(strings.TrimSuffix(service, ".service")))
	case broker:
		return m.asRoot(howto.Here().End(pid))
	}
	stop := m.asRoot(howto.Here().End(pid))
	if service != "" {
		stop = m.asRoot("systemctl disable --now " + quote(strings.TrimSuffix(service, ".service")))
	}
	where := m.in.Config.At(strings.Split(l.key, ".")...).String()
	if where == "" || where == "default" {
		where = m.in.File
	}
	return comment("if it is not needed: %s\nelse give the node another address: %s in %s", stop, l.key, where)
}

// lookAtPrivilege finds a port that the service's user may not open.
func (m *machine) lookAtPrivilege(r *report, l listener) {
	_, port := l.addr.Split()
	first, err := strconv.Atoi(m.read("/proc/sys/net/ipv4/ip_unprivileged_port_start"))
	if err != nil || port >= first || !m.service() {
		return
	}
	v := m.unit().values
	if slices.Contains(v.words("Service/AmbientCapabilities"), "CAP_NET_BIND_SERVICE") || m.owner().uid == 0 {
		return
	}
	dir := "/etc/systemd/system/" + unitName + ".d"
	r.fail(fmt.Sprintf("%s (%s) is below %d, and the unit has no AmbientCapabilities=CAP_NET_BIND_SERVICE", l.addr, l.key, first), "the node may not listen there",
		m.asRoot(fmt.Sprintf(`mkdir -p %s && printf '[Service]\nAmbientCapabilities=CAP_NET_BIND_SERVICE\nCapabilityBoundingSet=CAP_NET_BIND_SERVICE\n' > %s && systemctl daemon-reload && systemctl restart holdfast`,
			quote(m.at(dir)), quote(m.at(dir+"/50-low-port.conf")))))
}
