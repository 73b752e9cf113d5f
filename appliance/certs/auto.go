// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

// The files in Options.Dir.
const (
	caFile     = "ca.pem"
	caCopy     = "ca.crt"
	serverFile = "server.pem"
)

// Options says where the node's own CA is kept and what its server certificate
// is for.
type Options struct {
	// Dir exists and belongs to the node alone.
	Dir string
	// Write replaces a file durably and at once.
	Write func(path string, data []byte, perm fs.FileMode) error
	Now   func() time.Time
	// Names are the host names and addresses, without ports, that clients use.
	// Loopback is always among them; what can't stand in a certificate is a warning.
	Names []string
	// NodeName goes into the subjects, for people to tell certificates apart.
	NodeName string
	// BothEnds is for connections of which either side may be this node: the routes of
	// a cluster, whose nodes share the CA.
	BothEnds bool
}

// auto is the source of a Store that has its own CA.
type auto struct {
	dir, node string
	usage     []x509.ExtKeyUsage
	write     func(path string, data []byte, perm fs.FileMode) error
}

// OpenAuto opens the node's own CA, makes one at the first start, and issues the
// server certificate when it is due. It fails with CodeCA when a CA has existed
// and can't be used any more.
func OpenAuto(o Options) (*Store, error) {
	a := &auto{dir: o.Dir, node: o.NodeName, write: o.Write, usage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	if o.BothEnds {
		a.usage = append(a.usage, x509.ExtKeyUsageClientAuth)
	}
	if err := a.makeAuthority(o.Now()); err != nil {
		return nil, err
	}
	return open(&Store{
		source: a, now: o.Now, names: o.Names,
		certFile: a.path(serverFile), keyFile: a.path(serverFile), caFile: a.path(caCopy),
	})
}

func (a *auto) path(name string) string { return filepath.Join(a.dir, name) }

// load returns a state beside an error when only a write failed: what is on disk
// serves on, and the next look tries again.
func (a *auto) load(now time.Time, names []string) (*state, error) {
	ca, err := a.readAuthority()
	if err != nil {
		return nil, err
	}
	copyErr := a.checkCopy(ca)
	if diag.CodeOf(copyErr) == diag.CodeCA {
		return nil, copyErr
	}
	want := subjectsOf(names)
	pair, err := a.readServer(ca)
	if err != nil || isDue(pair.Leaf, ca.cert, want, now) {
		renewed, renewErr := a.renew(ca, want, now)
		switch {
		case renewErr == nil:
			pair = renewed
		case err != nil:
			return nil, errors.Join(renewErr, copyErr)
		default:
			copyErr = errors.Join(renewErr, copyErr)
		}
	}
	st := &state{
		cert: pair, ca: certificatePEM(ca.cert),
		infos: []Info{newInfo(Server, pair.Leaf, a.path(serverFile)), newInfo(CA, ca.cert, a.path(caCopy))},
	}
	for _, name := range want.bad {
		st.warn(diag.CodeCertNames, a.path(serverFile), fmt.Sprintf("%q is neither a host name nor an address, so it is not in the certificate", name),
			"correct listen.advertise or the host's name; international names are written in their xn-- form")
	}
	return st, copyErr
}

// readServer returns the server certificate when clients of the CA can verify it.
func (a *auto) readServer(ca *authority) (tls.Certificate, error) {
	data, err := readKeyFile(a.path(serverFile))
	if err != nil {
		return tls.Certificate{}, err
	}
	pair, _, err := parsePair(data, data)
	if err == nil {
		err = pair.Leaf.CheckSignatureFrom(ca.cert)
	}
	return pair, err
}

// isDue reports whether a certificate must be replaced. Without a clock only
// other names are a reason; an end that is the CA's can't be moved.
func isDue(leaf, ca *x509.Certificate, want subjects, now time.Time) bool {
	if !slices.Equal(namesIn(leaf), want.names()) {
		return true
	}
	if !clockIsSet(now) || !now.Before(ca.NotAfter) {
		return false
	}
	left := leaf.NotAfter.Sub(now)
	return left < renewBefore && leaf.NotAfter.Before(ca.NotAfter) || left > serverLife+aheadBy || now.Before(leaf.NotBefore)
}

func (a *auto) renew(ca *authority, want subjects, now time.Time) (tls.Certificate, error) {
	data, err := ca.issue(a.node, want, a.usage, now)
	if err != nil {
		return tls.Certificate{}, err
	}
	if err := a.write(a.path(serverFile), data, 0o600); err != nil {
		return tls.Certificate{}, fmt.Errorf("write server certificate: %w", err)
	}
	pair, _, err := parsePair(data, data)
	return pair, err
}
