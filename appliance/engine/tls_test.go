// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

// authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test CA"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	return &authority{cert, key, pool}
}

func (a *authority) issue(t *testing.T, serial int64) *tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "node"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// dynamic serves whatever certificate the pointer holds.
func dynamic(cert *atomic.Pointer[tls.Certificate]) *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return cert.Load(), nil },
	}
}

func serialOf(t *testing.T, nc *nats.Conn) int64 {
	t.Helper()
	state, err := nc.TLSConnectionState()
	if err != nil {
		t.Fatal(err)
	}
	return state.PeerCertificates[0].SerialNumber.Int64()
}

func secured(t *testing.T, change ...func(*Settings)) (*realm, *Engine, *authority) {
	t.Helper()
	r, ca := newRealm(t, "shop"), newAuthority(t)
	var cert atomic.Pointer[tls.Certificate]
	cert.Store(ca.issue(t, 1))
	s := r.settings(t)
	s.TLS = dynamic(&cert)
	for _, f := range change {
		f(&s)
	}
	return r, started(t, r, s, nil), ca
}

func TestNewCertificateCountsForTheNextHandshake(t *testing.T) {
	r, ca := newRealm(t, "shop"), newAuthority(t)
	var cert atomic.Pointer[tls.Certificate]
	cert.Store(ca.issue(t, 1))
	s := r.settings(t)
	s.TLS = dynamic(&cert)
	e := started(t, r, s, nil)
	addr := open(t, e)
	user := r.member(t, "shop", "checkout")
	trust := nats.Secure(&tls.Config{RootCAs: ca.pool, MinVersion: tls.VersionTLS12})

	old := dial(t, addr, user.login(), trust)
	cert.Store(ca.issue(t, 2))
	renewed := dial(t, addr, user.login(), trust)
	if a, b := serialOf(t, old), serialOf(t, renewed); a != 1 || b != 2 {
		t.Errorf("got certificates %d and %d, want 1 and 2", a, b)
	}
	sub, err := old.SubscribeSync("orders.a")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(old.Flush(), renewed.Publish("orders.a", []byte("x"))); err != nil {
		t.Fatal(err)
	}
	if _, err := sub.NextMsg(patience); err != nil {
		t.Errorf("got %v on the old connection, want it to live on", err)
	}
}

func TestInProcessStaysPlainWithTLS(t *testing.T) {
	r, e, _ := secured(t, func(s *Settings) { s.TLS.ClientAuth = tls.RequireAndVerifyClientCert })
	// Nothing but the connection is timed: what is stored waits for the disk.
	began := time.Now()
	nc := connect(t, r, e, "shop")
	if d := time.Since(began); d > tlsTimeout {
		t.Errorf("got %v for a connection, want no wait for a handshake", d)
	}
	if _, err := nc.TLSConnectionState(); err == nil {
		t.Error("got TLS on an in-process connection, want it plain")
	}
	fill(t, r, e, "shop", 1, 10)
	if err := errors.Join(e.Health(), e.JetStreamReady()); err != nil {
		t.Errorf("got %v, want a healthy engine", err)
	}
}

func TestPlainClientIsRefused(t *testing.T) {
	_, e, _ := secured(t)
	addr := open(t, e)
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := fmt.Fprint(conn, "CONNECT {}\r\nPING\r\n"); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 4096)
	var answer strings.Builder
	for {
		n, err := conn.Read(buf)
		answer.Write(buf[:n])
		if err != nil {
			break
		}
	}
	if got := answer.String(); !strings.Contains(got, `"tls_required":true`) || strings.Contains(got, "PONG") {
		t.Errorf("got %q, want INFO that asks for TLS and nothing behind it", got)
	}
	// The server says nothing of it.
	waitRefusals(t, e, []Refusal{{Reason: ReasonTLS, Count: 1}})
}

