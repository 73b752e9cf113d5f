// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-mq/holdfast/cmd/internal/child"
)

func TestFileSystemIsThatOfTheNearestMount(t *testing.T) {
	const mounts = `/dev/vda / ext4 rw 0 0
tmpfs /tmp tmpfs rw 0 0
/dev/vdb /srv/data ext4 rw 0 0
/dev/vdc /srv/data xfs rw 0 0
`
	for dir, want := range map[string]string{
		"/home/x": "ext4", "/tmp/x": "tmpfs", "/tmpfiles": "ext4", "/srv/data": "xfs", "/srv/data/x": "xfs", "/srv/database": "ext4",
	} {
		if got := fileSystemIn(mounts, dir); got != want {
			t.Errorf("%s: got %q, want %q", dir, got, want)
		}
	}
	if got := fileSystemIn("", "/x"); got != "file system unknown" {
		t.Errorf("no mounts: got %q, want it to say so", got)
	}
}

func TestMemoryIsReadFromItsOwnLine(t *testing.T) {
	const text = "VmHWM:\t  999 kB\nVmRSS:\t  221864 kB\nRssAnon:\t 1 kB\n"
	got, err := procKilobytes([]byte(text), "VmRSS")
	if err != nil || got != 221864<<10 {
		t.Errorf("got %d, %v, want %d", got, err, 221864<<10)
	}
	if _, err := procKilobytes([]byte(text), "Pss"); err == nil {
		t.Error("no such line: got no error, want one")
	}
}

func TestPortsAreDifferent(t *testing.T) {
	ports, err := child.FreePorts(8)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[int]bool{}
	for _, p := range ports {
		if p == 0 || seen[p] {
			t.Errorf("got %v, want eight different ports", ports)
		}
		seen[p] = true
	}
}

// script is a node whose process is a shell script and whose readiness is another's.
type script struct {
	text string
	node
}

func (s script) command() (string, []string)     { return "/bin/sh", []string{"-c", s.text} }
func (s script) ready(ctx context.Context) error { return s.node.ready(ctx) }

type never struct{ node }

func (never) ready(context.Context) error { return fmt.Errorf("not yet") }

func TestNodeThatEndsIsNotWaitedFor(t *testing.T) {
	if _, err := os.Stat("/bin/sh"); err != nil {
		t.Skip("skipping: no /bin/sh")
	}
	l := &lab{dir: t.TempDir()}
	_, _, err := l.start(t.Context(), script{"echo port in use; exit 3", never{}}, true)
	if err == nil || !strings.Contains(err.Error(), "exit status 3") || !strings.Contains(err.Error(), "port in use") {
		t.Errorf("got %v, want the exit status and what it wrote", err)
	}
}

func TestInterruptedRunLeavesNoProcess(t *testing.T) {
	if _, err := os.Stat("/bin/sh"); err != nil {
		t.Skip("skipping: no /bin/sh")
	}
	l := &lab{dir: t.TempDir()}
	ctx, cancel := context.WithCancel(t.Context())
	_, _, err := l.start(ctx, script{"exec sleep 600", askThen{then: cancel}}, true)
	if err == nil || !strings.Contains(err.Error(), "context canceled") {
		t.Fatalf("got %v, want the interruption", err)
	}
	// start returns after the process is gone: its log can't be open any more.
	logs, err := filepath.Glob("/proc/[0-9]*/fd/1")
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range logs {
		if to, err := os.Readlink(fd); err == nil && strings.HasPrefix(to, l.dir) {
			t.Errorf("%s still writes to %s, want the process gone", fd, to)
		}
	}
}

// askThen is not ready and calls back at the first question.
type askThen struct {
	node
	then func()
}

func (a askThen) ready(context.Context) error {
	a.then()
	return fmt.Errorf("not yet")
}
