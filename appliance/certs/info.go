// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"cmp"
	"crypto/sha256"
	"crypto/x509"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

// What a certificate is.
const (
	Server = "server"
	CA     = "ca"
)

// Info is what status and metrics say of a certificate.
type Info struct {
	Name        string // Server or CA
	Subject     string
	Issuer      string
	Names       []string // what clients may call the server
	NotBefore   time.Time
	NotAfter    time.Time
	Fingerprint string // SHA-256, as openssl prints it
	Path        string
}

func newInfo(name string, c *x509.Certificate, path string) Info {
	return Info{
		Name: name, Subject: c.Subject.String(), Issuer: c.Issuer.String(), Names: namesIn(c),
		NotBefore: c.NotBefore, NotAfter: c.NotAfter, Fingerprint: fingerprint(c), Path: path,
	}
}

func fingerprint(c *x509.Certificate) string {
	sum := sha256.Sum256(c.Raw)
	return strings.ReplaceAll(fmt.Sprintf("% X", sum[:]), " ", ":")
}

func (st *state) warn(code diag.Code, path, what, fix string) {
	st.warnings = append(st.warnings, warning(code, path, what, fix))
}

func warning(code diag.Code, path, what, fix string) diag.Problem {
	return diag.Problem{Severity: diag.Warning, Code: code, Pos: diag.Pos{File: path}, What: what, Fix: fix}
}

// Warnings returns what will hurt or hurts: expiry, names that are missing, and
// why the last look failed.
func (s *Store) Warnings() diag.List {
	st := s.current.Load()
	out := append(diag.List{}, st.warnings...)
	if st.failed != nil {
		out = append(out, warning(cmp.Or(diag.CodeOf(st.failed), diag.CodeCertificate), s.certFile, st.failed.Error(),
			cmp.Or(diag.Hint(st.failed), "what was served is served on, and the node tries again every minute: remove the cause")))
	}
	now := s.now()
	if !clockIsSet(now) {
		return append(out, warning(diag.CodeExpiry, s.certFile,
			fmt.Sprintf("the clock shows %s, so that no certificate can be checked for expiry", date(now)), "set the clock, or let NTP set it"))
	}
	for _, i := range st.infos {
		if what := i.Expiry(now); what != "" {
			out = append(out, warning(diag.CodeExpiry, i.Path, what, s.expiryFix(i)))
		}
	}
	return out
}

// Expiry says what is to be said of the certificate's time, and nothing while all is
// well. One that lasts less than four months warns when a quarter of its life is left.
func (i Info) Expiry(now time.Time) string {
	notice := min(warn, i.NotAfter.Sub(i.NotBefore)/4)
	if i.Name == CA {
		notice = min(warnCA, i.NotAfter.Sub(i.NotBefore)/4)
	}
	switch left := i.NotAfter.Sub(now); {
	case left <= 0:
		return fmt.Sprintf("the %s certificate %q has expired on %s", i.Name, i.Subject, date(i.NotAfter))
	case now.Before(i.NotBefore):
		return fmt.Sprintf("the %s certificate %q is not valid before %s", i.Name, i.Subject, date(i.NotBefore))
	case left < notice:
		return fmt.Sprintf("the %s certificate %q expires on %s", i.Name, i.Subject, date(i.NotAfter))
	}
	return ""
}

func (s *Store) expiryFix(i Info) string {
	_, auto := s.source.(*auto)
	switch {
	case auto && i.Name == CA:
		return "plan a new CA: with the node stopped, delete its directory, start, and give all clients the new CA; or check the clock"
	case auto:
		return "check the clock: the node renews it by itself"
	default:
		return "replace the file, or check the clock: the node takes a new one within a minute"
	}
}

func date(t time.Time) string { return t.UTC().Format("2006-01-02") }
