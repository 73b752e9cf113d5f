// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

// Every is how often Run looks, unless there is a reason for something else.
const Every = time.Minute

// Store holds the certificates that are served now.
type Store struct {
	source                    source
	now                       func() time.Time
	verify                    bool
	certFile, keyFile, caFile string

	mu      sync.Mutex // serialises Check
	names   []string   // guarded by mu
	current atomic.Pointer[state]
}

// source is where certificates come from. A state beside an error is usable.
type source interface {
	load(now time.Time, names []string) (*state, error)
}

// state is one set of certificates; it never changes once it is published.
type state struct {
	cert      tls.Certificate
	ca        []byte // PEM
	clientCAs *x509.CertPool
	infos     []Info
	warnings  diag.List
	failed    error // why the last look was of no use
}

func open(s *Store) (*Store, error) {
	st, err := s.source.load(s.now(), s.names)
	if st == nil {
		return nil, err
	}
	st.failed = err
	s.current.Store(st)
	return s, nil
}

// SetNames replaces the names that clients use, as of the next Check.
func (s *Store) SetNames(names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.names = slices.Clone(names)
}

// Check looks at the files and issues a certificate that is due. It reports
// whether new handshakes see something else. With an error what was served is
// served on.
func (s *Store) Check() (changed bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.current.Load()
	st, err := s.source.load(s.now(), s.names)
	if st == nil {
		kept := *old
		st = &kept
	}
	st.failed = err
	s.current.Store(st)
	same := slices.EqualFunc(st.cert.Certificate, old.cert.Certificate, bytes.Equal) && bytes.Equal(st.ca, old.ca)
	return !same, err
}

// Run checks at every interval until ctx ends. It calls changed after a change
// and failed with an error that is not that of the look before.
func (s *Store) Run(ctx context.Context, every time.Duration, changed func(), failed func(error)) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	last := text(s.current.Load().failed)
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		news, err := s.Check()
		if news {
			changed()
		}
		if now := text(err); now != last {
			if last = now; err != nil {
				failed(err)
			}
		}
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// CA returns the CA that clients need, in PEM form; nil when the user's own
// files name none.
func (s *Store) CA() []byte { return slices.Clone(s.current.Load().ca) }

// CertFile is the file with the server's certificate.
func (s *Store) CertFile() string { return s.certFile }

// KeyFile is the file with the server's key; it may be CertFile.
func (s *Store) KeyFile() string { return s.keyFile }

// CAFile is the file with the CA's certificate, empty when none is named.
func (s *Store) CAFile() string { return s.caFile }

// Info returns what is known of each certificate, the server's first.
func (s *Store) Info() []Info { return slices.Clone(s.current.Load().infos) }
