// SPDX-License-Identifier: Apache-2.0

package join

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

// errStranger is that of somebody who does not have the CA of the token.
var errStranger = errors.New("what answers there is not a node of the cluster that the token is of")

// Redeem shows a token to the node that made it. machine is what the token is bound to
// from then on. An error with CodeClusterPeer may be gone the next time.
func Redeem(ctx context.Context, t Token, machine ed25519.PrivateKey, node, version string) (Grant, error) {
	var last error
	for _, addr := range t.Addresses {
		g, err := t.redeem(ctx, addr, machine, node, version)
		switch {
		case err == nil && g.Refused == "":
			return g, nil
		case err == nil:
			return Grant{}, g.fault(addr)
		case errors.Is(err, errStranger):
			last = diag.Fail(diag.CodeClusterStranger, fmt.Errorf("show the token to %s: %w", addr, err),
				"make a token on a node of the cluster that this machine is to join; if it was made there, see what listens on that address, and whether that node was made anew since")
		default:
			last = diag.Fail(diag.CodeClusterPeer, fmt.Errorf("show the token to %s: %w", addr, plain(err)),
				"the node that made the token must run, and this port of it be reachable from here; then run the same again")
		}
	}
	return Grant{}, last
}

// fault is why a node refused a token.
func (g Grant) fault(addr string) error {
	what := fmt.Errorf("node %s at %s refused the token: %s", g.Node, addr, g.Refused)
	again := fmt.Sprintf("make another with `holdfast cluster invite` on node %s", g.Node)
	switch g.Reason {
	case ReasonUsed:
		return diag.Fail(diag.CodeClusterTokenRefused, what, "a token is for one machine; if that was not yours, change the cluster's secret. Else "+again)
	case ReasonExpired:
		return diag.Fail(diag.CodeClusterTokenRefused, what, again+"; --expires 4h lets it work for longer")
	case ReasonUnknown:
		return diag.Fail(diag.CodeClusterTokenRefused, what, again)
	}
	return diag.Fail(diag.CodeClusterJoin, what, "correct that; the same token works from here until it expires")
}

func (t Token) redeem(ctx context.Context, addr string, machine ed25519.PrivateKey, node, version string) (_ Grant, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	key, err := t.key()
	if err != nil {
		return Grant{}, err
	}
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return Grant{}, err
	}
	defer func() { _ = conn.Close() }() // everything was read by then
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return Grant{}, err
		}
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	c := tls.Client(conn, &tls.Config{
		InsecureSkipVerify: true, //nolint:gosec // the fingerprint is what is verified, and not a name
		VerifyConnection:   t.verify, MinVersion: tls.VersionTLS13, NextProtos: []string{tokenProtocol},
	})
	if err := c.HandshakeContext(ctx); err != nil {
		return Grant{}, err
	}
	said := claim{Token: ed25519.PublicKey(key[ed25519.SeedSize:]), Machine: ed25519.PublicKey(machine[ed25519.SeedSize:]), Node: node, Version: version}
	text, err := said.signed(c.ConnectionState())
	if err != nil {
		return Grant{}, err
	}
	said.TokenProof, said.MachineProof = ed25519.Sign(key, text), ed25519.Sign(machine, text)
	if err := send(c, said); err != nil {
		return Grant{}, err
	}
	var g Grant
	return g, receive(c, &g)
}

// verify believes who has a certificate of the token's CA. A fresh machine may not know
// what time it is, so only who signed what counts.
func (t Token) verify(state tls.ConnectionState) error {
	if state.NegotiatedProtocol != tokenProtocol || len(state.PeerCertificates) < 2 {
		return errStranger
	}
	leaf := state.PeerCertificates[0]
	for _, ca := range state.PeerCertificates[1:] {
		if sha256.Sum256(ca.Raw) != t.CA {
			continue
		}
		roots := x509.NewCertPool()
		roots.AddCert(ca)
		if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: leaf.NotBefore, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}); err != nil {
			return fmt.Errorf("%w: %w", errStranger, err)
		}
		return nil
	}
	return errStranger
}
