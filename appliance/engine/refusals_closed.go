// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"math"
	"net"
	"strconv"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"
)

// closedConnections asks the server for the connections that ended last.
func (e *Engine) closedConnections() []*server.ConnInfo {
	// Asked for the users too, it copies them all. Their JWTs come anyway.
	c, err := e.server.Connz(&server.ConnzOptions{State: server.ConnClosed, Limit: math.MaxInt32})
	if err != nil {
		return nil
	}
	return c.Conns
}

// sweep counts the connections that were refused since the last sweep.
func (r *refusals) sweep() {
	r.sweeping.Lock()
	defer r.sweeping.Unlock()
	conns := r.closed()
	seen := make(map[uint64]bool, len(conns))
	for _, c := range conns {
		seen[c.Cid] = true
		if !r.seen[c.Cid] {
			r.connectionClosed(c)
		}
	}
	r.seen = seen
}

func (r *refusals) connectionClosed(c *server.ConnInfo) {
	r.mu.Lock()
	h := r.handshakes[c.Cid]
	delete(r.handshakes, c.Cid)
	r.mu.Unlock()

	reason, problem := closeReason(c.Reason)
	switch {
	case reason == "":
		return
	case reason == ReasonTLS && h.left:
		// Nobody refused a port scanner or a health check that says nothing.
		return
	case reason == ReasonTLS:
		problem = h.problem
	}
	at := r.now()
	if c.Stop != nil {
		at = *c.Stop
	}
	k := refusalKey{reason: reason}
	if token := readClaims(c.JWT); nkeys.IsValidPublicUserKey(token.Subject) {
		k.user = token.Subject
		if k.account = token.NATS.IssuerAccount; k.account == "" {
			k.account = token.Issuer
		}
		if problem == "" && reason == ReasonAuthentication && token.Expires != 0 && token.Expires <= at.Unix() {
			problem = "credentials expired"
		}
	}
	if !nkeys.IsValidPublicAccountKey(k.account) {
		k.account = ""
	}
	r.add(k, reason == ReasonAuthentication, at, example(c, problem))
}

// closeReason returns the reason of a refusal, or "" for a connection that ended
// otherwise. A payload that is too large has been counted by its log call.
func closeReason(text string) (reason, problem string) {
	switch text {
	case server.AuthenticationViolation.String():
		return ReasonAuthentication, ""
	case server.AuthenticationTimeout.String():
		return ReasonAuthentication, "no credentials in time"
	case server.AuthenticationExpired.String():
		return ReasonAuthentication, "credentials expired"
	case server.Revocation.String():
		return ReasonAuthentication, "credentials revoked"
	case server.MaxAccountConnectionsExceeded.String():
		return ReasonAccountConnections, ""
	case server.MaxConnectionsExceeded.String():
		return ReasonConnections, ""
	case server.TLSHandshakeError.String():
		return ReasonTLS, ""
	}
	return "", ""
}

func example(c *server.ConnInfo, problem string) string {
	address := "in process"
	if c.IP != "" {
		address = net.JoinHostPort(c.IP, strconv.Itoa(c.Port))
	}
	if problem == "" {
		return address
	}
	return address + ": " + problem
}
