// SPDX-License-Identifier: Apache-2.0

package join

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log/slog"
	"math/big"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

// inviter has a CA and a ledger, as a node has.
type inviter struct {
	cert   tls.Certificate
	ledger *Ledger
}

// newCA returns a certificate with its CA behind it.
func newCA(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ca := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Unix(1900000000, 0), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	leafKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	leaf := &x509.Certificate{SerialNumber: big.NewInt(2), NotAfter: time.Unix(1900000000, 0), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	der, err := x509.CreateCertificate(rand.Reader, leaf, ca, leafKey.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der, caDER}, PrivateKey: leafKey}
}

func fingerprint(c tls.Certificate) [sha256.Size]byte { return sha256.Sum256(c.Certificate[1]) }

func (i *inviter) Certificate() (tls.Certificate, error) { return i.cert, nil }

func (i *inviter) Grant(c Claim) (Grant, error) {
	forPeer, refused, err := i.ledger.Use(c)
	switch {
	case err != nil:
		return Grant{Node: "n1", Reason: ReasonOther, Refused: "it can't look"}, err
	case refused != nil:
		return Grant{Node: "n1", Reason: refused.Reason, Refused: refused.What}, nil
	}
	return Grant{Node: "n1", For: forPeer, Secret: []byte(secret)}, nil
}

// inviting serves tokens on the loopback.
func inviting(t *testing.T) (*inviter, string, *buffer, *clock) {
	t.Helper()
	ledger, clock := newLedger(t)
	i := &inviter{newCA(t), ledger}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	log := &buffer{written: make(chan struct{}, 1)}
	k, err := Serve(l, []byte(secret), always, i, slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := k.Close(); err != nil {
			t.Error(err)
		}
	})
	return i, l.Addr().String(), log, clock
}

func (i *inviter) token(t *testing.T, clock *clock, addr string) Token {
	t.Helper()
	token := NewToken([]string{addr}, fingerprint(i.cert), clock.now.Add(time.Hour), "n2:6222")
	if err := i.ledger.Add(token); err != nil {
		t.Fatal(err)
	}
	return token
}

func TestATokenGetsTheSecretOnce(t *testing.T) {
	t.Parallel()
	i, addr, log, clock := inviting(t)
	token := i.token(t, clock, addr)
	mine := machine(t)
	for range 2 { // the second time as after a kill
		g, err := Redeem(t.Context(), token, mine, "n2", "1")
		if err != nil || string(g.Secret) != secret || g.For != "n2:6222" {
			t.Fatalf("got %v and %v, want the secret", g, err)
		}
	}
	g, err := Redeem(t.Context(), token, machine(t), "n3", "1")
	if diag.CodeOf(err) != diag.CodeClusterTokenRefused || !strings.Contains(err.Error(), "was used") || len(g.Secret) > 0 {
		t.Errorf("got %v and %v, want that it was used", g, err)
	}
	if !strings.Contains(log.String(), "turned away") || !strings.Contains(log.String(), "127.0.0.1:") {
		t.Errorf("got log %q, want who was turned away", log)
	}
	if strings.Contains(log.String(), secret) {
		t.Error("the secret is in the log")
	}
	// The other protocol goes on beside it.
	if a, err := Ask(t.Context(), addr, []byte(secret), Request{}); err != nil || string(a.Identity) != keys {
		t.Errorf("got %v and %v, want the identity", a, err)
	}
}

// TestRefusedTokensAreNotAllLogged: somebody may try as often as the network carries.
func TestRefusedTokensAreNotAllLogged(t *testing.T) {
	t.Parallel()
	i, addr, log, clock := inviting(t)
	known := i.token(t, clock, addr)
	for range 20 {
		guess := NewToken([]string{addr}, known.CA, known.Expires, "")
		if g, err := Redeem(t.Context(), guess, machine(t), "n2", "1"); diag.CodeOf(err) != diag.CodeClusterTokenRefused || len(g.Secret) > 0 {
			t.Fatalf("got %v and %v, want it refused", g, err)
		}
	}
	if n := strings.Count(log.String(), "turned away"); n < 1 || n > 3 {
		t.Errorf("got %d lines, want one in %v\n%s", n, toldEvery, log)
	}
	clock.now = known.Expires
	if _, err := Redeem(t.Context(), known, machine(t), "n2", "1"); diag.CodeOf(err) != diag.CodeClusterTokenRefused || !strings.Contains(err.Error(), "expired") {
		t.Errorf("got %v, want that it expired", err)
	}
}

func TestATokenOfAnotherClusterTellsNobodyAnything(t *testing.T) {
	t.Parallel()
	i, addr, _, clock := inviting(t)
	token := i.token(t, clock, addr)
	token.CA = fingerprint(newCA(t))
	if _, err := Redeem(t.Context(), token, machine(t), "n2", "1"); diag.CodeOf(err) != diag.CodeClusterStranger || !strings.Contains(err.Error(), addr) {
		t.Errorf("got %v, want %s", err, diag.CodeClusterStranger)
	}
	// Neither does one that is shown to a node which makes none.
	plain, _ := keeper(t, always)
	token.Addresses = []string{plain}
	if _, err := Redeem(t.Context(), token, machine(t), "n2", "1"); diag.CodeOf(err) != diag.CodeClusterStranger {
		t.Errorf("got %v, want %s", err, diag.CodeClusterStranger)
	}
	token.Addresses = []string{"127.0.0.1:1"}
	if _, err := Redeem(t.Context(), token, machine(t), "n2", "1"); diag.CodeOf(err) != diag.CodeClusterPeer {
		t.Errorf("got %v, want %s", err, diag.CodeClusterPeer)
	}
}

