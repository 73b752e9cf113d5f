// SPDX-License-Identifier: Apache-2.0

package trio

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// RequestLimit is how long a client waits for one answer before it asks again.
const RequestLimit = 2 * time.Second

// Ask reads a page of the node's HTTP listener.
func (n *Node) Ask(ctx context.Context, path string) ([]byte, error) {
	client := http.Client{Timeout: RequestLimit, Transport: &http.Transport{DialContext: n.Dial, DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d%s", n.HTTP, path), nil)
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", n.Name, err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", n.Name, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 4<<20))
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", n.Name, err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("ask %s: %s: %s", n.Name, resp.Status, strings.TrimSpace(string(text)))
	}
	return text, nil
}

// Ready returns nil when the node serves all that it holds.
func (n *Node) Ready(ctx context.Context) error {
	_, err := n.Ask(ctx, n.ready)
	return err
}

// Access is what a client has with it to be let in.
type Access struct {
	creds []byte
	roots *x509.CertPool
}

// Access reads it; nothing for a nats-server.
func (n *Node) Access() (*Access, error) {
	var a Access
	var err error
	if n.stock {
		return &a, nil
	}
	if a.creds, err = os.ReadFile(n.CredsFile()); err != nil {
		return nil, fmt.Errorf("read credentials: %w", err)
	}
	if n.Host == "127.0.0.1" {
		return &a, nil
	}
	ca, err := os.ReadFile(n.CAFile())
	if err != nil {
		return nil, fmt.Errorf("read CA: %w", err)
	}
	a.roots = x509.NewCertPool()
	a.roots.AppendCertsFromPEM(ca)
	return &a, nil
}

// Connect is a client that knows some nodes and comes back by itself, however long it
// takes.
func (a *Access) Connect(nodes []*Node, more ...nats.Option) (*nats.Conn, jetstream.JetStream, error) {
	var urls []string
	for _, n := range nodes {
		urls = append(urls, "nats://"+n.ClientAddress())
	}
	opts := []nats.Option{
		nats.MaxReconnects(-1), nats.ReconnectWait(200 * time.Millisecond), nats.Timeout(RequestLimit), nats.RetryOnFailedConnect(true),
		// A cable that was pulled says nothing: a client has to ask.
		nats.PingInterval(time.Second), nats.MaxPingsOutstanding(2),
		nats.IgnoreDiscoveredServers(),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}), // what nodes go through is no news
	}
	if a.creds != nil {
		opts = append(opts, nats.UserCredentialBytes(a.creds))
	}
	if a.roots != nil {
		opts = append(opts, nats.Secure(&tls.Config{RootCAs: a.roots, MinVersion: tls.VersionTLS12}))
	}
	nc, err := nats.Connect(strings.Join(urls, ","), append(opts, more...)...)
	if err != nil {
		return nil, nil, fmt.Errorf("connect: %w", err)
	}
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(RequestLimit))
	if err != nil {
		nc.Close()
		return nil, nil, fmt.Errorf("use JetStream: %w", err)
	}
	return nc, js, nil
}

// ErrNotYet is what is asked for again.
var ErrNotYet = errors.New("not yet")

// CloseBy is how many entries a follower may be behind while publishers go on: on a busy
// machine it is never at the end of what moves.
const CloseBy = 200

// Whole returns nil when what a stream or a consumer says of its copies is that they are
// there.
func Whole(what string, c *jetstream.ClusterInfo) error {
	if c == nil || c.Leader == "" || len(c.Replicas) != 2 {
		return fmt.Errorf("%s has no leader with two followers: %w", what, ErrNotYet)
	}
	var behind []string
	for _, r := range c.Replicas {
		if r.Offline || !r.Current && r.Lag > CloseBy {
			behind = append(behind, fmt.Sprintf("%s (lag %d)", r.Name, r.Lag))
		}
	}
	if len(behind) > 0 {
		return fmt.Errorf("%s is not whole on %s: %w", what, strings.Join(behind, " and "), ErrNotYet)
	}
	return nil
}
