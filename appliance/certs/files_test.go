// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

// put writes a pair and the CA, and names the files.
func put(t *testing.T, dir string, p pair, ca *issuer) Files {
	t.Helper()
	f := Files{Cert: filepath.Join(dir, "tls.crt"), Key: filepath.Join(dir, "tls.key")}
	mustWrite(t, f.Cert, p.cert, 0o644)
	mustWrite(t, f.Key, p.key, 0o600)
	if ca != nil {
		f.CA = filepath.Join(dir, "ca.crt")
		mustWrite(t, f.CA, certificatePEM(ca.cert), 0o644)
	}
	return f
}

func mustOpenFiles(t *testing.T, f Files) *Store {
	t.Helper()
	s, err := OpenFiles(f, clockAt(today).now)
	if err != nil {
		t.Fatal(err)
	}
	if w := s.Warnings(); len(w) > 0 {
		t.Fatalf("got warnings %q, want none", texts(w))
	}
	return s
}

const server = x509.ExtKeyUsageServerAuth

func TestOwnFilesAreServedWithTheirChain(t *testing.T) {
	root := newIssuer(t, "root", nil)
	middle := newIssuer(t, "middle", root)
	p := middle.issue(t, "2026-01-01", "2028-01-01", server, "a.example")
	p.cert = append(p.cert, certificatePEM(middle.cert)...)
	f := put(t, t.TempDir(), p, root)
	f.Names = []string{"a.example", "0.0.0.0", ""}
	mustWrite(t, f.Cert, p.cert[:bytes.LastIndex(p.cert, []byte("-----BEGIN"))], 0o644)
	s := mustOpenFiles(t, f)
	mustWrite(t, f.Cert, p.cert, 0o644) // a copy that goes on after the look
	mustCheck(t, s, true)
	served(t, serve(t, s.TLSConfig()), client(s.CA(), "a.example", at(today)))
	if s.CertFile() != f.Cert || s.KeyFile() != f.Key || s.CAFile() != f.CA {
		t.Errorf("got files %s, %s, %s, want %+v", s.CertFile(), s.KeyFile(), s.CAFile(), f)
	}
	if i := s.Info(); len(i) != 2 || i[0].Name != Server || !slices.Equal(i[0].Names, []string{"a.example"}) || i[1].Name != CA || i[1].Subject != "CN=root" {
		t.Errorf("got %+v, want the server's certificate and the CA's", i)
	}
}

func TestAKeyBesideTheCAIsNotHandedOut(t *testing.T) {
	ca := newIssuer(t, "ca", nil)
	f := put(t, t.TempDir(), ca.issue(t, "2026-01-01", "2028-01-01", server, "a.example"), ca)
	both, err := pairPEM(ca.key, ca.cert.Raw)
	if err != nil {
		t.Fatal(err)
	}
	mustWrite(t, f.CA, both, 0o600)
	if got, want := mustOpenFiles(t, f).CA(), certificatePEM(ca.cert); !bytes.Equal(got, want) {
		t.Errorf("got %d bytes, want the certificate's %d", len(got), len(want))
	}
}

func TestReplacedFilesAreServedWithoutARestart(t *testing.T) {
	ca := newIssuer(t, "ca", nil)
	dir := t.TempDir()
	old, renewed := ca.issue(t, "2026-01-01", "2027-01-01", server, "a.example"), ca.issue(t, "2026-11-01", "2028-01-01", server, "a.example")
	f := put(t, dir, old, ca)
	s := mustOpenFiles(t, f)
	addr := serve(t, s.TLSConfig())
	first := served(t, addr, client(s.CA(), "a.example", at(today)))

	// Every state that a copy goes through, with what Check has to say of it.
	half := renewed.cert[:len(renewed.cert)/2]
	for _, step := range []struct {
		name string
		take func()
	}{
		{"certificate emptied", func() { mustWrite(t, f.Cert, nil, 0o644) }},
		{"certificate half written", func() { mustWrite(t, f.Cert, half, 0o644) }},
		{"a line of the next one", func() { mustWrite(t, f.Cert, append(bytes.Clone(old.cert), "-----BEG"...), 0o644) }},
		{"certificate before key", func() { mustWrite(t, f.Cert, renewed.cert, 0o644) }},
		{"key before certificate", func() { put(t, dir, pair{cert: old.cert, key: renewed.key}, ca) }},
		{"key emptied", func() { put(t, dir, pair{cert: old.cert}, ca) }},
		{"CA cut off", func() { put(t, dir, old, ca); mustWrite(t, f.CA, certificatePEM(ca.cert)[:99], 0o644) }},
		{"gone", func() { put(t, dir, old, ca); _ = os.Remove(f.Cert) }},
	} {
		step.take()
		changed, err := s.Check()
		wantFault(t, err, diag.CodeCertificate, false, dir)
		if changed || served(t, addr, client(s.CA(), "a.example", at(today))) != first {
			t.Errorf("%s: got another certificate, want the old one", step.name)
		}
		wantWarning(t, s, diag.CodeCertificate, dir)
	}
	put(t, dir, renewed, ca)
	mustCheck(t, s, true)
	if served(t, addr, client(s.CA(), "a.example", at(today))) == first || len(s.Warnings()) > 0 {
		t.Errorf("got the old certificate or warnings %q, want the new one and none", texts(s.Warnings()))
	}
	mustCheck(t, s, false)
}

