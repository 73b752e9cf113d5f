// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/holdfast-mq/holdfast/appliance/diag"
	"github.com/holdfast-mq/holdfast/appliance/howto"
)

// authority is the node's own CA.
type authority struct {
	cert *x509.Certificate
	key  crypto.Signer
}

// newAuthority makes a CA and returns it as the text of its file. The random
// part of its name keeps the CAs of two nodes, or of two lives of one node, apart
// in a client's trust store.
func newAuthority(node string, now time.Time) ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make key of the CA: %w", err)
	}
	template := &x509.Certificate{
		Subject:               subject(node, " CA "+strings.ToLower(rand.Text()[:8])),
		NotBefore:             validFrom(),
		NotAfter:              caEnd(now),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("make CA: %w", err)
	}
	return pairPEM(key, der)
}

// subject keeps to the 64 characters that X.509 allows a common name.
func subject(node, suffix string) pkix.Name {
	for len(node)+len(suffix) > 64 {
		node = strings.ToValidUTF8(node[:len(node)-1], "")
	}
	return pkix.Name{Organization: []string{"Holdfast"}, CommonName: strings.TrimSpace(node + suffix)}
}

// readAuthority reads the CA's file and checks the copy of its certificate. A
// copy that is missing or damaged is written again.
func (a *auto) readAuthority() (*authority, error) {
	data, err := readKeyFile(a.path(caFile))
	if err != nil {
		return nil, a.caFault(fmt.Errorf("read the CA: %w", err))
	}
	pair, chain, err := parsePair(data, data)
	if err != nil {
		return nil, a.caFault(fmt.Errorf("read the CA in %s: %w", a.path(caFile), err))
	}
	key, ok := pair.PrivateKey.(crypto.Signer)
	if !ok || !chain[0].IsCA {
		return nil, a.caFault(fmt.Errorf("read the CA in %s: its certificate is not that of a CA", a.path(caFile)))
	}
	return &authority{cert: chain[0], key: key}, nil
}

func (a *auto) checkCopy(ca *authority) error {
	path := a.path(caCopy)
	data, err := readFile(path)
	if err == nil {
		var copied []*x509.Certificate
		if copied, err = parseCertificates(data); err == nil {
			if copied[0].Equal(ca.cert) {
				return nil
			}
			return a.caFault(fmt.Errorf("read the CA: %s and %s are of two CAs", a.path(caFile), path))
		}
	}
	if err := a.write(path, certificatePEM(ca.cert), 0o644); err != nil {
		return fmt.Errorf("copy the CA's certificate: %w", err)
	}
	return nil
}

// makeAuthority makes a CA unless there has been one.
func (a *auto) makeAuthority(now time.Time) error {
	for _, name := range []string{caFile, caCopy, serverFile} {
		if _, err := os.Lstat(a.path(name)); !errors.Is(err, fs.ErrNotExist) {
			return nil
		}
	}
	data, err := newAuthority(a.node, now)
	if err != nil {
		return err
	}
	if err := a.write(a.path(caFile), data, 0o600); err != nil {
		return fmt.Errorf("write the CA: %w", err)
	}
	return nil
}

func (a *auto) caFault(err error) error {
	if mode := (*modeError)(nil); errors.As(err, &mode) {
		return diag.FailPermanently(diag.CodeCA, err, howto.Here().Close(mode.path))
	}
	if path := (*fs.PathError)(nil); errors.As(err, &path) && !errors.Is(err, fs.ErrNotExist) {
		return diag.Fail(diag.CodeCA, err, fmt.Sprintf("let the user that runs holdfast read %s", a.dir))
	}
	return diag.FailPermanently(diag.CodeCA, err, fmt.Sprintf("restore %s from a backup; it is never made again by itself, because every "+
		"client would lose trust. Without a backup: delete %s, start, and give all clients the new CA", a.dir, a.dir))
}

// issue makes a server certificate and returns it as the text of its file.
func (ca *authority) issue(node string, s subjects, usage []x509.ExtKeyUsage, now time.Time) ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make key of the server: %w", err)
	}
	template := &x509.Certificate{
		Subject:     subject(node, ""),
		NotBefore:   validFrom(),
		NotAfter:    serverEnd(now, ca.cert.NotAfter),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: usage,
		// For verifiers that read a certificate without it as one of unknown kind.
		BasicConstraintsValid: true,
		DNSNames:              s.dns,
		IPAddresses:           s.ips,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca.cert, key.Public(), ca.key)
	if err != nil {
		return nil, fmt.Errorf("issue server certificate: %w", err)
	}
	return pairPEM(key, der)
}
