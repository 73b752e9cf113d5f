// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"time"
)

// Stopgap returns a configuration for the listener of a node that has no certificate
// yet. Its certificate is of a CA that nobody knows, and is kept nowhere: what is said is
// encrypted, and who verifies certificates goes elsewhere.
func Stopgap(node string, names []string, now time.Time) (*tls.Config, error) {
	data, err := newAuthority(node, now)
	if err != nil {
		return nil, err
	}
	pair, chain, err := parsePair(data, data)
	if err != nil {
		return nil, err
	}
	key, ok := pair.PrivateKey.(crypto.Signer)
	if !ok {
		return nil, errors.New("the key of a new CA can't sign")
	}
	ca := &authority{cert: chain[0], key: key}
	issued, err := ca.issue(node, subjectsOf(names), []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, now)
	if err != nil {
		return nil, err
	}
	if pair, _, err = parsePair(issued, issued); err != nil {
		return nil, err
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}, nil
}
