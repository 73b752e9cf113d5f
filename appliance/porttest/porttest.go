// SPDX-License-Identifier: Apache-2.0

// Package porttest finds ports for tests that have to know one before the program that
// is tested listens there.
package porttest

import (
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"testing"
)

// Ports are looked for where the kernel of Linux takes none for connections and for port 0
// (ip_local_port_range, 32768 and up): one that it gave away before is taken by somebody
// else now and then, until the test gets to it.
const first, last = 20000, 32767

// Free returns the first of n ports in a row that nobody listens at on 127.0.0.1. They are
// the test's until it ends: other tests, also those of other processes, get others.
func Free(t testing.TB, n int) int {
	t.Helper()
	for range 1000 {
		port := first + rand.IntN(last-first-n+2)
		if claimed, ok := claim(port, n); ok {
			t.Cleanup(func() { closeAll(claimed) })
			return port
		}
	}
	t.Fatalf("got no %d free ports in a row from %d to %d", n, first, last)
	return 0
}

// claim holds the UDP ports of these numbers, which nothing here uses, so that no other
// test finds the same ones.
func claim(port, n int) ([]io.Closer, bool) {
	var held []io.Closer
	for p := port; p < port+n; p++ {
		at := net.JoinHostPort("127.0.0.1", strconv.Itoa(p))
		udp, err := net.ListenPacket("udp", at)
		if err != nil {
			closeAll(held)
			return nil, false
		}
		held = append(held, udp)
		tcp, err := net.Listen("tcp", at)
		if err != nil {
			closeAll(held)
			return nil, false
		}
		_ = tcp.Close()
	}
	return held, true
}

func closeAll(all []io.Closer) {
	for _, c := range all {
		_ = c.Close()
	}
}
