// SPDX-License-Identifier: Apache-2.0

//go:build process && linux

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/holdfast-mq/holdfast/appliance/admin"
)

// refusedFor waits until the status counts refusals of a reason.
func (n *node) refusedFor(reason, user string, atLeast uint64) admin.Refusal {
	n.t.Helper()
	var found admin.Refusal
	eventually(n.t, patience, func() error {
		s, err := n.status()
		if err != nil {
			return err
		}
		for _, r := range s.Refusals {
			if r.Reason == reason && r.User == user && r.Count >= atLeast {
				found = r
				return nil
			}
		}
		return fmt.Errorf("got refusals %+v, want %d or more for %s of %q", s.Refusals, atLeast, reason, user)
	})
	return found
}

func TestProcessTellsWhoWasRefusedWhat(t *testing.T) {
	t.Parallel()
	n := newNode(t, replaced(t, who, "    users:\n", "    limits: {connections: 3}\n    users:\n")).start()
	gone := n.kept("auditor")
	n.creds(exitOK, nil, "revoke", "shop/auditor", "--yes")
	n.keptOut("auditor", gone)
	checkout := n.mustLogin("checkout", n.kept("checkout"))
	checkout.waitRefused(t, "depot.x")
	packer := n.mustLogin("packer", n.kept("packer"))
	if _, err := packer.Subscribe("orders.>", func(*nats.Msg) {}); err != nil {
		t.Fatal(err)
	}
	packer.waitRefused(t, "orders.mine")
	if !strings.Contains(packer.refused.String(), `Subscription to "orders.>"`) {
		t.Errorf("got refusals %q, want one of the subscription", packer.refused.String())
	}
	if _, err := nats.Connect("nats://"+n.address("client"), nats.Timeout(patience)); !errors.Is(err, nats.ErrAuthorization) {
		t.Errorf("got %v without credentials, want an authorization error", err)
	}
	n.mustLogin("boss", n.kept("boss"))
	if _, err := n.login("boss", n.kept("boss"), nats.NoReconnect()); err == nil {
		t.Error("got one connection more than the account may have, want it refused")
	}

	for _, want := range []admin.Refusal{
		{Account: "shop", User: "checkout", Reason: "publish", Example: "depot.x"},
		{Account: "shop", User: "packer", Reason: "subscribe", Example: "orders.>"},
		{Account: "shop", User: "packer", Reason: "publish", Example: "orders.mine"},
		{Account: "shop", User: "auditor", Reason: "authentication", Example: "127.0.0.1"},
		{Reason: "authentication", Example: "127.0.0.1"},
		{Account: "shop", User: "boss", Reason: "account_connections", Example: "127.0.0.1"},
	} {
		got := n.refusedFor(want.Reason, want.User, 1)
		if got.Account != want.Account || !strings.Contains(got.Example, want.Example) || time.Since(got.Last) > time.Minute {
			t.Errorf("got %+v, want %+v", got, want)
		}
		sample := fmt.Sprintf(`holdfast_client_refusals_total{account=%q,reason=%q,user=%q} `, want.Account, want.Reason, want.User)
		if _, body := n.get("/metrics"); !strings.Contains(body, sample) {
			t.Errorf("got no metric %s, want one", sample)
		}
		line := "reason=" + want.Reason
		if want.User != "" {
			line = "user=" + want.User + " " + line
		}
		n.logged(line)
	}
	_, text := n.holdfast("status", "--config", "holdfast.yaml")
	if !regexp.MustCompile(`(?m)^shop/checkout +publish +\d+ +.* +depot\.x$`).MatchString(text) {
		t.Errorf("got %q, want a line for checkout", text)
	}
	code, out := n.holdfast("status", "--config", "holdfast.yaml", "-o", "json")
	var s admin.Status
	if err := json.Unmarshal([]byte(out), &s); err != nil || code != exitOK || len(s.Refusals) < 6 {
		t.Errorf("got exit code %d, %v and refusals %+v, want all of them", code, err, s.Refusals)
	}
}

