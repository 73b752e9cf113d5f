// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"strings"
	"testing"
)

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

// TestTextOfANodeThatWasNeverSeen looks into the server's source: without it such a node
// would be shown under a sentence of the server, and not be found by its address.
func TestTextOfANodeThatWasNeverSeen(t *testing.T) {
	if want := `fmt.Sprintf("` + textUnseen + "%s" + textUnseenEnd + `"`; strings.Count(serverSource(t, "jetstream_cluster.go"), want) != 2 {
		t.Errorf("got a server that does not say %s in two places any more, want another way to find nodes that were never seen", want)
	}
}
