// SPDX-License-Identifier: Apache-2.0

package jetstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

const (
	dialTimeout = 5 * time.Second
	// requestTimeout is longer than the 4 s that a meta leader waits for the
	// leaders of streams before it answers a list without them.
	requestTimeout = 10 * time.Second
	// askAgain is when a question about one object is asked once more within
	// requestTimeout: in a cluster one that is asked while leaders change is never answered.
	askAgain = 2 * time.Second
)

// ErrClosed is returned by every call after Close.
var ErrClosed = errors.New("client is closed")

// Dialer opens connections into the server of this process.
type Dialer interface {
	InProcessConn() (net.Conn, error)
}

// Credentials returns the user JWT and the seed to use in an account.
type Credentials func(account string) (userJWT string, seed []byte, err error)

// Client talks to the JetStream API, with one connection per account that is
// opened when it is first needed.
type Client struct {
	dialer      Dialer
	credentials Credentials

	mu     sync.Mutex
	conns  map[string]*nats.Conn
	closed bool
}

// New returns a client. It does not connect yet.
func New(d Dialer, c Credentials) *Client {
	return &Client{dialer: d, credentials: c, conns: make(map[string]*nats.Conn)}
}

// Connections returns how many connections the client holds.
func (c *Client) Connections() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.conns)
}

// Close ends all connections; requests under way return an error.
func (c *Client) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for _, nc := range c.conns {
		nc.Close()
	}
	clear(c.conns)
}

// conn returns the account's connection. A connection that broke is not
// repaired but replaced, with credentials asked for anew: the server that closed
// it may have restarted, and the user may have been rotated.
func (c *Client) conn(account string) (*nats.Conn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, ErrClosed
	}
	if nc := c.conns[account]; nc != nil && !nc.IsClosed() {
		return nc, nil
	}
	userJWT, seed, err := c.credentials(account)
	if err != nil {
		return nil, fmt.Errorf("get credentials: %w", err)
	}
	nc, err := nats.Connect("",
		nats.InProcessServer(c.dialer),
		nats.UserJWTAndSeed(userJWT, string(seed)),
		nats.Name("holdfast bootstrap"),
		nats.Timeout(dialTimeout),
		nats.NoReconnect(),
		// nats.go prints to stderr without a handler; LastError has the same.
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}),
	)
	if err != nil {
		return nil, fmt.Errorf("connect in process: %w", err)
	}
	c.conns[account] = nc
	return nc, nil
}

// apiError is an error answer of the JetStream API.
type apiError struct {
	ErrCode     int    `json:"err_code"`
	Description string `json:"description"`
}

func (e *apiError) Error() string { return fmt.Sprintf("%s (%d)", e.Description, e.ErrCode) }

// code returns the API's error code in err, or 0.
func code(err error) int {
	if e, ok := errors.AsType[*apiError](err); ok {
		return e.ErrCode
	}
	return 0
}

// errNoJetStream means that nobody answers for the JetStream API.
var errNoJetStream = errors.New("JetStream does not answer in this account")

// request sends one API request and reads the answer into resp.
func (c *Client) request(ctx context.Context, account, subject string, req, resp any) error {
	nc, err := c.conn(account)
	if err != nil {
		return err
	}
	body, err := json.Marshal(req)
	if err != nil {
		return fmt.Errorf("encode request: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	msg, err := ask(ctx, nc, subject, body)
	if errors.Is(err, nats.ErrNoResponders) {
		return errNoJetStream
	}
	if err != nil {
		// A refused publish shows as a timeout only; the connection knows why.
		if last := nc.LastError(); errors.Is(last, nats.ErrPermissionViolation) {
			return fmt.Errorf("%w (%w)", err, last)
		}
		return err
	}
	return decode(msg.Data, resp)
}

// ask sends a request until there is an answer, if it changes nothing and is about one
// object; else once.
func ask(ctx context.Context, nc *nats.Conn, subject string, body []byte) (*nats.Msg, error) {
	if !slices.ContainsFunc([]string{"STREAM.INFO.", "CONSUMER.INFO.", "STREAM.MSG.GET."}, func(p string) bool { return strings.HasPrefix(subject, p) }) {
		return nc.RequestWithContext(ctx, "$JS.API."+subject, body)
	}
	for {
		once, cancel := context.WithTimeout(ctx, askAgain)
		msg, err := nc.RequestWithContext(once, "$JS.API."+subject, body)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			return msg, err
		}
	}
}

// decode reads an answer, numbers kept as they are written.
func decode(data []byte, resp any) error {
	var failure struct {
		Error *apiError `json:"error"`
	}
	if err := json.Unmarshal(data, &failure); err != nil {
		return fmt.Errorf("decode answer: %w", err)
	}
	if failure.Error != nil {
		return failure.Error
	}
	if err := unmarshal(data, resp); err != nil {
		return fmt.Errorf("decode answer: %w", err)
	}
	return nil
}
