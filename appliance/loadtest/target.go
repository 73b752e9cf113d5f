// SPDX-License-Identifier: Apache-2.0

package loadtest

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// answerLimit is how long an answer of the node is waited for. A disk in trouble takes
// seconds for an fsync, and that is a result, too.
const answerLimit = 30 * time.Second

// Target is a node as a client sees it.
type Target struct {
	URL   string
	Creds string // the text of a credentials file of an administrator of the account; "" where nobody logs in
	CA    string // PEM; "" without TLS, and where the system knows it
	// Certificate is for a node that asks clients for one.
	Certificate *tls.Certificate
}

func (t Target) connect() (*nats.Conn, jetstream.JetStream, error) {
	opts := []nats.Option{
		nats.Name("holdfast bench"),
		nats.Timeout(answerLimit),
		// A run that loses its connection has failed: its counts would be worth nothing.
		nats.NoReconnect(),
		// nats.go prints to stderr without a handler; calls return the same.
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}),
	}
	if t.Creds != "" {
		opts = append(opts, nats.UserCredentialBytes([]byte(t.Creds)))
	}
	if t.CA != "" || t.Certificate != nil {
		c := &tls.Config{MinVersion: tls.VersionTLS12}
		if t.CA != "" {
			c.RootCAs = x509.NewCertPool()
			if !c.RootCAs.AppendCertsFromPEM([]byte(t.CA)) {
				return nil, nil, errors.New("read the node's CA: there is no certificate in it")
			}
		}
		if t.Certificate != nil {
			c.Certificates = []tls.Certificate{*t.Certificate}
		}
		opts = append(opts, nats.Secure(c))
	}
	nc, err := nats.Connect(t.URL, opts...)
	if err != nil {
		return nil, nil, fmt.Errorf("connect to %s: %w", t.URL, err)
	}
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(answerLimit))
	if err != nil {
		nc.Close()
		return nil, nil, fmt.Errorf("use JetStream: %w", err)
	}
	return nc, js, nil
}
