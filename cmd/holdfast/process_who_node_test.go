// SPDX-License-Identifier: Apache-2.0

//go:build process && linux

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/holdfast-mq/holdfast/appliance/admin"
)

// who is an account with a user of each role.
const who = listening + `accounts:
  shop:
    streams:
      ORDERS:
        subjects: ["orders.>"]
        max_bytes: 64MiB
        duplicate_window: 10m
        consumers:
          packing: {ack_wait: 1s}
    users:
      boss: {role: admin}
      checkout: {role: producer, streams: [ORDERS]}
      packer: {role: worker, consumers: [ORDERS/packing]}
      auditor: {role: observer}
`

// secretly runs a verb that may print secrets to stdout, and to stdout only.
func (n *node) secretly(args ...string) (code int, stdout, stderr string) {
	n.t.Helper()
	cmd := n.command(append([]string{"--config", "holdfast.yaml"}, args...)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		n.t.Fatal(err)
	}
	checkOutput(n.t, errs.String())
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// creds runs a creds verb that has to end with a code and to say each of want.
func (n *node) creds(code int, want []string, args ...string) (stdout string) {
	n.t.Helper()
	got, out, errs := n.secretly(append([]string{"creds"}, args...)...)
	if got != code {
		n.t.Errorf("creds %q: got exit code %d, want %d\n%s", args, got, code, errs)
	}
	for _, w := range want {
		if !strings.Contains(out+errs, w) {
			n.t.Errorf("creds %q: got other words, want %q\n%s", args, w, errs)
		}
	}
	return out
}

func (n *node) loginOf(user string) admin.Login {
	n.t.Helper()
	var l admin.Login
	if err := json.Unmarshal([]byte(n.creds(exitOK, nil, "show", "shop/"+user, "--output", "json")), &l); err != nil {
		n.t.Fatal(err)
	}
	return l
}

func (n *node) credsFile(user string) string {
	return filepath.Join(n.data, "creds", "shop", user+".creds")
}

// kept copies a user's credentials to where a client would have them.
func (n *node) kept(user string) string {
	n.t.Helper()
	file := filepath.Join(n.t.TempDir(), user+".creds")
	if err := os.WriteFile(file, read(n.t, n.credsFile(user)), 0o600); err != nil {
		n.t.Fatal(err)
	}
	return file
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// client is a connection that counts its interruptions and keeps what it was
// refused. It reconnects by itself, as clients do.
type client struct {
	*nats.Conn
	js          jetstream.JetStream
	disconnects atomic.Int32
	reconnects  atomic.Int32
	refused     output
}

func (n *node) login(user, file string, o ...nats.Option) (*client, error) {
	c := &client{}
	var err error
	c.Conn, err = nats.Connect(n.loginOf("boss").LocalURL, append([]nats.Option{
		nats.UserCredentials(file), nats.CustomInboxPrefix("_inbox." + user), nats.Timeout(patience),
		nats.MaxReconnects(-1), nats.ReconnectWait(20 * time.Millisecond), nats.ReconnectJitter(0, 0),
		nats.DisconnectErrHandler(func(*nats.Conn, error) { c.disconnects.Add(1) }),
		nats.ReconnectHandler(func(*nats.Conn) { c.reconnects.Add(1) }),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { fmt.Fprintln(&c.refused, err) }),
	}, o...)...)
	if err != nil {
		return nil, err
	}
	n.t.Cleanup(c.Close)
	c.js, err = jetstream.New(c.Conn, jetstream.WithDefaultTimeout(patience))
	return c, err
}

func (n *node) mustLogin(user, file string, o ...nats.Option) *client {
	n.t.Helper()
	c, err := n.login(user, file, o...)
	if err != nil {
		n.t.Fatalf("log in as %s: %v", user, err)
	}
	return c
}

// keptOut checks that credentials are not taken.
func (n *node) keptOut(user, file string) {
	n.t.Helper()
	if _, err := n.login(user, file, nats.NoReconnect()); !errors.Is(err, nats.ErrAuthorization) {
		n.t.Errorf("got %v for %s, want an authorization error", err, user)
	}
}

// waitClosed waits until the node has cut a client off for good.
func (c *client) waitClosed(t *testing.T) {
	t.Helper()
	eventually(t, patience, func() error {
		if !c.IsClosed() {
			return fmt.Errorf("got a connection that is %v, want it closed", c.Status())
		}
		return nil
	})
}

// waitRefused sends something until the node has refused it.
func (c *client) waitRefused(t *testing.T, subject string) {
	t.Helper()
	eventually(t, patience, func() error {
		if err := errors.Join(c.Publish(subject, nil), c.Flush()); err != nil {
			return err
		}
		if !strings.Contains(c.refused.String(), subject) {
			return fmt.Errorf("got refusals %q, want one of %s", c.refused.String(), subject)
		}
		return nil
	})
}

// reload changes the file and asks the node to read it, which it must take.
func (n *node) reload(config string) {
	n.t.Helper()
	before := strings.Count(n.log.String(), `msg="configuration reloaded"`)
	n.configure(config)
	n.signal(syscall.SIGHUP)
	eventually(n.t, patience, func() error {
		if strings.Count(n.log.String(), `msg="configuration reloaded"`) == before {
			return errors.New("got no reload, want one")
		}
		return nil
	})
}
