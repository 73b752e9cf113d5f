// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"time"

	"github.com/Microsoft/go-winio"

	"github.com/holdfast-mq/holdfast/appliance/acl"
	"github.com/holdfast-mq/holdfast/appliance/diag"
)

const (
	absentHint  = "start it with `holdfast run` or `holdfast service start`; name another node's file with --config, or its directory with --data-dir"
	refusedHint = "run it from an elevated prompt, or have an administrator put you into the group: `net localgroup " + pipeGroup + " NAME /add`, then log in again"

	// pipeGroup is the local group whose members may use the pipe; an administrator makes it.
	pipeGroup = "holdfast"
	// pipeBuffer is what may be on its way, in bytes.
	pipeBuffer = 64 << 10
)

// Address is the name of the pipe. Pipes have no directories: the name is made of the
// path that a socket would have.
func Address(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	sum := sha256.Sum256([]byte(strings.ToLower(path)))
	return fmt.Sprintf(`\\.\pipe\holdfast-%x`, sum[:8])
}

// Listen opens the admin pipe. Whoever may connect to it is root of the queue, so only
// the system, administrators, the node's own user and the group can, and nobody from
// another machine. A pipe of that name that is there already is somebody else's: the
// caller holds the lock of the data directory, and pipes end with their process.
func Listen(path string) (net.Listener, error) {
	name := Address(path)
	fail := func(err error) error {
		return diag.Fail(diag.CodeListen, fmt.Errorf("listen on admin pipe %s: %w", name, err),
			"find the process that has a pipe of that name and end it: only one that means to deceive takes it")
	}
	me, err := acl.Me()
	if err != nil {
		return nil, fail(err)
	}
	var groups []string
	if group := acl.GroupSID(pipeGroup); group != "" {
		groups = append(groups, group)
	}
	l, err := winio.ListenPipe(name, &winio.PipeConfig{
		SecurityDescriptor: acl.Pipe(me, groups...), InputBufferSize: pipeBuffer, OutputBufferSize: pipeBuffer,
	})
	if err != nil {
		return nil, fail(err)
	}
	takeFirst(name)
	return l, nil
}

// takeFirst connects to the pipe's first instance, which only holds the name. Windows lets
// nobody in there; Wine does, and that client would wait forever.
func takeFirst(name string) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if c, err := winio.DialPipeContext(ctx, name); err == nil {
		c.Close()
	}
}

// dial connects without letting the other end act as this user.
func dial(ctx context.Context, path string) (net.Conn, error) {
	return winio.DialPipeAccess(ctx, Address(path), acl.PipeClient)
}
