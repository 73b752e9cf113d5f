// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"bytes"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-mq/holdfast/appliance/diag"
	"github.com/holdfast-mq/holdfast/appliance/howto"
)

// Files are the user's own certificates.
type Files struct {
	Cert, Key string
	// CA is handed to clients and, with Verify, what their certificates must be of.
	CA     string
	Verify bool
	// Names are what clients use; one that the certificate lacks is a warning.
	Names []string
}

// own is the source of a Store that only reads.
type own struct{ Files }

// OpenFiles opens the user's own certificates. A pair that has expired is a
// warning and not an error: the clock may be wrong, and a node that does not
// start helps nobody.
func OpenFiles(f Files, now func() time.Time) (*Store, error) {
	if f.Verify && f.CA == "" {
		return nil, diag.FailPermanently(diag.CodeCertificate, errors.New("verify client certificates: no CA is named"),
			"set listen.tls.ca to the file with the CA of your clients")
	}
	return open(&Store{
		source: &own{f}, now: now, names: f.Names, verify: f.Verify,
		certFile: f.Cert, keyFile: f.Key, caFile: f.CA,
	})
}

func (f *own) load(_ time.Time, names []string) (*state, error) {
	certPEM, err := readFile(f.Cert)
	if err != nil {
		return nil, fileFault(fmt.Errorf("read certificate: %w", err))
	}
	keyPEM, err := readForeignKeyFile(f.Key)
	if err != nil {
		return nil, fileFault(fmt.Errorf("read key: %w", err))
	}
	pair, chain, err := parsePair(certPEM, keyPEM)
	if err != nil {
		return nil, fileFault(fmt.Errorf("read certificate %s with key %s: %w", f.Cert, f.Key, err))
	}
	st := &state{cert: pair, infos: []Info{newInfo(Server, pair.Leaf, f.Cert)}}
	if f.CA != "" {
		if err := f.loadCA(st); err != nil {
			return nil, err
		}
	}
	f.look(st, chain, names)
	return st, nil
}

func (f *own) loadCA(st *state) error {
	data, err := readFile(f.CA)
	if err != nil {
		return fileFault(fmt.Errorf("read CA: %w", err))
	}
	cas, err := parseCertificates(data)
	if err != nil {
		return fileFault(fmt.Errorf("read CA %s: %w", f.CA, err))
	}
	st.clientCAs = x509.NewCertPool()
	for _, c := range cas {
		st.clientCAs.AddCert(c)
		st.infos = append(st.infos, newInfo(CA, c, f.CA))
	}
	// Written anew, so that a key that stands in the same file is not handed out.
	st.ca = certificatePEM(cas...)
	return nil
}

// look warns of what clients will refuse.
func (f *own) look(st *state, chain []*x509.Certificate, names []string) {
	leaf := chain[0]
	for i, c := range chain[1:] {
		if chain[i].CheckSignatureFrom(c) != nil {
			st.warn(diag.CodeCertificate, f.Cert, fmt.Sprintf("certificate %d in the file is not signed by the next one", i+1),
				"put the server's certificate first, then the one that signed it, and so on")
			break
		}
	}
	if len(leaf.ExtKeyUsage) > 0 && !slices.Contains(leaf.ExtKeyUsage, x509.ExtKeyUsageServerAuth) && !slices.Contains(leaf.ExtKeyUsage, x509.ExtKeyUsageAny) {
		st.warn(diag.CodeCertificate, f.Cert, "the certificate is not for servers, so clients refuse it",
			"order one with the extended key usage serverAuth")
	}
	if len(namesIn(leaf)) == 0 {
		st.warn(diag.CodeCertNames, f.Cert, "the certificate has no subject alternative name, so clients refuse it",
			"order one with the names and addresses that clients use; the common name does not count")
	} else if missing := uncovered(leaf, names); len(missing) > 0 {
		st.warn(diag.CodeCertNames, f.Cert, "the certificate is not for "+strings.Join(missing, ", "),
			"order one with these names, or take them out of listen.advertise")
	}
	if bytes.Equal(leaf.RawIssuer, leaf.RawSubject) && leaf.IsCA && f.CA == "" {
		st.warn(diag.CodeCertificate, f.Cert, "the certificate is its own CA, and no CA is named for clients",
			"set listen.tls.ca to the same file, so that `holdfast ca` hands it out")
	}
}

// fileFault tells a wrong mode, which stays, from files that may be just being
// replaced.
func fileFault(err error) error {
	if mode := (*modeError)(nil); errors.As(err, &mode) {
		return diag.FailPermanently(diag.CodeCertificate, err, howto.Here().Close(mode.path))
	}
	return diag.Fail(diag.CodeCertificate, err,
		"check listen.tls.cert, key and ca: PEM files that the user that runs holdfast can read, with the key of that certificate and without a passphrase")
}
