// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"errors"
	"net/http"
	"time"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

// Cluster is the nodes that replicate to each other, as one of them sees it.
type Cluster struct {
	Name string `json:"name"`
	// Leader is the node that decides on streams and consumers and applies its file;
	// empty while there is none.
	Leader string `json:"leader,omitempty"`
	// Quorum is how many of Size nodes have to be up for that.
	Size   int `json:"size"`
	Quorum int `json:"quorum"`
	// NoLeaderSince is set while there is none.
	NoLeaderSince *time.Time  `json:"no_leader_since,omitempty"`
	Nodes         []Member    `json:"nodes"`             // in the order of cluster.peers
	Streams       []Placement `json:"streams,omitempty"` // by name; consumers that have copies of their own are among them
	Losses        []Loss      `json:"losses,omitempty"`  // what losing one node does now, of every node that is up
	// Stopped is true while fewer nodes are up than are needed: whatever more than one node
	// keeps takes and delivers nothing. Returns says then what each node that is down would
	// bring back.
	Stopped bool     `json:"stopped,omitempty"`
	Returns []Return `json:"returns,omitempty"`
	// Growth is there while a node that had messages before brings them.
	Growth *Growth `json:"growth,omitempty"`
}

// Placement is where a stream or consumer is kept.
type Placement struct {
	Name string `json:"name"` // ACCOUNT/STREAM or ACCOUNT/STREAM/CONSUMER
	// Leader is the node that decides; empty while there is none, or none that answers.
	Leader        string     `json:"leader,omitempty"`
	NoLeaderSince *time.Time `json:"no_leader_since,omitempty"` // as far as this node knows
	Copies        []Copy     `json:"copies"`                    // by node; empty where that is not known
	Problem       string     `json:"problem,omitempty"`
	Fix           string     `json:"fix,omitempty"`
}

// Copy is a copy on a node.
type Copy struct {
	Node string `json:"node"`
	// Current is true when it has everything, Offline while the node is not heard of.
	Current bool `json:"current"`
	Offline bool `json:"offline,omitempty"`
	// Behind is how many changes it lacks, as far as is known.
	Behind uint64  `json:"behind,omitempty"`
	Seen   float64 `json:"last_seen_seconds,omitempty"`
}

// Loss is what losing a node does, as things are.
type Loss struct {
	Node string `json:"node"`
	// Everything is true when too few nodes are left to agree on anything.
	Everything bool `json:"everything,omitempty"`
	// Stops are streams and consumers that stand still until the node is back; Loses
	// those that are gone with its disk.
	Stops []string `json:"stops,omitempty"`
	Loses []string `json:"loses,omitempty"`
}

// Return is what a node that is down brings back with it, as things are.
type Return struct {
	Node    string `json:"node,omitempty"` // empty before it was heard of
	Address string `json:"address"`
	// Enough is true when enough nodes are up with it to agree.
	Enough bool `json:"enough"`
	// Waits are streams and consumers that stand still until others are back as well.
	Waits []string `json:"waits,omitempty"`
}

// Member is a node of the cluster.
type Member struct {
	Address string `json:"address"`        // as cluster.peers has it
	Name    string `json:"name,omitempty"` // empty before it was heard of
	Self    bool   `json:"self,omitempty"`
	Version string `json:"version,omitempty"`
	NATS    string `json:"nats_version,omitempty"`
	// Connected is true while there is a route to it.
	Connected bool    `json:"connected"`
	RTT       float64 `json:"rtt_seconds,omitempty"`
	// Current is true when it has everything that it should: what was agreed on, and all
	// messages of the streams it keeps a copy of. Each node says it of itself.
	Current bool `json:"current"`
	// ClockAhead is how far its clock is before this node's, in seconds.
	ClockAhead float64 `json:"clock_ahead_seconds,omitempty"`
	// OtherFile is true when its file asks for something else than that of the node that
	// leads, or than this node's while nobody does.
	OtherFile bool `json:"other_file,omitempty"`
	// Differs says in what its file differs from that one of what the file of the node that
	// leads decides for all, and that changes no object.
	Differs []string `json:"differs,omitempty"`
	// FileRefused says why its file, as it is now, is not in force; empty when it is.
	FileRefused string `json:"file_refused,omitempty"`
	// NotConnectedSince is set while there is no route to it.
	NotConnectedSince *time.Time `json:"not_connected_since,omitempty"`
	// PublishingStopped says why nothing is stored in files by the streams that it leads;
	// empty while it is.
	PublishingStopped      string     `json:"publishing_stopped,omitempty"`
	PublishingStoppedSince *time.Time `json:"publishing_stopped_since,omitempty"`
	// Certificates are those that it uses: of the routes, and of its clients.
	Certificates []MemberCertificate `json:"certificates,omitempty"`
	// Problem says why it is not what it should be, and Fix what to do.
	Problem string    `json:"problem,omitempty"`
	Fix     string    `json:"fix,omitempty"`
	Code    diag.Code `json:"code,omitempty"`
	// Warnings are what will hurt later.
	Warnings []string `json:"warnings,omitempty"`
}

// MemberCertificate is a certificate of a node.
type MemberCertificate struct {
	Name     string    `json:"name"` // route, route_ca, server or ca
	NotAfter time.Time `json:"not_after"`
}

// Waiting serves the status of a node that can't do anything else yet.
func Waiting(n Node) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/status", func(w http.ResponseWriter, r *http.Request) {
		s, err := n.Status(r.Context())
		answer(w, s, err)
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, nil, diag.Fail(diag.CodeNotReady, errors.New("the node waits for the others of its cluster"), "`holdfast status` says for whom"))
	})
	return mux
}
