// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
)

// TLSConfig returns a configuration for listeners that follows the Store: a new
// handshake uses what Check found last. Its Certificates stay empty, because
// crypto/tls would prefer them for clients that dial an address.
func (s *Store) TLSConfig() *tls.Config {
	c := s.strict()
	if s.verify {
		c.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return s.forClient(), nil }
	}
	return c
}

func (s *Store) strict() *tls.Config {
	c := &tls.Config{
		MinVersion:     tls.VersionTLS12,
		Time:           s.now,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &s.current.Load().cert, nil },
	}
	if s.verify {
		c.ClientAuth, c.ClientCAs = tls.RequireAndVerifyClientCert, s.current.Load().clientCAs
		// A ticket would outlive the CA that its client was verified with.
		c.SessionTicketsDisabled = true
	}
	return c
}

func (s *Store) forClient() *tls.Config {
	c := s.strict()
	if !clockIsSet(s.now()) {
		c.ClientAuth = tls.RequireAnyClientCert
		c.VerifyConnection = func(cs tls.ConnectionState) error { return verifyWithoutClock(cs.PeerCertificates, c.ClientCAs) }
	}
	return c
}

// verifyWithoutClock verifies a client's chain at a time at which all of it had
// begun.
func verifyWithoutClock(chain []*x509.Certificate, roots *x509.CertPool) error {
	if len(chain) == 0 {
		return errors.New("verify client certificate: none was sent")
	}
	o := x509.VerifyOptions{
		Roots: roots, Intermediates: x509.NewCertPool(), CurrentTime: chain[0].NotBefore,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	for _, c := range chain[1:] {
		o.Intermediates.AddCert(c)
		if c.NotBefore.After(o.CurrentTime) {
			o.CurrentTime = c.NotBefore
		}
	}
	if _, err := chain[0].Verify(o); err != nil {
		return fmt.Errorf("verify client certificate: %w", err)
	}
	return nil
}
