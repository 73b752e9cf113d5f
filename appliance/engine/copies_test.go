// SPDX-License-Identifier: Apache-2.0

package engine

import "testing"

func TestNameOfANodeThatWasNeverSeen(t *testing.T) {
	for name, want := range map[string]string{
		"n1": "n1",
		"Server name unknown at this time (peerID: S1Nunr6R)": "a node not seen since this start (raft ID S1Nunr6R)",
	} {
		if got := NodeName(name); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
