// SPDX-License-Identifier: Apache-2.0

//go:build process && linux

package main

import (
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-mq/holdfast/appliance/porttest"
)

// door is a port in front of another one, which can be shut: what comes then is taken and
// goes nowhere, as with a firewall that drops.
type door struct {
	to    string
	mu    sync.Mutex
	shut  bool
	conns []net.Conn
}

func newDoor(t *testing.T, at, to string) *door {
	t.Helper()
	l, err := net.Listen("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	d := &door{to: to}
	t.Cleanup(func() {
		_ = l.Close()
		d.close(true)
	})
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			d.pass(c)
		}
	}()
	return d
}

func (d *door) pass(from net.Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.conns = append(d.conns, from)
	if d.shut {
		return
	}
	to, err := net.Dial("tcp", d.to)
	if err != nil {
		_ = from.Close()
		return
	}
	d.conns = append(d.conns, to)
	for _, ends := range [][2]net.Conn{{from, to}, {to, from}} {
		go func() {
			_, _ = io.Copy(ends[0], ends[1])
			_ = ends[0].Close()
		}()
	}
}

// close shuts or opens it; what goes through it ends.
func (d *door) close(shut bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.shut = shut
	for _, c := range d.conns {
		_ = c.Close()
	}
	d.conns = nil
}

// TestProcessPortsBlockedOneWay shuts the ports of a node for the others, who can still be
// reached from there: the routes come about from its side, and the others say which port
// is shut.
func TestProcessPortsBlockedOneWay(t *testing.T) {
	t.Parallel()
	nodes := newCluster(t, shop)
	_, list, _ := strings.Cut(nodes[2].text(), "listen: \"")
	peer, _, _ := strings.Cut(list, "\"")
	var port, own int
	if _, err := fmt.Sscanf(peer, "127.0.0.1:%d", &port); err != nil {
		t.Fatal(err)
	}
	own = porttest.Free(t, 2)
	nodes[2].edit(fmt.Sprintf("listen: %q", peer), fmt.Sprintf("advertise: %q, listen: \"127.0.0.1:%d\"", peer, own))
	routes := newDoor(t, peer, fmt.Sprintf("127.0.0.1:%d", own))
	joins := newDoor(t, fmt.Sprintf("127.0.0.1:%d", port+1), fmt.Sprintf("127.0.0.1:%d", own+1))
	for _, n := range nodes {
		n.launch()
	}
	waitAllReady(t, nodes...)
	for _, n := range nodes {
		n.waitCluster()
	}
	js := nodes[0].jetStream()
	publish(t, js, "orders.a", "1")
	routes.close(true)
	joins.close(true)
	nodes[0].says(2, "there is a route to it, and it does not answer on the port behind")
	nodes[1].says(2, "there is a route to it, and it does not answer on the port behind")
	eventually(t, patience, func() error {
		s, err := nodes[2].status()
		if err != nil {
			return err
		}
		for _, m := range s.Cluster.Nodes {
			if m.Problem != "" {
				return fmt.Errorf("got %+v, want no problem on the side that can reach the others", m)
			}
		}
		return nil
	})
	publish(t, js, "orders.a", "2")
	routes.close(false)
	joins.close(false)
	for _, n := range nodes {
		n.waitCluster()
		if info, err := n.jetStream().Stream(t.Context(), "ORDERS"); err != nil || info.CachedInfo().State.Msgs != 2 {
			t.Errorf("got %v and %v, want 2 messages", info, err)
		}
	}
}
