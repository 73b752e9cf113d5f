// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// Copies is where a stream that this node has a copy of is kept.
type Copies struct {
	Account, Stream string
	// Leader is the node that takes messages for it; empty while there is none.
	Leader string
	// Nodes are all that keep it, this one too, by name. How far a copy is, only the
	// leader knows.
	Nodes []Copy
}

// Copy is the copy of a stream on a node.
type Copy struct {
	Node string
	// Current is true when it has everything; Offline while the node is not heard of.
	Current, Offline bool
	// Behind is how many changes it lacks, Seen how long ago it was heard of.
	Behind uint64
	Seen   time.Duration
}

// LedHere reports whether this node leads a stream, and so knows how far its copies are.
func (e *Engine) LedHere(c Copies) bool { return c.Leader == e.settings.NodeName }

// Keeps reports whether this node is one of those that keep a stream, or a consumer of it
// where one is named; true on a single node.
func (e *Engine) Keeps(accountKey, stream, consumer string) bool {
	if !e.Clustered() {
		return true
	}
	if assigned := e.server.JetStreamIsStreamAssigned(accountKey, stream); !assigned || consumer == "" {
		return assigned
	}
	// A consumer may have fewer copies than its stream.
	account, err := e.server.JszAccount(&server.JSzOptions{Account: accountKey, Streams: true, Consumer: true})
	return err != nil || slices.ContainsFunc(account.Streams, func(s server.StreamDetail) bool {
		return s.Name == stream && slices.ContainsFunc(s.Consumer, func(c *server.ConsumerInfo) bool { return c.Name == consumer })
	})
}

// mostAccounts is more than there are: the server shows 1024 unless it is asked for more.
const mostAccounts = 1 << 20

// Copies returns the streams that this node has a copy of, by account and name; none on
// a single node, and while the server does not run.
func (e *Engine) Copies() ([]Copies, error) {
	if !e.Clustered() || e.recovery.at() != PhaseRunning {
		return nil, nil
	}
	js, err := e.server.Jsz(&server.JSzOptions{Accounts: true, Streams: true, Config: true, Limit: mostAccounts})
	if err != nil {
		return nil, fmt.Errorf("read where streams are kept: %w", err)
	}
	var out []Copies
	for _, a := range js.AccountDetails {
		for _, s := range a.Streams {
			replicas := 1
			if s.Config != nil {
				replicas = s.Config.Replicas
			}
			out = append(out, e.copiesOf(e.log.names.name(a.Id), s.Name, replicas, s.Cluster))
		}
	}
	slices.SortFunc(out, func(a, b Copies) int {
		return cmp.Or(cmp.Compare(a.Account, b.Account), cmp.Compare(a.Stream, b.Stream))
	})
	return out, nil
}

func (e *Engine) copiesOf(account, stream string, replicas int, ci *server.ClusterInfo) Copies {
	self := e.settings.NodeName
	c := Copies{Account: account, Stream: stream}
	if ci == nil && replicas > 1 {
		// Until there is a leader after a start the server does not know who has the others.
		c.Nodes = []Copy{{Node: self}}
		for range replicas - 1 {
			c.Nodes = append(c.Nodes, Copy{Node: unseen, Offline: true})
		}
		return c
	}
	if ci == nil {
		c.Leader, c.Nodes = self, []Copy{{Node: self, Current: true}}
		return c
	}
	c.Leader = ci.Leader
	for _, p := range ci.Replicas {
		c.Nodes = append(c.Nodes, Copy{Node: NodeName(p.Name), Current: p.Current, Offline: p.Offline, Behind: p.Lag, Seen: p.Active})
	}
	// The server leaves itself out while there is a leader.
	if !slices.ContainsFunc(c.Nodes, func(n Copy) bool { return n.Node == self }) {
		c.Nodes = append(c.Nodes, Copy{Node: self, Current: c.Leader == self})
	}
	slices.SortFunc(c.Nodes, func(a, b Copy) int { return cmp.Compare(a.Node, b.Node) })
	return c
}

// unseen is what a node is called that this one has not met since it started.
const unseen = "a node not seen since this start"

// textUnseen is what the server calls such a node, with its raft ID between the two
// (jetstream_cluster.go of nats-server 2.15.3).
const textUnseen, textUnseenEnd = "Server name unknown at this time (peerID: ", ")"

// NodeName is what people call a node that the server names so. One that it has not met
// since it started it knows by its raft ID alone, and says so in a sentence.
func NodeName(name string) string {
	id, ok := strings.CutPrefix(name, textUnseen)
	if !ok {
		return name
	}
	return unseen + " (raft ID " + strings.TrimSuffix(id, textUnseenEnd) + ")"
}

// Unseen reports whether a name is that of a node that was not met since this one started.
func Unseen(name string) bool { return strings.HasPrefix(name, unseen) }
