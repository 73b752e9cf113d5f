// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// writePair writes a certificate that is its own CA, with its key.
func writePair(t *testing.T, home, name string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(240 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, DNSNames: []string{"localhost"},
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	text, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(home, "own.key"), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: text})))
	write(t, filepath.Join(home, "own.crt"), string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
}

func TestNewCertificateFilesAreServedWithoutARestart(t *testing.T) {
	home, l := t.TempDir(), &logged{}
	writePair(t, home, "first")
	o := options(t, home, strings.Replace(shop, `http: "127.0.0.1:0"`, `http: "127.0.0.1:0", tls: {mode: files, cert: own.crt, key: own.key, ca: own.crt}`, 1), l)
	o.CertsEvery = 10 * time.Millisecond
	r := run(t, open(t, o)).waitReady(t)
	connect := func() (*nats.Conn, string, error) {
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM([]byte(r.CA()))
		nc, err := nats.Connect("tls://"+r.Addresses()["client"], nats.UserCredentials(r.CredsFile("shop", "checkout")), nats.NoReconnect(), nats.Timeout(patience),
			nats.Secure(&tls.Config{RootCAs: roots, ServerName: "localhost"}))
		if err != nil {
			return nil, "", err
		}
		t.Cleanup(nc.Close)
		state, err := nc.TLSConnectionState()
		if err != nil {
			return nil, "", err
		}
		return nc, state.PeerCertificates[0].Subject.CommonName, nil
	}
	serves := func(want string) {
		t.Helper()
		eventually(t, func() error {
			if _, got, err := connect(); err != nil || got != want {
				return fmt.Errorf("got certificate %q, %w, want %q", got, err, want)
			}
			return nil
		})
	}
	before, name, err := connect()
	if err != nil || name != "first" {
		t.Fatalf("got certificate %q, %v, want the first", name, err)
	}
	writePair(t, home, "second")
	serves("second")

	// A broken pair is told of, and the old one served on.
	write(t, filepath.Join(home, "own.key"), "nonsense")
	eventually(t, func() error {
		if l.count("certificates not brought up to date, the old ones are served on") == 0 {
			return errors.New("got no word of the broken pair, want one")
		}
		return nil
	})
	serves("second")
	writePair(t, home, "third")
	serves("third")
	if err := before.Flush(); err != nil {
		t.Errorf("got %v on the connection from before, want it to live on", err)
	}
	r.now()
	r.stop(t)
}
