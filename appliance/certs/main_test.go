// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

// patience only bounds a hang: what works takes nothing like it, on a busy
// machine either.
const patience = 30 * time.Second

// clock is a time that a test sets.
type clock struct{ t atomic.Pointer[time.Time] }

func clockAt(value string) *clock {
	c := &clock{}
	c.set(value)
	return c
}

func (c *clock) set(value string)        { c.setTime(at(value)) }
func (c *clock) setTime(t time.Time)     { c.t.Store(&t) }
func (c *clock) now() time.Time          { return *c.t.Load() }
func (c *clock) advance(d time.Duration) { c.setTime(c.now().Add(d)) }

func at(value string) time.Time {
	t, err := time.Parse("2006-01-02", value)
	if err != nil {
		return time.Time{}
	}
	return t
}

// writeFile replaces a file at once.
func writeFile(path string, data []byte, perm fs.FileMode) error {
	if err := os.WriteFile(path+".tmp", data, perm); err != nil {
		return err
	}
	return os.Rename(path+".tmp", path)
}

func options(t *testing.T, c *clock, names ...string) Options {
	t.Helper()
	return Options{Dir: t.TempDir(), Write: writeFile, Now: c.now, Names: names, NodeName: "n1"}
}

func mustOpen(t *testing.T, o Options) *Store {
	t.Helper()
	s, err := OpenAuto(o)
	if err != nil {
		t.Fatal(err)
	}
	if w := s.Warnings(); len(w) > 0 && clockIsSet(o.Now()) && o.Now().Year() < 2050 {
		t.Fatalf("got warnings %q, want none", texts(w))
	}
	return s
}

func mustCheck(t *testing.T, s *Store, want bool) {
	t.Helper()
	changed, err := s.Check()
	if err != nil {
		t.Fatal(err)
	}
	if changed != want {
		t.Fatalf("got changed %t, want %t", changed, want)
	}
}

func mustWrite(t *testing.T, path string, data []byte, perm fs.FileMode) {
	t.Helper()
	if err := errors.Join(os.WriteFile(path, data, perm), os.Chmod(path, perm)); err != nil {
		t.Fatal(err)
	}
}

func mustRead(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// filesIn is the text of every file.
func filesIn(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, e := range entries {
		out[e.Name()] = string(mustRead(t, filepath.Join(dir, e.Name())))
	}
	return out
}

func serverInfo(s *Store) Info { return s.Info()[0] }

// serve answers every connection with a byte, until the test ends.
func serve(t *testing.T, c *tls.Config) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_ = conn.SetDeadline(time.Now().Add(patience))
				// Every byte that comes goes back, under TLS.
				secure := tls.Server(conn, c)
				for b := make([]byte, 1); ; {
					if _, err := secure.Read(b); err != nil {
						return
					}
					if _, err := secure.Write(b); err != nil {
						return
					}
				}
			}()
		}
	}()
	return l.Addr().String()
}

// client is one that verifies the server as crypto/tls does by default.
func client(ca []byte, name string, now time.Time, own ...tls.Certificate) *tls.Config {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	return &tls.Config{RootCAs: roots, ServerName: name, Time: func() time.Time { return now }, Certificates: own}
}

// talk sends a byte and waits for it: with TLS 1.3 a client learns only by
// reading that its certificate was refused.
func talk(conn *tls.Conn) error {
	b := []byte{7}
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	if _, err := conn.Write(b); err != nil {
		return err
	}
	_, err := conn.Read(b)
	return err
}

func dial(addr string, c *tls.Config) (*tls.Conn, error) {
	conn, err := tls.Dial("tcp", addr, c)
	if err != nil {
		return nil, err
	}
	if err := talk(conn); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// served is the fingerprint of the certificate that a client is shown.
func served(t *testing.T, addr string, c *tls.Config) string {
	t.Helper()
	conn, err := dial(addr, c)
	if err != nil {
		t.Fatalf("dial as %q at %s: %v", c.ServerName, date(c.Time()), err)
	}
	defer func() { _ = conn.Close() }()
	return fingerprint(conn.ConnectionState().PeerCertificates[0])
}

// wantFault checks the code, whether a restart is of use, and that there is a hint.
func wantFault(t *testing.T, err error, code diag.Code, permanent bool, words ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("got no error, want %s", code)
	}
	if diag.CodeOf(err) != code || diag.Permanent(err) != permanent || diag.Hint(err) == "" {
		t.Errorf("got code %q, permanent %t, hint %q, want %q, %t and a hint: %v", diag.CodeOf(err), diag.Permanent(err), diag.Hint(err), code, permanent, err)
	}
	for _, w := range words {
		if !strings.Contains(err.Error()+"\n"+diag.Hint(err), w) {
			t.Errorf("got %q (hint %q), want it to contain %q", err, diag.Hint(err), w)
		}
	}
}

// wantWarning checks that one warning has the code and the words.
func wantWarning(t *testing.T, s *Store, code diag.Code, words string) {
	t.Helper()
	for _, w := range s.Warnings() {
		if w.Code == code && w.Severity == diag.Warning && w.Fix != "" && strings.Contains(w.What, words) {
			return
		}
	}
	t.Errorf("got warnings %q, want one with %s and %q", texts(s.Warnings()), code, words)
}

// texts is for messages: a list of warnings has no words of its own as an error.
func texts(l diag.List) []string {
	out := make([]string, len(l))
	for i, p := range l {
		out[i] = fmt.Sprintf("%s %s", p.Code, p)
	}
	return out
}

// issuer is a CA that is not Holdfast's.
type issuer struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newIssuer(t *testing.T, name string, parent *issuer) *issuer {
	t.Helper()
	c, key := sign(t, parent, &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, NotBefore: at("2020-01-01"), NotAfter: at("2046-01-01"),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	})
	return &issuer{c, key}
}

func sign(t *testing.T, by *issuer, template *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	parent, signer := template, key
	if by != nil {
		parent, signer = by.cert, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return c, key
}

// pair is a certificate and its key as files have them.
type pair struct{ cert, key []byte }

func (i *issuer) issue(t *testing.T, from, to string, usage x509.ExtKeyUsage, names ...string) pair {
	t.Helper()
	c, key := sign(t, i, &x509.Certificate{
		Subject: pkix.Name{CommonName: "own"}, NotBefore: at(from), NotAfter: at(to), DNSNames: names, ExtKeyUsage: []x509.ExtKeyUsage{usage},
	})
	both, err := pairPEM(key, c.Raw)
	if err != nil {
		t.Fatal(err)
	}
	cert := certificatePEM(c)
	return pair{cert: cert, key: both[:len(both)-len(cert)]}
}

func (p pair) certificate(t *testing.T) tls.Certificate {
	t.Helper()
	c, err := tls.X509KeyPair(p.cert, p.key)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
