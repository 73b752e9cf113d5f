// SPDX-License-Identifier: Apache-2.0

//go:build system && linux

package systemtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-mq/holdfast/packaging/nest"
)

// result is what a command printed and how it ended.
type result struct {
	code     int
	out, err string
}

// try runs a shell script as root in the container.
func (c *container) try(script string) result { return c.feed("", script) }

// feed is try with something on stdin.
func (c *container) feed(stdin, script string) result {
	pid, err := c.leader()
	if err != nil {
		return result{code: -1, err: err.Error()}
	}
	return c.doWith(stdin, "nsenter", "--target", strconv.Itoa(pid), "--all", "--", "env", "--ignore-environment", "--chdir=/", "HOME=/root",
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "SYSTEMD_PAGER=", "DEBIAN_FRONTEND=noninteractive", "sh", "-c", script)
}

func (c *container) do(name string, args ...string) result { return c.doWith("", name, args...) }

func (c *container) doWith(stdin, name string, args ...string) result {
	// The journal is asked for when the test's own context has ended.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.t.Context()), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	var out, errs bytes.Buffer
	if stdin != "" {
		cmd.Stdin = strings.NewReader(stdin)
	}
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.WaitDelay = time.Second // what a script left in the background keeps its output open
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) && !errors.Is(err, exec.ErrWaitDelay) {
		fmt.Fprintf(&errs, "%s: %v\n", name, err)
	}
	return result{code: cmd.ProcessState.ExitCode(), out: out.String(), err: errs.String()}
}

// run is try for what must succeed; it returns all that was printed.
func (c *container) run(script string) string {
	c.t.Helper()
	r := c.try(script)
	if r.code != 0 {
		c.t.Fatalf("%s: got exit code %d, want 0:\n%s%s", script, r.code, r.out, r.err)
	}
	return r.out + r.err
}

// write makes a file in the container.
func (c *container) write(path, text string) {
	c.t.Helper()
	path = filepath.Join(c.root, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		c.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		c.t.Fatal(err)
	}
}

// put copies a file of this machine into the container, and returns its path there.
func (c *container) put(from string) string {
	c.t.Helper()
	to := filepath.Join("/root", filepath.Base(from))
	if err := nest.Copy(from, filepath.Join(c.root, to)); err != nil {
		c.t.Fatal(err)
	}
	return to
}

// eventually asks until there is no more error, and fails with the last.
func (c *container) eventually(f func() error) {
	c.t.Helper()
	if err := nest.Until(patience, 50*time.Millisecond, f); err != nil {
		c.t.Fatal(err)
	}
}

// dropIn changes the unit as `systemctl edit` does.
func (c *container) dropIn(text string) {
	c.t.Helper()
	c.write("/etc/systemd/system/holdfast.service.d/test.conf", "[Service]\n"+text+"\n")
	c.run("systemctl daemon-reload")
}

// doctor runs checks, and returns all that they say. Exit code 3 is that one failed.
func (c *container) doctor(wantCode int, checks string) string {
	c.t.Helper()
	r := c.try("holdfast doctor " + checks)
	if r.code != wantCode {
		c.t.Errorf("holdfast doctor %s: got exit code %d, want %d:\n%s%s", checks, r.code, wantCode, r.out, r.err)
	}
	return r.out + r.err
}

// wantSaid fails unless each of the words is in a text.
func (c *container) wantSaid(text string, words ...string) {
	c.t.Helper()
	for _, word := range words {
		if !strings.Contains(text, word) {
			c.t.Errorf("got %q, want %q in it", text, word)
		}
	}
}
