// SPDX-License-Identifier: Apache-2.0

package join

import (
	"crypto/ed25519"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

const (
	// tokenProtocol is what a machine with a token asks for in the handshake: the node
	// shows the certificate then that the token has the fingerprint of the CA of.
	tokenProtocol = "holdfast-token-1"
	// claimSays is what is signed, with the connection.
	claimSays = "holdfast token"
	// largestClaim bounds what is read from somebody who has proved nothing, in bytes.
	largestClaim = 4 << 10
	// toldEvery is how often a node says that it refused tokens.
	toldEvery = 10 * time.Second
)

// Reason is why a token was refused; empty when it was not.
type Reason string

// The reasons.
const (
	ReasonUnknown Reason = "unknown"
	ReasonUsed    Reason = "used"
	ReasonExpired Reason = "expired"
	ReasonOther   Reason = "other" // nothing is wrong with the token
)

// Claim is who shows a token. It was proved: the machine knows the token's secret, and
// has the key that it names.
type Claim struct {
	Token   ed25519.PublicKey
	Machine ed25519.PublicKey
	Node    string // its name, which may be empty
	Version string // of Holdfast
	From    string // its address
}

// Grant is what a machine with a token gets.
type Grant struct {
	Reason  Reason `json:"reason,omitempty"`
	Refused string `json:"refused,omitempty"`
	// Node is the node that answers, and Self which of Peers it is.
	Node string `json:"node"`
	Self string `json:"self,omitempty"`
	// Cluster, Peers and Listen are those of its block `cluster:`, and For which of Peers
	// the machine is to be.
	Cluster string   `json:"cluster,omitempty"`
	Peers   []string `json:"peers,omitempty"`
	Listen  string   `json:"listen,omitempty"`
	For     string   `json:"for,omitempty"`
	// Secret is that of the cluster.
	Secret []byte `json:"secret,omitempty"`
	// File is its configuration, without what is its own; empty where that is in several
	// files.
	File []byte `json:"file,omitempty"`
}

// String leaves the secret out.
func (g Grant) String() string { return fmt.Sprintf("grant of %s, refused: %q", g.Node, g.Refused) }

// GoString leaves the secret out.
func (g Grant) GoString() string { return g.String() }

// Inviter answers machines with a token. Its methods are called from several goroutines.
type Inviter interface {
	// Certificate is one of the CA whose fingerprint is in the tokens, with that of the CA
	// behind it.
	Certificate() (tls.Certificate, error)
	// Grant also returns why it could not look, which is not for the machine to know.
	Grant(Claim) (Grant, error)
}

// claim is a Claim as it is sent, with its proofs.
type claim struct {
	Token        ed25519.PublicKey `json:"token"`
	TokenProof   []byte            `json:"token_proof"`
	Machine      ed25519.PublicKey `json:"machine"`
	MachineProof []byte            `json:"machine_proof"`
	Node         string            `json:"node"`
	Version      string            `json:"version"`
}

// signed is what both keys sign: it holds for this connection only, so that nobody can
// pass it on.
func (c claim) signed(state tls.ConnectionState) ([]byte, error) {
	bound, err := state.ExportKeyingMaterial("EXPORTER-Channel-Binding", nil, 32)
	if err != nil {
		return nil, fmt.Errorf("bind the proof to the connection: %w", err)
	}
	out := append([]byte(claimSays), bound...)
	out = append(append(out, c.Token...), c.Machine...)
	return append(out, c.Node...), nil
}

var errProof = errors.New("a proof is wrong")

func (c claim) check(state tls.ConnectionState) error {
	text, err := c.signed(state)
	if err != nil {
		return err
	}
	for _, p := range []struct {
		key   ed25519.PublicKey
		proof []byte
	}{{c.Token, c.TokenProof}, {c.Machine, c.MachineProof}} {
		if len(p.key) != ed25519.PublicKeySize || !ed25519.Verify(p.key, text, p.proof) {
			return errProof
		}
	}
	return nil
}

// configFor is what the handshake goes on with: the certificate of the cluster for who
// has a token.
func (k *Keeper) configFor(hello *tls.ClientHelloInfo) (*tls.Config, error) {
	if k.inviter == nil || !slices.Contains(hello.SupportedProtos, tokenProtocol) {
		return nil, nil //nolint:nilnil // as before
	}
	cert, err := k.inviter.Certificate()
	if err != nil {
		return nil, err
	}
	return &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS13, NextProtos: []string{tokenProtocol}, SessionTicketsDisabled: true}, nil
}

// redeem answers a machine with a token.
func (k *Keeper) redeem(c *tls.Conn) error {
	var said claim
	if err := receiveAtMost(c, &said, largestClaim); err != nil {
		return err
	}
	from := c.RemoteAddr()
	g := Grant{Reason: ReasonUnknown, Refused: "the machine could not prove that it has the token"}
	var fault error
	if err := said.check(c.ConnectionState()); err == nil {
		g, fault = k.inviter.Grant(Claim{Token: said.Token, Machine: said.Machine, Node: said.Node, Version: said.Version, From: host(from)})
	} else if !errors.Is(err, errProof) {
		return err
	}
	switch {
	case fault != nil:
		k.refused.tell(k.log, from, fault.Error(), diag.Hint(fault))
	case g.Refused != "":
		k.refused.tell(k.log, from, g.Refused, "nothing, if nobody tried to join; else make another token with `holdfast cluster invite`")
	}
	if err := send(c, g); err != nil {
		return err
	}
	return c.Close()
}

// host is an address without its port.
func host(a net.Addr) string {
	h, _, err := net.SplitHostPort(a.String())
	if err != nil {
		return a.String()
	}
	return h
}

// refusedTokens tells of refused tokens, and not of each: somebody may try many.
type refusedTokens struct {
	mu    sync.Mutex
	told  time.Time
	since int
}

func (r *refusedTokens) tell(log *slog.Logger, from net.Addr, why, fix string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.told.IsZero() && time.Since(r.told) < toldEvery {
		r.since++
		return
	}
	log.Warn("a machine with a token was turned away", "address", from.String(), "reason", why, "count", r.since+1, "fix", fix)
	r.told, r.since = time.Now(), 0
}
