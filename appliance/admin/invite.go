// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"
)

// Inviter makes tokens with which machines join the cluster; the appliance is one, and
// so is a node that waits for others.
type Inviter interface {
	Invite(ctx context.Context, r InviteRequest) (Invitation, error)
}

// InviteRequest says what for.
type InviteRequest struct {
	// For is which of cluster.peers the machine is to be; empty where its addresses tell.
	For string `json:"for,omitempty"`
	// Expires is after how long the token ends.
	Expires float64 `json:"expires_seconds"`
}

// Invitation is a token. Whoever has it can join the cluster, and is given all keys then.
type Invitation struct {
	Token       string    `json:"token"`
	Cluster     string    `json:"cluster"`
	Node        string    `json:"node"` // that made it
	For         string    `json:"for,omitempty"`
	Addresses   []string  `json:"addresses"`
	Fingerprint string    `json:"ca_sha256"`
	Expires     time.Time `json:"expires"`
}

// WithInvites serves what h does, and makes tokens.
func WithInvites(h http.Handler, i Inviter) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/cluster/invite", func(w http.ResponseWriter, r *http.Request) {
		var req InviteRequest
		err := read(w, r, &req)
		var out Invitation
		if err == nil {
			out, err = i.Invite(r.Context(), req)
		}
		answer(w, out, err)
	})
	mux.Handle("/", h)
	return mux
}

// Invite asks for a token.
func (c *Client) Invite(ctx context.Context, r InviteRequest) (Invitation, error) {
	var out Invitation
	err := c.post(ctx, "/v1/cluster/invite", r, func(body io.Reader) error {
		if err := json.NewDecoder(body).Decode(&out); err != nil {
			return fmt.Errorf("read the node's answer: %w", err)
		}
		return nil
	})
	return out, err
}