// TestProcessSecretsAreNowhere looks for a canary, and for the seed of any key,
// in everything that a node and its commands write and show.
func TestProcessSecretsAreNowhere(t *testing.T) {
	t.Parallel()
	n := newNodeBeyond(t).start()
	ca := n.handedOutCA()
	var seen output
	look := func(what, text string) {
		t.Helper()
		fmt.Fprintln(&seen, text)
		if strings.Contains(text, openSesame) || seed.MatchString(text) {
			t.Errorf("got a secret in %s, want none", what)
		}
	}
	process := func(pid int) {
		t.Helper()
		for _, name := range []string{"cmdline", "environ", "comm"} {
			look(name, string(read(t, filepath.Join("/proc", strconv.Itoa(pid), name))))
		}
	}
	tool := n.command("nats", "--config", "holdfast.yaml", "--user", "boss", "sub", "quiet.>")
	tool.Stdout, tool.Stderr = &seen, &seen
	if err := tool.Start(); err != nil {
		t.Fatal(err)
	}
	n.waitStatus("with a subscriber", func(s admin.Status) bool { return s.Traffic.Connections == 1 })
	process(n.cmd.Process.Pid)
	process(tool.Process.Pid)
	if err := tool.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = tool.Wait() // killed

	n.provoke(t, ca)
	for _, args := range [][]string{
		{"creds", "list"}, {"creds", "list", "-o", "json"}, {"creds", "rotate", "shop/packer", "--overlap", "1h", "--yes"}, {"creds", "rotate", "shop/packer"}, {"creds", "revoke", "shop/auditor", "--yes"},
		{"creds", "show", "shop/nobody"}, {"creds", "show", "shop/auditor", "-o", "json"}, {"creds", "revoke", "shop/boss"}, {"ca"}, {"ca", "-o", "json"},
		{"status"}, {"status", "-o", "json"}, {"check", "holdfast.yaml"}, {"check", "holdfast.yaml", "-o", "json"}, {"run"}, {"version"},
		{"creds", "show", "shop/boss", "--snippet", "go"}, {"creds", "show", "shop/boss", "--snippet", "cli"},
		{"nats", "account", "info"}, {"nats", "--trace", "stream", "ls"}, {"nats", "server", "report", "jetstream"},
	} {
		at := append([]string{"--config", "holdfast.yaml"}, args...)
		if args[0] == "nats" {
			at = append([]string{"nats", "--config", "holdfast.yaml"}, args[1:]...)
		}
		_, out := n.holdfast(at...)
		look(strings.Join(args, " "), out)
	}
	n.reload(beyond(t, who) + "      late: {role: observer}\n")
	n.write("token", nil) // a secret that can't be read, told of without it
	_, out := n.holdfast("check", "holdfast.yaml")
	look("check", out)
	n.stop()
	look("log", n.log.String())

	// What is written to disk is where it belongs, and for the owner only.
	err := filepath.WalkDir(n.home, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		text := read(t, path)
		name, err := filepath.Rel(n.data, path)
		own := name == "identity.json" || strings.HasPrefix(name, "creds/")
		switch {
		case strings.Contains(string(text), openSesame):
			t.Errorf("got the token in %s, want it nowhere", path)
		case seed.Match(text) && !own:
			t.Errorf("got a seed in %s, want it in the identity and the credentials only", path)
		case (own || strings.Contains(string(text), "PRIVATE KEY")) && info.Mode().Perm() != 0o600:
			t.Errorf("got mode %v of %s, want 0600", info.Mode().Perm(), path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	if !strings.Contains(seen.String(), "shop/checkout") || !strings.Contains(seen.String(), "BEGIN CERTIFICATE") {
		t.Error("got nothing of the commands, want what they said looked at")
	}
}

// provoke makes the node log refusals: of a permission, and of a login whose
// seed is of another user.
func (n *node) provoke(t *testing.T, ca string) {
	t.Helper()
	n.mustLogin("auditor", n.kept("auditor"), nats.RootCAs(ca)).waitRefused(t, "orders.x")
	mixed := n.kept("packer")
	other := seed.FindString(string(read(t, n.credsFile("checkout"))))
	if err := os.WriteFile(mixed, seed.ReplaceAll(read(t, mixed), []byte(other)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := n.login("packer", mixed, nats.RootCAs(ca), nats.NoReconnect()); !errors.Is(err, nats.ErrAuthorization) {
		t.Errorf("got %v for the seed of somebody else, want an authorization error", err)
	}
}
