// SPDX-License-Identifier: Apache-2.0

//go:build process && linux

package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/holdfast-mq/holdfast/appliance/admin"
)

const (
	// stopLimit is what a clean stop may take.
	stopLimit = 30 * time.Second
	// patience is for what a loaded machine does in a second.
	patience = 30 * time.Second
)

// listening is the start of every configuration of these tests.
const listening = `node: {data_dir: data}
listen: {client: "127.0.0.1:0", http: "127.0.0.1:0"}
storage: {limit: 256MiB}
`

// shop is one account with a log and a work queue.
const shop = listening + `accounts:
  shop:
    streams:
      ORDERS:
        subjects: ["orders.>"]
        max_bytes: 64MiB
        duplicate_window: 10m
        consumers:
          audit: {ack_wait: 1s}
      JOBS:
        subjects: ["jobs.>"]
        retention: workqueue
        max_bytes: 64MiB
        consumers:
          worker: {ack_wait: 1s}
`

// binary is the program under test: $HOLDFAST_TEST_BINARY, else the command
// that TestMain has put into the path, which is this program.
func binary() (string, error) {
	if path := os.Getenv("HOLDFAST_TEST_BINARY"); path != "" {
		return filepath.Abs(path)
	}
	return exec.LookPath("holdfast")
}

// node is a directory with a configuration, and the process that runs it.
type node struct {
	t    *testing.T
	home string // working directory: holdfast.yaml, and data below it
	data string
	args []string // of run, after the configuration
	env  []string // besides the basic ones
	as   *syscall.Credential
	bin  string // the program, "" for the one under test where it is

	cmd    *exec.Cmd
	log    *output       // stdout and stderr of all runs
	exited chan struct{} // of the present run; closed after Wait
}

func newNode(t *testing.T, config string) *node {
	t.Helper()
	home := t.TempDir()
	n := &node{t: t, home: home, data: filepath.Join(home, "data"), args: []string{"--allow-unsafe-storage"}, log: &output{}}
	n.configure(config)
	t.Cleanup(func() {
		n.kill9()
		n.forgetMemory()
		checkOutput(t, n.log.String())
		if t.Failed() {
			t.Logf("output of the node:\n%s", n.log)
		}
	})
	return n
}

func (n *node) configure(config string) {
	n.t.Helper()
	if err := os.WriteFile(n.file(), []byte(config), 0o600); err != nil {
		n.t.Fatal(err)
	}
}

func (n *node) file() string { return filepath.Join(n.home, "holdfast.yaml") }

// command is the binary in the node's directory, with nothing of the
// environment of the tests that could change what it does.
func (n *node) command(args ...string) *exec.Cmd {
	n.t.Helper()
	path, err := binary()
	if err != nil {
		n.t.Fatal(err)
	}
	cmd := exec.Command(cmp.Or(n.bin, path), args...)
	cmd.Dir = n.home
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + n.home, "GORACE=atexit_sleep_ms=0"}, n.env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: n.as}
	return cmd
}

// launch starts the process and does not wait for anything.
func (n *node) launch() {
	n.t.Helper()
	cmd := n.command(append([]string{"run", "--config", "holdfast.yaml"}, n.args...)...)
	cmd.Stdout, cmd.Stderr = n.log, n.log
	n.launchAs(cmd)
}

func (n *node) launchAs(cmd *exec.Cmd) {
	n.t.Helper()
	if err := cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
	exited := make(chan struct{})
	go func() {
		defer close(exited)
		_ = cmd.Wait() // its state says how it ended
	}()
	n.cmd, n.exited = cmd, exited
}

// start launches the node and waits until it is ready.
func (n *node) start() *node {
	n.t.Helper()
	n.launch()
	n.waitReady()
	return n
}

func (n *node) waitReady() admin.Status {
	n.t.Helper()
	return n.waitStatus("ready", func(s admin.Status) bool { return s.Ready })
}

// waitStatus waits until the node's status is as it should be.
func (n *node) waitStatus(what string, ok func(admin.Status) bool) admin.Status {
	n.t.Helper()
	var s admin.Status
	eventually(n.t, patience, func() error {
		select {
		case <-n.exited:
			n.t.Fatalf("got an end with exit code %d, want the node %s\n%s", n.cmd.ProcessState.ExitCode(), what, n.log)
		default:
		}
		var err error
		if s, err = n.status(); err == nil && !ok(s) {
			err = fmt.Errorf("got phase %s, waiting for %q, want %s", s.Phase, s.Missing, what)
		}
		return err
	})
	return s
}

func (n *node) status() (admin.Status, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return admin.NewClient(filepath.Join(n.data, "admin.sock")).Status(ctx)
}

// address is where a listener of the running node really is.
func (n *node) address(listener string) string {
	n.t.Helper()
	s, err := n.status()
	if err != nil {
		n.t.Fatal(err)
	}
	for _, l := range s.Listeners {
		if l.Name == listener && l.Open {
			return l.Address
		}
	}
	n.t.Fatalf("got listeners %v, want one named %s", s.Listeners, listener)
	return ""
}

