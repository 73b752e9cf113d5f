// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"bytes"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/holdfast-mq/holdfast/appliance/acl"
)

const (
	typeCertificate = "CERTIFICATE"
	typeKey         = "PRIVATE KEY"
)

// maxFile bounds what is read: a path may name a device.
const maxFile = 1 << 20

func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a regular file", path)
	case info.Size() > maxFile:
		return nil, fmt.Errorf("%s is larger than 1 MiB", path)
	}
	return os.ReadFile(path)
}

// modeError is a private key that others can read or change.
type modeError struct {
	path string
	mode fs.FileMode
	who  []string // by their names, where modes say nothing
}

func (e *modeError) Error() string {
	if len(e.who) > 0 {
		return fmt.Sprintf("private key %s: %s may read it", e.path, strings.Join(e.who, ", "))
	}
	return fmt.Sprintf("private key %s: mode %04o lets others read or change it", e.path, e.mode)
}

// readKeyFile reads a file that holds a private key, under the same rule as
// secrets: a group may read it, nobody else. What systemd hands over is
// protected by its directory.
func readKeyFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if mode := info.Mode().Perm(); mode&0o027 != 0 && runtime.GOOS != "windows" && !inCredentialsDirectory(path) {
		return nil, &modeError{path: path, mode: mode}
	}
	return readFile(path)
}

// readForeignKeyFile reads one that is not in the data directory, whose access list is
// what protects its files on Windows.
func readForeignKeyFile(path string) ([]byte, error) {
	who, err := acl.Readers(path)
	if err != nil {
		return nil, err
	}
	if len(who) > 0 {
		return nil, &modeError{path: path, who: who}
	}
	return readKeyFile(path)
}

func inCredentialsDirectory(path string) bool {
	dir := os.Getenv("CREDENTIALS_DIRECTORY")
	return dir != "" && strings.HasPrefix(filepath.Clean(path), filepath.Clean(dir)+string(filepath.Separator))
}

// parseCertificates reads every certificate and refuses a file that was cut off:
// pem.Decode skips what is not whole, and a chain without its end would be served.
func parseCertificates(data []byte) ([]*x509.Certificate, error) {
	var certs []*x509.Certificate
	blocks, rest := 0, data
	for {
		var b *pem.Block
		if b, rest = pem.Decode(rest); b == nil {
			break
		}
		blocks++
		if b.Type != typeCertificate {
			continue
		}
		c, err := x509.ParseCertificate(b.Bytes)
		if err != nil {
			return nil, err
		}
		certs = append(certs, c)
	}
	if bytes.Count(data, []byte("-----BEGIN ")) != blocks || bytes.Contains(rest, []byte("-----")) {
		return nil, errors.New("the file is damaged or was cut off")
	}
	if len(certs) == 0 {
		return nil, errors.New("no certificate in PEM form in it")
	}
	return certs, nil
}

// parsePair reads a certificate with its chain and the key that belongs to it.
func parsePair(certPEM, keyPEM []byte) (tls.Certificate, []*x509.Certificate, error) {
	chain, err := parseCertificates(certPEM)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	if bytes.Contains(keyPEM, []byte("ENCRYPTED")) {
		return tls.Certificate{}, nil, errors.New("the private key has a passphrase, and nobody is there to type it at a start")
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	return pair, chain, err
}

func certificatePEM(certs ...*x509.Certificate) []byte {
	var out []byte
	for _, c := range certs {
		out = append(out, pem.EncodeToMemory(&pem.Block{Type: typeCertificate, Bytes: c.Raw})...)
	}
	return out
}

// pairPEM is a key and its certificate in one text.
func pairPEM(key crypto.Signer, cert []byte) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode private key: %w", err)
	}
	out := pem.EncodeToMemory(&pem.Block{Type: typeKey, Bytes: der})
	return append(out, pem.EncodeToMemory(&pem.Block{Type: typeCertificate, Bytes: cert})...), nil
}
