// SPDX-License-Identifier: Apache-2.0

package join

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

// Ask asks the node at an address, host:port. What it refuses is in the answer; an
// error means that there was none, and may be gone the next time.
func Ask(ctx context.Context, addr string, secret []byte, req Request) (Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	a, err := ask(ctx, addr, secret, req)
	switch {
	case err == nil:
		return a, nil
	case errors.Is(err, errSecret):
		return Answer{}, diag.Fail(diag.CodeClusterSecret, fmt.Errorf("ask %s for the identity of the cluster: %w", addr, err),
			"write the same secret into the file of cluster.secret on every node")
	}
	return Answer{}, diag.Fail(diag.CodeClusterPeer, fmt.Errorf("ask %s for the identity of the cluster: %w", addr, plain(err)),
		"it is tried again; the node there must run, and the port be reachable from here")
}

func ask(ctx context.Context, addr string, secret []byte, req Request) (_ Answer, err error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return Answer{}, err
	}
	defer func() { _ = conn.Close() }() // everything was read by then
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return Answer{}, err
		}
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	// There is nobody yet who could vouch for a certificate: the proofs do, and they
	// hold for this connection only.
	c := tls.Client(conn, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13}) //nolint:gosec // see above
	if err := c.HandshakeContext(ctx); err != nil {
		return Answer{}, err
	}
	mine, err := proof(secret, joinerSays, c.ConnectionState())
	if err != nil {
		return Answer{}, err
	}
	if _, err := c.Write(append([]byte(magic), mine...)); err != nil {
		return Answer{}, err
	}
	err = check(c, secret, keeperSays, c.ConnectionState())
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) {
		err = errSecret // it hangs up on who does not know it
	}
	if err != nil {
		return Answer{}, err
	}
	if err := send(c, req); err != nil {
		return Answer{}, err
	}
	var a Answer
	return a, receive(c, &a)
}

// plain is the reason in an error of the network, without the addresses, which stand
// before it already.
func plain(err error) error {
	var op *net.OpError
	if errors.As(err, &op) && op.Err != nil {
		var errno syscall.Errno
		if errors.As(op.Err, &errno) {
			return errno
		}
		return op.Err
	}
	return err
}