// TestASymlinkSwapIsSeen is how Kubernetes replaces a mounted secret: the files
// are links into a directory that is a link itself. Sizes and times may be equal.
func TestASymlinkSwapIsSeen(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("skipping: symlinks need privileges on Windows")
	}
	ca := newIssuer(t, "ca", nil)
	dir := t.TempDir()
	swap := func(version string) {
		t.Helper()
		target := filepath.Join(dir, version)
		if err := os.Mkdir(target, 0o755); err != nil {
			t.Fatal(err)
		}
		put(t, target, ca.issue(t, "2026-01-01", "2028-01-01", server, "a.example"), ca)
		link := filepath.Join(dir, "..data_tmp")
		if err := os.Symlink(version, link); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(link, filepath.Join(dir, "..data")); err != nil {
			t.Fatal(err)
		}
	}
	swap("v1")
	for _, name := range []string{"tls.crt", "tls.key", "ca.crt"} {
		if err := os.Symlink(filepath.Join("..data", name), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	s := mustOpenFiles(t, Files{Cert: filepath.Join(dir, "tls.crt"), Key: filepath.Join(dir, "tls.key"), CA: filepath.Join(dir, "ca.crt")})
	addr := serve(t, s.TLSConfig())
	first := served(t, addr, client(s.CA(), "a.example", at(today)))
	swap("v2")
	mustCheck(t, s, true)
	if served(t, addr, client(s.CA(), "a.example", at(today))) == first {
		t.Error("got the old certificate after the swap, want the new one")
	}
}

func TestOpenFilesRefusesWhatCannotBeServed(t *testing.T) {
	ca := newIssuer(t, "ca", nil)
	good, other := ca.issue(t, "2026-01-01", "2028-01-01", server, "a.example"), ca.issue(t, "2026-01-01", "2028-01-01", server, "a.example")
	cases := map[string]struct {
		harm      func(f *Files)
		permanent bool
		words     string
	}{
		"no certificate file":  {func(f *Files) { f.Cert += ".absent" }, false, "no such file"},
		"no key file":          {func(f *Files) { f.Key += ".absent" }, false, "no such file"},
		"no CA file":           {func(f *Files) { f.CA += ".absent" }, false, "no such file"},
		"a directory":          {func(f *Files) { f.Cert = filepath.Dir(f.Cert) }, false, "not a regular file"},
		"too large":            {func(f *Files) { mustWrite(t, f.CA, make([]byte, maxFile+1), 0o644) }, false, "larger than"},
		"no PEM":               {func(f *Files) { mustWrite(t, f.Cert, []byte("hello"), 0o644) }, false, "no certificate"},
		"damaged certificate":  {func(f *Files) { mustWrite(t, f.Cert, pemOf(typeCertificate, "hello"), 0o644) }, false, "x509"},
		"the key of another":   {func(f *Files) { mustWrite(t, f.Key, other.key, 0o600) }, false, "does not match"},
		"key with passphrase":  {func(f *Files) { mustWrite(t, f.Key, pemOf("ENCRYPTED PRIVATE KEY", "hello"), 0o600) }, false, "nobody is there"},
		"key is a certificate": {func(f *Files) { mustWrite(t, f.Key, good.cert, 0o600) }, false, "key"},
		"damaged CA":           {func(f *Files) { mustWrite(t, f.CA, certificatePEM(ca.cert)[:200], 0o644) }, false, "cut off"},
		"damaged first CA":     {func(f *Files) { damageFirst(t, f.CA) }, false, "cut off"},
		"key for everybody":    {func(f *Files) { mustWrite(t, f.Key, good.key, 0o644) }, true, "chmod 0600"},
		"key a group writes":   {func(f *Files) { mustWrite(t, f.Key, good.key, 0o660) }, true, "mode 0660"},
		"verify without a CA":  {func(f *Files) { f.CA, f.Verify = "", true }, true, "listen.tls.ca"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if runtime.GOOS == "windows" {
				t.Skip("skipping: modes and messages are those of Unix")
			}
			f := put(t, t.TempDir(), good, ca)
			c.harm(&f)
			_, err := OpenFiles(f, clockAt(today).now)
			wantFault(t, err, diag.CodeCertificate, c.permanent, c.words)
		})
	}
}

