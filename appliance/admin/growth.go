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
	// GrowSettles is before the copies are asked for: every stream is found in its place,
	// and the file is applied. Clients are back.
	GrowSettles GrowStep = "settling"
	// GrowCopies is while the other nodes get the messages.
	GrowCopies GrowStep = "copying"
	// GrowConsumers is when they have all messages, and get the consumers.
	GrowConsumers GrowStep = "consumers"
	// GrowOpens is when they have everything, and are not open for clients yet.
	GrowOpens GrowStep = "opening"
	// GrowHeld is that of the other nodes before they are open for clients.
	GrowHeld GrowStep = "held"
)

// Growth is how a cluster comes to the messages of a node that was a single one.
type Growth struct {
	Step GrowStep `json:"step"`
	// Node is the one that brings its messages.
	Node string `json:"node"`
	// Streams, Consumers and Bytes are what the node brings, without what Holdfast keeps
	// for itself. They stay the same once the node has entered the cluster.
	Streams       int   `json:"streams"`
	StreamsDone   int   `json:"streams_done"`
	Consumers     int   `json:"consumers"`
	ConsumersDone int   `json:"consumers_done"`
	Bytes         int64 `json:"bytes"`
	BytesDone     int64 `json:"bytes_done"`
	// Current is the stream, the consumer or the node that is waited for.
	Current string `json:"current,omitempty"`
	// Problem is what it waits for, and Fix what to do.
	Problem string `json:"problem,omitempty"`
	Fix     string `json:"fix,omitempty"`
}

// objectWork is what a stream or a consumer counts for beside its messages: each takes an
// election, however little is in it.
const objectWork = 1 << 20

// Work is how much of everything is done, for a bar.
func (g Growth) Work() (done, total int64) {
	return g.BytesDone + objectWork*int64(g.StreamsDone+g.ConsumersDone), g.Bytes + objectWork*int64(g.Streams+g.Consumers)
}
