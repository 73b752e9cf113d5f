// SPDX-License-Identifier: Apache-2.0

package admin

// GrowStep is how far a node with messages is on its way into a cluster.
type GrowStep string

// The steps.
const (
	// GrowWaits is before the other nodes are there. The node is a single one.
	GrowWaits GrowStep = "waiting"
	// GrowAssigns is while the cluster is told of streams and consumers.
	GrowAssigns GrowStep = "assigning"
	// GrowEnters is when clients are cut off for a moment.
	GrowEnters GrowStep = "entering"
	// GrowCopies is while the other nodes get their copies. Clients are back.
	GrowCopies GrowStep = "copying"
	// GrowHeld is that of the other nodes before they are open for clients.
	GrowHeld GrowStep = "held"
)

// Growth is how a cluster comes to the messages of a node that was a single one.
type Growth struct {
	Step GrowStep `json:"step"`
	// Node is the one that brings its messages.
	Node        string `json:"node"`
	Streams     int    `json:"streams"`
	StreamsDone int    `json:"streams_done"`
	Bytes       int64  `json:"bytes"`
	BytesDone   int64  `json:"bytes_done"`
	// Problem is what it waits for, and Fix what to do.
	Problem string `json:"problem,omitempty"`
	Fix     string `json:"fix,omitempty"`
}
