// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"errors"
	"net/http"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

// Cluster is the nodes that replicate to each other, as one of them sees it.
type Cluster struct {
	Name string `json:"name"`
	// Leader is the node that decides on streams and consumers and applies its file;
	// empty while there is none.
	Leader string `json:"leader,omitempty"`
	// Quorum is how many of Size nodes have to be up for that.
	Size   int      `json:"size"`
	Quorum int      `json:"quorum"`
	Nodes  []Member `json:"nodes"` // in the order of cluster.peers
	// Growth is there while a node that had messages before brings them.
	Growth *Growth `json:"growth,omitempty"`
}

// Member is a node of the cluster.
type Member struct {
	Address string `json:"address"`        // as cluster.peers has it
	Name    string `json:"name,omitempty"` // empty before it was heard of
	Self    bool   `json:"self,omitempty"`
	Version string `json:"version,omitempty"`
	// Connected is true while there is a route to it.
	Connected bool    `json:"connected"`
	RTT       float64 `json:"rtt_seconds,omitempty"`
	// Current is true when it has everything that it should: what was agreed on, and all
	// messages of the streams it keeps a copy of. Each node says it of itself.
	Current bool `json:"current"`
	// ClockAhead is how far its clock is before this node's, in seconds.
	ClockAhead float64 `json:"clock_ahead_seconds,omitempty"`
	// OtherFile is true when its file asks for something else than this node's.
	OtherFile bool `json:"other_file,omitempty"`
	// Problem says why it is not what it should be, and Fix what to do.
	Problem string `json:"problem,omitempty"`
	Fix     string `json:"fix,omitempty"`
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
