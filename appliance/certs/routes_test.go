// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"crypto/tls"
	"crypto/x509"
	"strings"
	"testing"
	"time"
)

// routesOf is the store of a node that shares the CA of another.
func routesOf(t *testing.T, c *clock, shared []byte) *Store {
	t.Helper()
	o := options(t, c, "10.0.0.1")
	o.BothEnds = true
	if shared != nil {
		if err := ImportAuthority(o.Dir, shared, writeFile); err != nil {
			t.Fatal(err)
		}
	}
	return mustOpen(t, o)
}

// dialRoute is how a node calls another.
func dialRoute(addr string, s *Store) (*tls.Conn, error) {
	c := s.RouteTLSConfig()
	c.ServerName = "10.0.0.1"
	return dial(addr, c)
}

// TestRoutesHoldWithClocksApart has a node whose clock is an hour, and then months, off:
// neither the certificate that it made nor the one of the other is not valid yet.
func TestRoutesHoldWithClocksApart(t *testing.T) {
	for name, apart := range map[string]time.Duration{"an hour ahead": time.Hour, "an hour behind": -time.Hour, "months behind": -100 * day} {
		c := clockAt(today)
		first := routesOf(t, c, nil)
		shared, err := Authority(first.source.(*auto).dir)
		if err != nil {
			t.Fatal(err)
		}
		other := clockAt(today)
		other.advance(apart)
		second := routesOf(t, other, shared)
		for _, ends := range [][2]*Store{{first, second}, {second, first}} {
			if conn, err := dialRoute(serve(t, ends[0].RouteTLSConfig()), ends[1]); err != nil {
				t.Errorf("%s: got %v, want a route", name, err)
			} else {
				_ = conn.Close()
			}
		}
	}
}

// TestAnExpiredRouteCertificateIsRefusedAndRenewed looks at a node that did not renew its
// certificate for longer than it lasts.
func TestAnExpiredRouteCertificateIsRefusedAndRenewed(t *testing.T) {
	c := clockAt(today)
	first := routesOf(t, c, nil)
	shared, err := Authority(first.source.(*auto).dir)
	if err != nil {
		t.Fatal(err)
	}
	late := clockAt(today)
	late.advance(serverLife + day)
	second := routesOf(t, late, shared) // made now, by its clock
	addr := serve(t, first.RouteTLSConfig())
	if _, err := dialRoute(addr, second); err == nil || !strings.Contains(err.Error(), "expired") {
		t.Fatalf("got %v, want that the certificate has expired", err)
	}
	if what := first.Info()[0].Expiry(late.now()); !strings.Contains(what, "has expired on") {
		t.Errorf("got %q, want that it has expired", what)
	}
	c.setTime(late.now())
	mustCheck(t, first, true)
	conn, err := dialRoute(addr, second)
	if err != nil {
		t.Fatalf("got %v after it was renewed, want a route", err)
	}
	_ = conn.Close()
}

func TestAStopgapIsEncryptedAndVouchedForByNobody(t *testing.T) {
	config, err := Stopgap("n1", []string{"mq.example.com"}, at(today))
	if err != nil {
		t.Fatal(err)
	}
	addr := serve(t, config)
	if _, err := dial(addr, &tls.Config{ServerName: "mq.example.com", Time: func() time.Time { return at(today) }, RootCAs: x509.NewCertPool()}); err == nil {
		t.Error("got a handshake of a client that verifies, want none")
	}
	conn, err := dial(addr, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // a probe
	if err != nil {
		t.Fatalf("got %v, want an answer for a probe", err)
	}
	_ = conn.Close()
}