// damageFirst puts half a certificate before the whole one.
func damageFirst(t *testing.T, path string) {
	t.Helper()
	whole := mustRead(t, path)
	mustWrite(t, path, slices.Concat(whole[:len(whole)/2], []byte("\n"), whole), 0o644)
}

func pemOf(kind, text string) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: []byte(text)})
}

func TestAKeyThatAGroupReadsIsTaken(t *testing.T) {
	ca := newIssuer(t, "ca", nil)
	p := ca.issue(t, "2026-01-01", "2028-01-01", server, "a.example")
	for _, mode := range []fs.FileMode{0o400, 0o600, 0o640} {
		f := put(t, t.TempDir(), p, ca)
		mustWrite(t, f.Key, p.key, mode)
		mustOpenFiles(t, f)
	}
	f := put(t, t.TempDir(), p, ca)
	mustWrite(t, f.Key, p.key, 0o644)
	t.Setenv("CREDENTIALS_DIRECTORY", filepath.Dir(f.Key))
	mustOpenFiles(t, f)
}

func TestOwnFilesThatClientsRefuseAreAWarning(t *testing.T) {
	ca, stranger := newIssuer(t, "ca", nil), newIssuer(t, "stranger", nil)
	good := ca.issue(t, "2026-01-01", "2028-01-01", server, "a.example")
	chain := pair{cert: append(bytes.Clone(good.cert), certificatePEM(stranger.cert)...), key: good.key}
	alone, key := sign(t, nil, &x509.Certificate{
		NotBefore: at("2026-01-01"), NotAfter: at("2028-01-01"), IsCA: true, BasicConstraintsValid: true, DNSNames: []string{"a.example"},
	})
	both, err := pairPEM(key, alone.Raw)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		p     pair
		ca    *issuer
		code  diag.Code
		words string
	}{
		"expired":       {ca.issue(t, "2025-01-01", "2026-11-28", server, "a.example"), ca, diag.CodeExpiry, "has expired on 2026-11-28"},
		"expires soon":  {ca.issue(t, "2026-01-01", "2026-12-20", server, "a.example"), ca, diag.CodeExpiry, "expires on 2026-12-20"},
		"short life":    {ca.issue(t, "2026-11-23", "2026-11-30", server, "a.example"), ca, diag.CodeExpiry, "expires on 2026-11-30"},
		"not yet valid": {ca.issue(t, "2026-12-01", "2028-01-01", server, "a.example"), ca, diag.CodeExpiry, "not valid before 2026-12-01"},
		"other name":    {ca.issue(t, "2026-01-01", "2028-01-01", server, "b.example"), ca, diag.CodeCertNames, "not for a.example, 10.0.0.1"},
		"no names":      {ca.issue(t, "2026-01-01", "2028-01-01", server), ca, diag.CodeCertNames, "no subject alternative name"},
		"for clients":   {ca.issue(t, "2026-01-01", "2028-01-01", x509.ExtKeyUsageClientAuth, "a.example"), ca, diag.CodeCertificate, "not for servers"},
		"broken chain":  {chain, ca, diag.CodeCertificate, "not signed by the next"},
		"alone":         {pair{cert: certificatePEM(alone), key: both}, nil, diag.CodeCertificate, "its own CA"},
	} {
		t.Run(name, func(t *testing.T) {
			f := put(t, t.TempDir(), c.p, c.ca)
			f.Names = []string{"a.example", "10.0.0.1"}
			s, err := OpenFiles(f, clockAt(today).now)
			if err != nil {
				t.Fatal(err)
			}
			wantWarning(t, s, c.code, c.words)
			conn, err := dial(serve(t, s.TLSConfig()), insecure())
			if err != nil {
				t.Fatalf("got %v, want it served all the same", err)
			}
			_ = conn.Close()
		})
	}
}

func TestAShortLifeIsNoWarningUntilItsLastQuarter(t *testing.T) {
	ca := newIssuer(t, "ca", nil)
	mustOpenFiles(t, put(t, t.TempDir(), ca.issue(t, "2026-11-27", "2026-12-04", server, "a.example"), ca))
}

func TestOwnFilesAreNotCalledExpiredWithoutAClock(t *testing.T) {
	ca := newIssuer(t, "ca", nil)
	c := clockAt(noClock)
	s, err := OpenFiles(put(t, t.TempDir(), ca.issue(t, "2026-01-01", "2028-01-01", server, "a.example"), ca), c.now)
	if err != nil {
		t.Fatal(err)
	}
	if w := s.Warnings(); len(w) != 1 || w[0].Code != diag.CodeExpiry {
		t.Errorf("got warnings %q, want the clock's only", texts(w))
	}
	served(t, serve(t, s.TLSConfig()), client(s.CA(), "a.example", at(today)))
	c.set(today)
	if w := s.Warnings(); len(w) > 0 {
		t.Errorf("got warnings %q, want none once the time is known", texts(w))
	}
}
