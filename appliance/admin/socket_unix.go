// SPDX-License-Identifier: Apache-2.0

//go:build !windows

package admin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"

	"github.com/holdfast-mq/holdfast/appliance/diag"
	"github.com/holdfast-mq/holdfast/appliance/howto"
)

func absentHint() string {
	return "start it with `holdfast run` or `" + howto.Here().Start() + "`; name another node's file with --config, or its directory with --data-dir; a node whose socket was removed has to be restarted"
}

func refusedHint() string {
	return "run it as the user of the node, or join the socket's group: `" + howto.Here().Join("$USER") + "`, then log in again"
}

// Address is how the socket is called in messages.
func Address(path string) string { return path }

// Listen opens the admin socket. Whoever may connect to it is root of the
// queue, so only the owner and the group can: mode 0660. The caller holds the
// lock of the data directory, so a socket that is there already is a leftover.
func Listen(path string) (net.Listener, error) {
	fail := func(err error) error {
		return diag.Fail(diag.CodeListen, fmt.Errorf("listen on admin socket %s: %w", path, err),
			"make its directory writable for this user, or remove what is in the way")
	}
	info, err := os.Lstat(path)
	switch {
	case err == nil && info.Mode().Type() != fs.ModeSocket:
		return nil, fail(errors.New("something that is not a socket is in the way"))
	case err == nil:
		if err := os.Remove(path); err != nil {
			return nil, fail(err)
		}
	}
	short, done, err := shorten(path)
	if err != nil {
		return nil, fail(err)
	}
	defer done()
	l, err := net.Listen("unix", short)
	if err != nil {
		return nil, fail(err)
	}
	// The name net would remove is the shortened one, which is gone by then.
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	if err := os.Chmod(path, 0o660); err != nil {
		l.Close()
		return nil, fail(err)
	}
	return &socket{Listener: l, path: path}, nil
}

// socket removes its file when it is closed.
type socket struct {
	net.Listener
	path string
}

func (s *socket) Close() error {
	return errors.Join(s.Listener.Close(), os.Remove(s.path))
}

func dial(ctx context.Context, path string) (net.Conn, error) {
	short, done, err := shorten(path)
	if err != nil {
		return nil, err
	}
	defer done()
	var d net.Dialer
	return d.DialContext(ctx, "unix", short)
}
