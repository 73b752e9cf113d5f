// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
)

// Authority returns the CA that is kept in a directory, with its key, for a node that
// is to share it.
func Authority(dir string) ([]byte, error) {
	data, err := readKeyFile(filepath.Join(dir, caFile))
	if err != nil {
		return nil, fmt.Errorf("read the CA to be shared: %w", err)
	}
	return data, nil
}

// ImportAuthority puts a CA that was shared into a directory, in place of one that is
// there.
func ImportAuthority(dir string, data []byte, write func(path string, data []byte, perm fs.FileMode) error) error {
	pair, chain, err := parsePair(data, data)
	if err == nil && (pair.PrivateKey == nil || !chain[0].IsCA) {
		err = errors.New("it is not that of a CA")
	}
	if err != nil {
		return fmt.Errorf("take the shared CA: %w", err)
	}
	// The copy first: with another CA's beside it the file would be refused.
	if err := write(filepath.Join(dir, caCopy), certificatePEM(chain[0]), 0o644); err != nil {
		return fmt.Errorf("write the certificate of the shared CA: %w", err)
	}
	if err := write(filepath.Join(dir, caFile), data, 0o600); err != nil {
		return fmt.Errorf("write the shared CA: %w", err)
	}
	return nil
}

// RouteTLSConfig returns a configuration for both ends of a connection between nodes
// that share the CA, and nobody else. It follows the Store: a new handshake uses the
// certificate that Check found last.
func (s *Store) RouteTLSConfig() *tls.Config {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(s.CA())
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		Time:       s.now,
		RootCAs:    pool,
		ClientCAs:  pool,
		ClientAuth: tls.RequireAndVerifyClientCert,
		// A ticket would outlive the certificate that it was given for.
		SessionTicketsDisabled: true,
		GetCertificate:         func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &s.current.Load().cert, nil },
		GetClientCertificate:   func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &s.current.Load().cert, nil },
	}
}
