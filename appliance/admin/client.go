// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"syscall"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

// Client asks a running node through its admin socket.
type Client struct {
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
	return s, c.get(ctx, "/v1/status", nil, &s)
}

// Login asks for the credentials of a user, or of the system account.
func (c *Client) Login(ctx context.Context, account, user string, system bool) (Login, error) {
	var l Login
	return l, c.get(ctx, "/v1/login", url.Values{
		"account": {account}, "user": {user}, "system": {strconv.FormatBool(system)},
	}, &l)
}

func (c *Client) get(ctx context.Context, path string, q url.Values, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://holdfast"+path+"?"+q.Encode(), nil)
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
		return diag.Fail(f.Code, errors.New(f.What), f.Fix)
	}
	if err := json.NewDecoder(resp.Body).Decode(into); err != nil {
		return fmt.Errorf("read the node's answer: %w", err)
	}
	return nil
}

func (c *Client) unreachable(err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return diag.Fail(diag.CodeNoNode, fmt.Errorf("no node is running here: nothing answers at %s", c.socket),
			"start it with `holdfast run` or `systemctl start holdfast`; name another node's file with --config, or its directory with --data-dir")
	case errors.Is(err, fs.ErrPermission):
		return diag.Fail(diag.CodeAdminRefused, fmt.Errorf("connect to admin socket %s: permission denied", c.socket),
			"run it as the user of the node, or join the socket's group: `sudo usermod -aG holdfast $USER`, then log in again")
	}
	return fmt.Errorf("ask the node at %s: %w", c.socket, err)
}