func (n *node) signal(s os.Signal) {
	n.t.Helper()
	if err := n.cmd.Process.Signal(s); err != nil {
		n.t.Fatalf("signal %v: %v", s, err)
	}
}

// wait waits for the end of the process and returns its exit code.
func (n *node) wait() int {
	n.t.Helper()
	select {
	case <-n.exited:
	case <-time.After(stopLimit):
		n.t.Fatalf("got no end within %v\n%s", stopLimit, n.log)
	}
	return n.cmd.ProcessState.ExitCode()
}

// stop stops the node, which has to be clean.
func (n *node) stop() {
	n.t.Helper()
	n.signal(syscall.SIGTERM)
	if code := n.wait(); code != exitOK {
		n.t.Fatalf("got exit code %d from a stop, want 0\n%s", code, n.log)
	}
}

// kill9 ends the node as a crash does. A node that is not running stays so.
func (n *node) kill9() {
	if n.cmd == nil {
		return
	}
	_ = n.cmd.Process.Kill() // it may have ended by itself
	<-n.exited
}

// refuses runs the node, which has to end by itself, and returns what it said.
func (n *node) refuses(code int, want ...string) string {
	n.t.Helper()
	before := len(n.log.String())
	n.launch()
	got := n.wait()
	said := n.log.String()[before:]
	if got != code {
		n.t.Errorf("got exit code %d, want %d\n%s", got, code, said)
	}
	for _, w := range want {
		if !strings.Contains(said, w) {
			n.t.Errorf("got %q, want it to contain %q", said, w)
		}
	}
	return said
}

// holdfast runs another verb in the node's directory, without a terminal.
func (n *node) holdfast(args ...string) (code int, out string) {
	n.t.Helper()
	cmd := n.command(args...)
	if args[0] == "nats" {
		// The nats tool has races of its own (server report, v0.5.0).
		cmd.Env = append(cmd.Env, "GORACE=report_bugs=0 atexit_sleep_ms=0")
	}
	b, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		n.t.Fatal(err)
	}
	checkOutput(n.t, string(b))
	return cmd.ProcessState.ExitCode(), string(b)
}

// nats runs a nats command, which has to succeed and say each of want.
func (n *node) nats(want []string, args ...string) string {
	n.t.Helper()
	code, out := n.holdfast(append([]string{"nats", "--config", "holdfast.yaml"}, args...)...)
	if code != exitOK {
		n.t.Errorf("nats %q: got exit code %d, want 0\n%s", args, code, out)
	}
	for _, w := range want {
		if !strings.Contains(out, w) {
			n.t.Errorf("nats %q: got %q, want it to contain %q", args, out, w)
		}
	}
	return out
}

// connect opens a connection of an ordinary client with the credentials that
// the node wrote.
func (n *node) connect(o ...nats.Option) *nats.Conn {
	n.t.Helper()
	nc, err := nats.Connect("nats://"+n.address("client"), append([]nats.Option{
		nats.UserCredentials(filepath.Join(n.data, "creds", "shop", "admin.creds")), nats.NoReconnect(), nats.Timeout(patience),
	}, o...)...)
	if err != nil {
		n.t.Fatalf("connect: %v", err)
	}
	n.t.Cleanup(nc.Close)
	return nc
}

func (n *node) jetStream() jetstream.JetStream {
	n.t.Helper()
	js, err := jetstream.New(n.connect(), jetstream.WithDefaultTimeout(patience))
	if err != nil {
		n.t.Fatal(err)
	}
	return js
}

// get asks the HTTP listener.
func (n *node) get(path string) (status int, body string) {
	n.t.Helper()
	resp, err := http.Get("http://" + n.address("http") + path)
	if err != nil {
		n.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		n.t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// output collects what a process writes.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// seed is the private half of a key.
var seed = regexp.MustCompile(`S[UOA][A-Z2-7]{56}`)

// checkOutput looks for what must never be in any output.
func checkOutput(t *testing.T, out string) {
	t.Helper()
	for _, bad := range []string{"DATA RACE", "panic:", "goroutine 1 ["} {
		if strings.Contains(out, bad) {
			t.Errorf("got %q in the output, want none\n%s", bad, out)
		}
	}
	if seed.MatchString(out) {
		t.Error("got the seed of a key in the output, want none")
	}
}

// eventually asks again until there is no error, and fails with the last one.
func eventually(t *testing.T, within time.Duration, f func() error) {
	t.Helper()
	deadline := time.After(within)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		err := f()
		if err == nil {
			return
		}
		select {
		case <-deadline:
			t.Fatalf("after %v: %v", within, err)
		case <-tick.C:
		}
	}
}

// logged waits until the node's output has the text, and returns its line.
func (n *node) logged(text string) string {
	n.t.Helper()
	var line string
	eventually(n.t, patience, func() error {
		for l := range strings.Lines(n.log.String()) {
			if strings.Contains(l, text) {
				line = strings.TrimSpace(l)
				return nil
			}
		}
		return fmt.Errorf("got no line with %q in the output, want one", text)
	})
	return line
}
