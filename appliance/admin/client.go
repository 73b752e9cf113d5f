// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"syscall"
	"time"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

// Client asks a running node through its admin socket.
type Client struct {
	// Absent is what to do when no node answers; empty for what is true of any node.
	Absent string

	socket string
	http   http.Client
}

// NewClient makes a client for the socket; nothing is opened before it is used.
func NewClient(socket string) *Client {
	c := &Client{socket: socket}
	c.http.Transport = &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx, socket) },
		// One answer a connection: a command asks once or twice.
		DisableKeepAlives: true,
	}
	return c
}

// Status asks for the node's status.
func (c *Client) Status(ctx context.Context) (Status, error) {
	var s Status
	err := c.ask(ctx, http.MethodGet, "/v1/status", nil, &s)
	return s, err
}

// CA asks for the certificate that clients must trust, in PEM; "" without TLS.
func (c *Client) CA(ctx context.Context) (string, error) {
	var ca string
	err := c.ask(ctx, http.MethodGet, "/v1/ca", nil, &ca)
	return ca, err
}

// Users asks who may connect.
func (c *Client) Users(ctx context.Context) ([]User, error) {
	var users []User
	err := c.ask(ctx, http.MethodGet, "/v1/users", nil, &users)
	return users, err
}

// ExportIdentity asks for all keys and tokens, as a file to restore from.
func (c *Client) ExportIdentity(ctx context.Context) ([]byte, error) {
	var data []byte
	err := c.ask(ctx, http.MethodGet, "/v1/identity", nil, &data)
	return data, err
}

// ChangeUser changes the credentials of a user; overlap is for CredsRotate.
func (c *Client) ChangeUser(ctx context.Context, op CredsOp, account, user string, overlap time.Duration) error {
	path := fmt.Sprintf("/v1/users/%s/%s/%s", url.PathEscape(account), url.PathEscape(user), op)
	return c.ask(ctx, http.MethodPost, path, url.Values{"overlap": {overlap.String()}}, &struct{}{})
}

// Login asks for the credentials of a user, or of the system account.
func (c *Client) Login(ctx context.Context, account, user string, system bool) (Login, error) {
	var l Login
	err := c.ask(ctx, http.MethodGet, "/v1/login", url.Values{
		"account": {account}, "user": {user}, "system": {strconv.FormatBool(system)},
	}, &l)
	return l, err
}

func (c *Client) ask(ctx context.Context, method, path string, q url.Values, into any) error {
	return c.send(ctx, method, path+"?"+q.Encode(), nil, func(body io.Reader) error {
		if err := json.NewDecoder(body).Decode(into); err != nil {
			return fmt.Errorf("read the node's answer: %w", err)
		}
		return nil
	})
}

func (c *Client) post(ctx context.Context, path string, body any, read func(io.Reader) error) error {
	text, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("ask the node: %w", err)
	}
	return c.send(ctx, http.MethodPost, path, bytes.NewReader(text), read)
}

func (c *Client) send(ctx context.Context, method, path string, body io.Reader, read func(io.Reader) error) error {
	req, err := http.NewRequestWithContext(ctx, method, "http://holdfast"+path, body)
	if err != nil {
		return fmt.Errorf("ask the node: %w", err)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return c.unreachable(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		var f failure
		if err := json.NewDecoder(resp.Body).Decode(&f); err != nil || f.What == "" {
			return fmt.Errorf("ask the node: it answered %s", resp.Status)
		}
		return f.error()
	}
	return read(resp.Body)
}

func (c *Client) unreachable(err error) error {
	if fault := (*url.Error)(nil); errors.As(err, &fault) && diag.CodeOf(fault.Err) != "" {
		return fault.Err // what http puts before it would name a URL that nobody has typed
	}
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return diag.Fail(diag.CodeNoNode, fmt.Errorf("no node is running here: nothing answers at %s", Address(c.socket)),
			cmp.Or(c.Absent, absentHint()))
	case errors.Is(err, fs.ErrPermission):
		return diag.Fail(diag.CodeAdminRefused, fmt.Errorf("connect to admin socket %s: permission denied", Address(c.socket)),
			refusedHint())
	}
	return fmt.Errorf("ask the node at %s: %w", Address(c.socket), err)
}
