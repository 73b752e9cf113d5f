// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"

	"github.com/holdfast-mq/holdfast/appliance/diag"
	"github.com/holdfast-mq/holdfast/appliance/howto"
)

// OpenClientPort opens the port for clients. Before it only in-process
// connections exist. In a cluster it is open already.
func (e *Engine) OpenClientPort() (net.Addr, error) {
	e.mu.Lock()
	addr := e.addr
	e.mu.Unlock()
	if addr != nil {
		return addr, nil
	}
	if e.Clustered() {
		return e.opened() // with the routes
	}
	// A failure inside AcceptLoop is fatal to the server, one here can be tried
	// again.
	if err := portFree(context.Background(), e.settings); err != nil {
		return nil, err
	}
	err := e.collect(func() error {
		ready := make(chan struct{})
		e.server.AcceptLoop(ready)
		<-ready
		return nil
	})
	if err != nil {
		return nil, err
	}
	return e.opened()
}

// opened keeps the address of the port that the server opened.
func (e *Engine) opened() (net.Addr, error) {
	addr := e.server.Addr()
	if addr == nil || e.stopping.Load() {
		return nil, diag.Fail(diag.CodeListen, errors.New("open the client port: the engine is stopping"), "")
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.addr = addr
	return addr, nil
}

// portFree tries to listen where the server will.
func portFree(ctx context.Context, s Settings) error {
	if s.ClientPort == 0 {
		return nil
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", s.clientAddr())
	if err != nil {
		return ListenError("listen.client", s.clientAddr(), err)
	}
	if err := l.Close(); err != nil {
		return fmt.Errorf("listen on %s: %w", s.clientAddr(), err)
	}
	return nil
}

// ListenError says why an address can't be opened, and who has it. key is the
// configuration key that holds the address.
func ListenError(key, addr string, err error) error {
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return diag.Fail(diag.CodeListen, fmt.Errorf("listen on %s: %w", addr, err), "correct "+key)
	}
	switch errno {
	case errAddrInUse:
		host, port, _ := net.SplitHostPort(addr)
		who := portHolder(host, port)
		if who == "" {
			return diag.Fail(diag.CodePortTaken, fmt.Errorf("listen on %s: another program listens there: %w", addr, errno),
				"`"+howto.Here().Listener(port)+"` shows which; stop it, or set "+key+" to another address")
		}
		return diag.Fail(diag.CodePortTaken, fmt.Errorf("listen on %s: %w%s", addr, errno, who),
			"stop it, or set "+key+" to another address")
	case errAddrNotAvail:
		return diag.Fail(diag.CodeListen, fmt.Errorf("listen on %s: %w", addr, errno),
			"this machine has no such address (yet); set "+key+" to one that it has")
	case errNoAccess:
		return diag.Fail(diag.CodeListen, fmt.Errorf("listen on %s: %w", addr, errno),
			"set "+key+" to "+howto.Here().FreePort())
	}
	return diag.Fail(diag.CodeListen, fmt.Errorf("listen on %s: %w", addr, errno), "correct "+key)
}
