// SPDX-License-Identifier: Apache-2.0

//go:build process && linux

package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/nats-io/nats.go"
)

func replaced(t *testing.T, text, old, with string) string {
	t.Helper()
	if !strings.Contains(text, old) {
		t.Fatalf("got no %q in the configuration, want it", old)
	}
	return strings.Replace(text, old, with, 1)
}

func TestProcessReloadReachesOnlyTheUserItIsAbout(t *testing.T) {
	t.Parallel()
	n := newNode(t, who).start()
	file := n.kept("checkout")
	checkout, leaver := n.mustLogin("checkout", file), n.mustLogin("auditor", n.kept("auditor"))
	others := []*client{n.mustLogin("packer", n.kept("packer")), n.mustLogin("boss", n.kept("boss"))}
	publish(t, checkout.js, "orders.a", "before")

	text := replaced(t, who, "checkout: {role: producer, streams: [ORDERS]}", "checkout: {role: observer}\n      newcomer: {role: producer, streams: [ORDERS]}")
	n.reload(replaced(t, text, "      auditor: {role: observer}\n", ""))

	// The role is another, the credentials are the same.
	eventually(t, patience, func() error {
		if checkout.reconnects.Load() == 0 || !checkout.IsConnected() {
			return fmt.Errorf("got %d reconnects, want the changed user back", checkout.reconnects.Load())
		}
		return nil
	})
	checkout.waitRefused(t, "orders.a")
	if s, err := checkout.js.Stream(t.Context(), "ORDERS"); err != nil || s.CachedInfo().State.Msgs != 1 {
		t.Errorf("got %v, want the observer to see one message", err)
	}
	if !bytes.Equal(read(t, file), read(t, n.credsFile("checkout"))) {
		t.Error("got other credentials after a change of the role, want the same")
	}
	// Who is not in the file any more is out, and its file is gone.
	leaver.waitClosed(t)
	if _, err := os.Stat(n.credsFile("auditor")); !os.IsNotExist(err) {
		t.Errorf("got %v for the credentials of the user who left, want none", err)
	}
	n.creds(exitFailed, []string{"no such user", "there are: boss, checkout, newcomer, packer"}, "show", "shop/auditor")
	// Who is new is in.
	publish(t, n.mustLogin("newcomer", n.credsFile("newcomer")).js, "orders.a", "after")
	// And nobody else has noticed.
	for _, c := range others {
		if err := c.Flush(); err != nil || c.disconnects.Load() != 0 || c.refused.String() != "" {
			t.Errorf("%s: got %v, %d interruptions and refusals %q, want none", c.Opts.InboxPrefix, err, c.disconnects.Load(), c.refused.String())
		}
	}
	n.kill9()
	n.start()
	n.mustLogin("checkout", file).waitRefused(t, "orders.a")
}

func TestProcessUserWhoLeftAndCameBackGetsNewCredentials(t *testing.T) {
	t.Parallel()
	n := newNode(t, who).start()
	file := n.kept("auditor")
	n.reload(replaced(t, who, "      auditor: {role: observer}\n", ""))
	n.keptOut("auditor", file)
	// The old file again is a stale one, which gives nobody access.
	n.configure(who)
	n.signal(syscall.SIGHUP)
	n.logged("was applied since")
	if _, err := os.Stat(n.credsFile("auditor")); !os.IsNotExist(err) {
		t.Errorf("got %v, want no credentials by a stale file", err)
	}
	if code, out := n.holdfast("apply", "--config", "holdfast.yaml", "--yes", "--rollback"); code != exitOK {
		t.Fatalf("got exit code %d, want 0\n%s", code, out)
	}
	n.keptOut("auditor", file)
	n.mustLogin("auditor", n.credsFile("auditor"))
}

func TestProcessKeepsTheOldConfigurationWhenTheNewOneIsWrong(t *testing.T) {
	t.Parallel()
	n := newNode(t, who).start()
	metric := func(want string) {
		t.Helper()
		eventually(t, patience, func() error {
			if _, body := n.get("/metrics"); !strings.Contains(body, "\nholdfast_config_last_reload_successful "+want+"\n") {
				return fmt.Errorf("got no holdfast_config_last_reload_successful %s, want it", want)
			}
			return nil
		})
	}
	metric("1")
	checkout := n.mustLogin("checkout", n.kept("checkout"), nats.NoReconnect())
	n.configure(replaced(t, who, "role: producer", "role: producr") + "  depot:\n    streams: {X: {max_byts: 1MiB}}\n")
	n.signal(syscall.SIGHUP)
	metric("0")
	said := n.logged("producr")
	for _, want := range []string{"level=ERROR", "not reloaded", "code=HF1", "where=holdfast.yaml:15:24", "fix="} {
		if !strings.Contains(said, want) {
			t.Errorf("got %q, want it to contain %q", said, want)
		}
	}
	n.logged("max_byts")
	n.signal(syscall.SIGHUP)
	publish(t, checkout.js, "orders.a", "still the old configuration")

	n.reload(replaced(t, who, `http: "127.0.0.1:0"`, `http: "127.0.0.1:0", advertise: [queue.example]`))
	metric("1")
	if said := n.logged("a restart is needed"); !strings.Contains(said, "what=listen") {
		t.Errorf("got %q, want it to name listen", said)
	}
	if checkout.disconnects.Load() != 0 {
		t.Errorf("got %d interruptions, want none", checkout.disconnects.Load())
	}
	// A file that a start would refuse is refused by the start as well.
	n.kill9()
	n.configure(who + "nonsense: 1\n")
	n.refuses(exitPermanent, "nonsense")
}
