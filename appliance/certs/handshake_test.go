// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"crypto/tls"
	"crypto/x509"
	"testing"
	"time"
)

// insecure is a client that takes any server.
func insecure(own ...tls.Certificate) *tls.Config {
	return &tls.Config{InsecureSkipVerify: true, Certificates: own, Time: func() time.Time { return at(today) }} //nolint:gosec // the test is about the server
}

func openVerify(t *testing.T, c *clock, ca, clients *issuer) (*Store, Files) {
	t.Helper()
	f := put(t, t.TempDir(), ca.issue(t, "2026-01-01", "2028-01-01", server, "a.example"), clients)
	f.Verify = true
	s, err := OpenFiles(f, c.now)
	if err != nil {
		t.Fatal(err)
	}
	return s, f
}

func TestVerifyTakesClientsOfTheCAOnly(t *testing.T) {
	ca, clients := newIssuer(t, "ca", nil), newIssuer(t, "clients", nil)
	middle := newIssuer(t, "middle", clients)
	const usage = x509.ExtKeyUsageClientAuth
	const clocked = "2031-06-01"                               // not the time at which the test runs
	deep := middle.issue(t, "2019-02-01", "2032-01-01", usage) // begins before its CA
	deep.cert = append(deep.cert, certificatePEM(middle.cert)...)
	// taken has the answers with a clock and without one.
	type taken struct{ clock, none bool }
	cases := map[string]struct {
		own  []tls.Certificate
		want taken
	}{
		"of the CA":               {[]tls.Certificate{clients.issue(t, "2031-02-01", "2032-01-01", usage).certificate(t)}, taken{true, true}},
		"of an intermediate":      {[]tls.Certificate{deep.certificate(t)}, taken{true, true}},
		"expired":                 {[]tls.Certificate{clients.issue(t, "2031-02-01", "2031-05-31", usage).certificate(t)}, taken{false, true}},
		"not yet valid":           {[]tls.Certificate{clients.issue(t, "2031-12-01", "2032-11-01", usage).certificate(t)}, taken{false, true}},
		"for servers":             {[]tls.Certificate{clients.issue(t, "2031-02-01", "2032-01-01", server).certificate(t)}, taken{}},
		"of the CA of the server": {[]tls.Certificate{ca.issue(t, "2031-02-01", "2032-01-01", usage).certificate(t)}, taken{}},
		"none":                    {nil, taken{}},
	}
	c := clockAt(clocked)
	s, _ := openVerify(t, c, ca, clients)
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		// One configuration lives through both times, as it does in a listener.
		config := s.TLSConfig()
		if config.ClientAuth != tls.RequireAndVerifyClientCert {
			t.Fatalf("got client auth %v, want %v", config.ClientAuth, tls.RequireAndVerifyClientCert)
		}
		addr := serve(t, config)
		for name, v := range cases {
			for now, want := range map[string]bool{clocked: v.want.clock, noClock: v.want.none} {
				c.set(now)
				cc := insecure(v.own...)
				cc.MaxVersion = version
				conn, err := dial(addr, cc)
				if got := err == nil; got != want {
					t.Errorf("%s at %s, %s: got %v, want taken %t", name, now, tls.VersionName(version), err, want)
				}
				if err == nil {
					_ = conn.Close()
				}
			}
		}
	}
}

// TestTheConfigurationOfAStartWithoutAClockIsStrict is for listeners that ask
// nothing but the configuration they were given.
func TestTheConfigurationOfAStartWithoutAClockIsStrict(t *testing.T) {
	ca := newIssuer(t, "ca", nil)
	s, _ := openVerify(t, clockAt(noClock), ca, ca)
	if c := s.TLSConfig(); c.ClientAuth != tls.RequireAndVerifyClientCert || c.ClientCAs == nil {
		t.Errorf("got client auth %v, want %v with a CA", c.ClientAuth, tls.RequireAndVerifyClientCert)
	}
}

func TestAClientOfACAThatWasReplacedIsRefusedWithoutARestart(t *testing.T) {
	ca, before, after := newIssuer(t, "ca", nil), newIssuer(t, "before", nil), newIssuer(t, "after", nil)
	s, f := openVerify(t, clockAt(today), ca, before)
	addr := serve(t, s.TLSConfig())
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		mustWrite(t, f.CA, certificatePEM(before.cert), 0o644)
		if _, err := s.Check(); err != nil {
			t.Fatal(err)
		}
		old := insecure(before.issue(t, "2026-02-01", "2027-01-01", x509.ExtKeyUsageClientAuth).certificate(t))
		old.ClientSessionCache, old.MaxVersion, old.ServerName = tls.NewLRUClientSessionCache(1), version, "a.example"
		served(t, addr, old)
		mustWrite(t, f.CA, certificatePEM(after.cert), 0o644)
		mustCheck(t, s, true)
		if _, err := dial(addr, old); err == nil {
			t.Errorf("%s: got a handshake with the CA that was taken away, want a refusal", tls.VersionName(version))
		}
		served(t, addr, insecure(after.issue(t, "2026-02-01", "2027-01-01", x509.ExtKeyUsageClientAuth).certificate(t)))
	}
}

func TestWithoutVerifyNoClientCertificateIsAskedFor(t *testing.T) {
	ca := newIssuer(t, "ca", nil)
	s := mustOpenFiles(t, put(t, t.TempDir(), ca.issue(t, "2026-01-01", "2028-01-01", server, "a.example"), ca))
	c := client(s.CA(), "a.example", at(today))
	c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		t.Error("got a request for a certificate, want none")
		return &tls.Certificate{}, nil
	}
	served(t, serve(t, s.TLSConfig()), c)
}

func TestTLS11IsRefused(t *testing.T) {
	s := mustOpen(t, options(t, clockAt(today)))
	c := insecure()
	c.MinVersion, c.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
	if _, err := dial(serve(t, s.TLSConfig()), c); err == nil {
		t.Error("got a handshake with TLS 1.1, want a refusal")
	}
}