// TestACopyOfTheCAIsNotTheCA shows the certificate of the right CA, which everybody may
// have, behind one that it did not sign.
func TestACopyOfTheCAIsNotTheCA(t *testing.T) {
	t.Parallel()
	right, forged := newCA(t), newCA(t)
	forged.Certificate[1] = right.Certificate[1]
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ledger, clock := newLedger(t)
	k, err := Serve(l, []byte(secret), always, &inviter{forged, ledger}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = k.Close() }()
	token := NewToken([]string{l.Addr().String()}, fingerprint(right), clock.now.Add(time.Hour), "")
	if _, err := Redeem(t.Context(), token, machine(t), "n2", "1"); diag.CodeOf(err) != diag.CodeClusterStranger {
		t.Errorf("got %v, want %s", err, diag.CodeClusterStranger)
	}
}

// TestAClaimCanNotBePassedOn is somebody in between who even has a certificate of the
// CA, such as a node that was broken into: the claim holds for its own connection only.
func TestAClaimCanNotBePassedOn(t *testing.T) {
	t.Parallel()
	i, addr, _, clock := inviting(t)
	token := i.token(t, clock, addr)
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{i.cert}, MinVersion: tls.VersionTLS13, NextProtos: []string{tokenProtocol}})
	if err != nil {
		t.Fatal(err)
	}
	var passing sync.WaitGroup
	defer passing.Wait()
	defer func() { _ = l.Close() }()
	passing.Go(func() {
		from, err := l.Accept()
		if err != nil {
			return
		}
		to, err := tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{tokenProtocol}}) //nolint:gosec // the attacker
		if err != nil {
			_ = from.Close()
			return
		}
		passing.Go(func() {
			_, _ = io.Copy(to, from)
			_ = to.Close()
		})
		_, _ = io.Copy(from, to)
		_ = from.Close()
	})
	through := token
	through.Addresses = []string{l.Addr().String()}
	if g, err := Redeem(t.Context(), through, machine(t), "n2", "1"); diag.CodeOf(err) != diag.CodeClusterTokenRefused || len(g.Secret) > 0 {
		t.Errorf("got %v and %v, want it refused", g, err)
	}
	// It was not used by that.
	if g, err := Redeem(t.Context(), token, machine(t), "n2", "1"); err != nil || string(g.Secret) != secret {
		t.Errorf("got %v and %v, want the secret", g, err)
	}
}

// TestAProofIsOfBothKeys: who only saw the public halves, in the ledger for instance,
// has nothing.
func TestAProofIsOfBothKeys(t *testing.T) {
	t.Parallel()
	i, addr, _, clock := inviting(t)
	token := i.token(t, clock, addr)
	key, err := token.key()
	if err != nil {
		t.Fatal(err)
	}
	mine, bound := machine(t), machine(t)
	for name, forge := range map[string]func(c *claim, text []byte){
		"no token":      func(c *claim, text []byte) { c.TokenProof = ed25519.Sign(mine, text) },
		"other machine": func(c *claim, _ []byte) { c.Machine = bound.Public().(ed25519.PublicKey) },
		"other name":    func(c *claim, _ []byte) { c.Node = "n9" },
		"no keys":       func(c *claim, _ []byte) { c.Token, c.Machine = nil, nil },
	} {
		c, err := tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{tokenProtocol}}) //nolint:gosec // the attacker
		if err != nil {
			t.Fatal(err)
		}
		said := claim{Token: key.Public().(ed25519.PublicKey), Machine: mine.Public().(ed25519.PublicKey), Node: "n2"}
		text, err := said.signed(c.ConnectionState())
		if err != nil {
			t.Fatal(err)
		}
		said.TokenProof, said.MachineProof = ed25519.Sign(key, text), ed25519.Sign(mine, text)
		forge(&said, text)
		var g Grant
		if err := send(c, said); err != nil {
			t.Fatal(err)
		}
		if err := receive(c, &g); err != nil || g.Refused == "" || len(g.Secret) > 0 {
			t.Errorf("%s: got %v and %v, want it refused", name, g, err)
		}
		_ = c.Close()
	}
}

func TestALongClaimIsNotRead(t *testing.T) {
	t.Parallel()
	_, addr, _, _ := inviting(t)
	c, err := tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{tokenProtocol}}) //nolint:gosec // a stranger
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if _, err := c.Write([]byte{0, 1, 0, 0}); err != nil {
		t.Fatal(err)
	}
	if n, err := c.Read(make([]byte, 1)); n > 0 || err == nil {
		t.Errorf("got %d bytes and %v, want an end", n, err)
	}
}
