// SPDX-License-Identifier: Apache-2.0

//go:build system && linux

package systemtest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// runAsImage runs a command as process 1 of its own network and processes, as
// container engines do, uses the queue and stops it.
func (c *container) runAsImage(user string, entry []string) {
	c.t.Helper()
	args := []string{"--net", "--pid", "--mount", "--fork", "--kill-child", "sh", "-ec",
		`mount -t proc proc "$ROOT/proc"; ip link set lo up; exec chroot --userspec="$NAME" "$ROOT" "$@"`, "sh"}
	cmd := exec.Command("unshare", append(args, entry...)...)
	cmd.Env = []string{"ROOT=" + c.root, "NAME=" + user, "PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
	log, err := os.Create(filepath.Join(c.dir, "image.log"))
	if err != nil {
		c.t.Fatal(err)
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	var first int
	defer func() {
		if first > 0 {
			_ = syscall.Kill(first, syscall.SIGKILL)
		}
		_ = cmd.Wait()
		if text, err := os.ReadFile(log.Name()); c.t.Failed() {
			c.t.Logf("%v: %s", err, bytes.TrimSpace(text))
		}
	}()
	holdfast := func(args ...string) result {
		return c.do("nsenter", append([]string{"--target", strconv.Itoa(first), "--net", "--pid", "--mount", "--root", "--wd=" + filepath.Join(c.root),
			"--", "/usr/bin/holdfast"}, args...)...)
	}
	c.eventually(func() error {
		pids, err := childrenOf(cmd.Process.Pid)
		if err != nil || len(pids) != 1 {
			return fmt.Errorf("look for the first process: %v, %w", pids, err)
		}
		first = pids[0]
		if r := holdfast("status", "--data-dir", data); r.code != 0 {
			return fmt.Errorf("status: exit code %d: %s%s", r.code, r.out, r.err)
		}
		return nil
	})
	if r := holdfast("nats", "pub", "jobs.hello", "first-job"); r.code != 0 || !strings.Contains(r.out+r.err, "Published") {
		c.t.Errorf("publish: got exit code %d: %s%s", r.code, r.out, r.err)
	}
	if err := syscall.Kill(first, syscall.SIGTERM); err != nil {
		c.t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		c.t.Errorf("stop: got %v, want exit code 0", err)
	}
	first = 0
}
