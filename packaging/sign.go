// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"time"
)

// signer signs programs and packages for Windows (Authenticode), with osslsigncode.
// One without a certificate signs nothing.
type signer struct {
	cert, key, password string // files in PEM; the password's is empty where the key has none
	timestamp           string // address of a service for time stamps
}

// environmentSigner is the real one, which only the environment names.
func environmentSigner() signer {
	return signer{
		cert: os.Getenv("HOLDFAST_SIGN_CERT"), key: os.Getenv("HOLDFAST_SIGN_KEY"),
		password: os.Getenv("HOLDFAST_SIGN_PASSWORD_FILE"), timestamp: os.Getenv("HOLDFAST_SIGN_TIMESTAMP"),
	}
}

// testSigner has a certificate that nobody trusts, in dir: it shows that signing works.
func testSigner(dir string) (signer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return signer{}, err
	}
	about := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "Holdfast TEST, not for distribution"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning},
	}
	cert, err := x509.CreateCertificate(rand.Reader, about, about, &key.PublicKey, key)
	if err != nil {
		return signer{}, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return signer{}, err
	}
	s := signer{cert: filepath.Join(dir, "test.crt"), key: filepath.Join(dir, "test.key")}
	return s, errors.Join(
		os.WriteFile(s.cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}), 0o600),
		os.WriteFile(s.key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600))
}

func (s signer) sign(ctx context.Context, file string) error {
	if s.cert == "" {
		return nil
	}
	signed := file + ".signed"
	args := []string{"sign", "-h", "sha256", "-certs", s.cert, "-key", s.key, "-n", "Holdfast", "-i", homepage}
	if s.password != "" {
		args = append(args, "-readpass", s.password)
	}
	if s.timestamp != "" {
		args = append(args, "-ts", s.timestamp)
	}
	if _, err := run(ctx, "", "osslsigncode", append(args, "-in", file, "-out", signed)...); err != nil {
		return fmt.Errorf("sign %s: %w", filepath.Base(file), err)
	}
	return os.Rename(signed, file)
}
