// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"time"
)

// MakeAuthority makes the CA of OpenAuto in a directory, unless there has been one. It
// issues nothing.
func MakeAuthority(o Options) error {
	a := &auto{dir: o.Dir, node: o.NodeName, write: o.Write}
	return a.makeAuthority(o.Now())
}

// Fingerprint is the SHA-256 of the certificate of the CA in a directory.
func Fingerprint(dir string) ([sha256.Size]byte, error) {
	ca, err := introducer(dir)
	if err != nil {
		return [sha256.Size]byte{}, err
	}
	return sha256.Sum256(ca.cert.Raw), nil
}

// Introduction issues a certificate for a peer that knows nothing but the fingerprint of
// the CA in a directory: that of the CA stands behind it. It is kept nowhere.
func Introduction(dir, node string, now time.Time) (tls.Certificate, error) {
	ca, err := introducer(dir)
	if err != nil {
		return tls.Certificate{}, err
	}
	data, err := ca.issue(node, subjectsOf(nil), []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, now)
	if err != nil {
		return tls.Certificate{}, err
	}
	pair, _, err := parsePair(data, data)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("issue a certificate to introduce this node: %w", err)
	}
	pair.Certificate = append(pair.Certificate, ca.cert.Raw)
	return pair, nil
}

func introducer(dir string) (*authority, error) {
	a := &auto{dir: dir}
	return a.readAuthority()
}
