// SPDX-License-Identifier: Apache-2.0

package porttest

import (
	"fmt"
	"net"
	"testing"
)

func TestPortsAreOnesOwn(t *testing.T) {
	seen := map[int]bool{}
	for range 100 {
		port := Free(t, 2)
		for p := port; p < port+2; p++ {
			if p < first || p > last || seen[p] {
				t.Fatalf("got port %d, want one from %d to %d that nobody has", p, first, last)
			}
			seen[p] = true
			l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", p))
			if err != nil {
				t.Fatal(err)
			}
			_ = l.Close()
			if _, ok := claim(p, 1); ok {
				t.Errorf("got port %d twice", p)
			}
		}
	}
}

func TestATakenPortIsNotFree(t *testing.T) {
	port := Free(t, 1)
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, ok := claim(port, 1); ok {
		t.Errorf("got port %d, which somebody listens at", port)
	}
}

// TestPortsAreGivenBack: those of a test that ended are free again.
func TestPortsAreGivenBack(t *testing.T) {
	var port int
	t.Run("a test", func(t *testing.T) { port = Free(t, 1) })
	held, ok := claim(port, 1)
	if !ok {
		t.Errorf("got port %d still taken", port)
	}
	closeAll(held)
}