func TestClientThatDoesNotTrustTheCertificateIsToldAndCounted(t *testing.T) {
	r, e, _ := secured(t)
	// A client that was not told of TLS turns it on when the server asks for it.
	_, err := nats.Connect("nats://"+open(t, e), r.member(t, "shop", "checkout").login(), nats.NoReconnect(), nats.Timeout(patience))
	if err == nil || !strings.Contains(err.Error(), "certificate signed by unknown authority") {
		t.Errorf("got %v, want it to say that the authority is unknown", err)
	}
	waitRefusals(t, e, []Refusal{{Reason: ReasonTLS, Count: 1, Example: ": remote error: tls: bad certificate"}})
}

func TestHealthCheckOfThePortIsNoRefusal(t *testing.T) {
	h := &logged{}
	r, ca := newRealm(t, "shop"), newAuthority(t)
	s := r.settings(t)
	s.TLS = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{*ca.issue(t, 1)}}
	e := started(t, r, s, h)
	addr := open(t, e)
	for range 20 {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		// The whole of INFO is read: unread data would make the end a reset.
		if _, err := conn.Read(make([]byte, 8192)); err != nil {
			t.Fatal(err)
		}
		conn.Close()
	}
	eventually(t, func() error {
		if n := len(e.closedConnections()); n != 20 {
			return fmt.Errorf("got %d closed connections, want 20", n)
		}
		return nil
	})
	if got := e.Refusals(); len(got) != 0 {
		t.Errorf("got %v, want no refusal", got)
	}
	for _, line := range h.all() {
		if !strings.HasPrefix(line, "DEBUG") {
			t.Errorf("got log line %s, want none of it", line)
		}
	}
}

func TestClientCertificateIsAskedFor(t *testing.T) {
	clients := newAuthority(t)
	r, e, ca := secured(t, func(s *Settings) {
		s.TLS.ClientAuth = tls.RequireAndVerifyClientCert
		s.TLS.ClientCAs = clients.pool
	})
	addr := open(t, e)
	login := r.member(t, "shop", "checkout").login()
	config := func(cert ...tls.Certificate) nats.Option {
		return nats.Secure(&tls.Config{RootCAs: ca.pool, Certificates: cert, MinVersion: tls.VersionTLS12})
	}
	if err := dial(t, addr, login, config(*clients.issue(t, 3))).Flush(); err != nil {
		t.Errorf("got %v with a client certificate, want a connection", err)
	}
	refusedLogin(t, addr, login, config())
	refusedLogin(t, addr, login, config(*newAuthority(t).issue(t, 4)))
	eventually(t, func() error {
		got := e.Refusals()
		if len(got) != 1 || got[0].Reason != ReasonTLS || got[0].Count != 2 || got[0].User != "" {
			return fmt.Errorf("got %v, want two refused handshakes", got)
		}
		if !strings.Contains(got[0].Example, "certificate") {
			return fmt.Errorf("got example %q, want it to speak of the certificate", got[0].Example)
		}
		return nil
	})
}

func TestCheckTakesTLSAndWantsACertificate(t *testing.T) {
	r := newRealm(t, "shop")
	s := r.settings(t)
	var cert atomic.Pointer[tls.Certificate]
	s.TLS = dynamic(&cert)
	// No certificate is read: there may be none yet.
	if err := Check(s); err != nil {
		t.Errorf("got %v, want these settings taken", err)
	}
	opts, err := options(s)
	if err != nil {
		t.Fatal(err)
	}
	opts.AccountResolver.Close()
	if opts.TLSTimeout != 5 || opts.TLSConfig == s.TLS {
		t.Errorf("got a timeout of %v s, shared %v, want 5 s and a copy", opts.TLSTimeout, opts.TLSConfig == s.TLS)
	}
	if got, want := Render(s), "# TLS: on"; !strings.Contains(got, want) {
		t.Errorf("got %q, want %q in it", got, want)
	}
	s.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	if err := Check(s); diag.CodeOf(err) != diag.CodeEngineConfig || !strings.Contains(fmt.Sprint(err), "a certificate for TLS") {
		t.Errorf("got %v, want it to miss a certificate", err)
	}
}
