// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"time"

	"github.com/Microsoft/go-winio"
	"golang.org/x/sys/windows"

	"github.com/holdfast-mq/holdfast/appliance/acl"
	"github.com/holdfast-mq/holdfast/appliance/diag"
	"github.com/holdfast-mq/holdfast/appliance/howto"
)

const (
	// pipeGroup is the local group whose members may use the pipe; an administrator makes it.
	pipeGroup = "holdfast"
	// pipeBuffer is what may be on its way, in bytes.
	pipeBuffer = 64 << 10
	// brief is how long a connection is tried that should be there at once.
	brief = 20 * time.Millisecond
)

func absentHint() string {
	return "start it with `holdfast run` or `" + howto.Here().Start() + "`; name another node's file with --config, or its directory with --data-dir"
}

func refusedHint() string {
	return "run it from an elevated prompt, or have an administrator put you into the group: `" + howto.Here().Join("NAME") + "`, then log in again"
}

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
// another machine. The pipe is new, or this fails: go-winio asks for the first instance of
// the name. One that is there already is somebody else's: the caller holds the lock of the
// data directory, and pipes end with their process.
func Listen(path string) (net.Listener, error) {
	name := Address(path)
	fail := func(err error) error {
		return diag.Fail(diag.CodeListen, fmt.Errorf("listen on admin pipe %s: %w", name, err), "correct that, then start the node again")
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
	switch {
	case errors.Is(err, windows.ERROR_ALREADY_EXISTS), errors.Is(err, windows.ERROR_ACCESS_DENIED), errors.Is(err, windows.ERROR_PIPE_BUSY):
		return nil, taken(name)
	case err != nil:
		return nil, fail(err)
	}
	takeFirst(name)
	return l, nil
}

// taken says who has a pipe of the node's name, as far as it can be seen.
func taken(name string) error {
	who, end := "another process", "find the process that has a pipe of that name (`handle -a holdfast-` of Sysinternals) and end it"
	if pid := serverOf(name); pid != 0 {
		who = fmt.Sprintf("process %d", pid)
		if user, err := userOf(pid); err == nil {
			who += " of " + user
		}
		end = "end it from an elevated prompt: `" + howto.Here().End(int(pid)) + "`"
	}
	return diag.Fail(diag.CodeListen, fmt.Errorf("listen on admin pipe %s: %s has taken the name", name, who),
		end+"; it is no node of this data directory, and one that takes the name by chance is not to be expected. The node starts again by itself, or with `"+howto.Here().Start()+"`")
}

// serverOf is the process that listens at a pipe; 0 when it lets nobody ask.
func serverOf(name string) (pid uint32) {
	ctx, cancel := context.WithTimeout(context.Background(), brief)
	defer cancel()
	c, err := winio.DialPipeAccess(ctx, name, windows.FILE_READ_ATTRIBUTES)
	if err != nil {
		return 0
	}
	defer c.Close()
	f, ok := c.(interface{ Fd() uintptr })
	if !ok || windows.GetNamedPipeServerProcessId(windows.Handle(f.Fd()), &pid) != nil {
		return 0
	}
	return pid
}

// takeFirst connects to the pipe's first instance, which only holds the name. Windows lets
// nobody in there; Wine does, and that client would wait forever.
func takeFirst(name string) {
	ctx, cancel := context.WithTimeout(context.Background(), brief)
	defer cancel()
	if c, err := winio.DialPipeContext(ctx, name); err == nil {
		c.Close()
	}
}

// dial connects without letting the other end act as this user, and says nothing before
// it knows whose end that is: anybody can make a pipe of a name that no node has.
func dial(ctx context.Context, path string) (net.Conn, error) {
	name := Address(path)
	c, err := winio.DialPipeAccess(ctx, name, acl.PipeClient)
	if err != nil {
		return nil, err
	}
	f, ok := c.(interface{ Fd() uintptr })
	if !ok {
		return nil, errors.Join(fmt.Errorf("look who listens at %s: %w", name, errors.ErrUnsupported), c.Close())
	}
	switch who, err := acl.PipeOwner(f.Fd()); {
	case err != nil:
		return nil, errors.Join(err, c.Close())
	case who != "":
		return nil, errors.Join(stranger(name, who), c.Close())
	}
	return c, nil
}

// stranger is the refusal to talk to somebody who may only pretend to be the node.
func stranger(name, who string) error {
	return diag.Fail(diag.CodeAdminFalse, fmt.Errorf("admin pipe %s is neither the service's nor yours: %s has made it; nothing was sent", name, who),
		"a node that "+who+" has started answers to "+who+" alone; where there is none, somebody pretends to be the node: tell an administrator")
}
