// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/choria-io/fisk"
	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/natscli/options"

	"github.com/holdfast-mq/holdfast/appliance/admin"
)

func TestOwnFlagsAreTakenOffTheFrontOnly(t *testing.T) {
	for _, c := range []struct {
		args string
		own  natsArgs
		rest string
	}{
		{"", natsArgs{}, ""},
		{"stream ls", natsArgs{}, "stream ls"},
		{"--account shop stream ls", natsArgs{account: "shop"}, "stream ls"},
		{"--account=shop --user=packer stream ls", natsArgs{account: "shop", user: "packer"}, "stream ls"},
		{"-c x.yaml --data-dir d pub a b", natsArgs{config: "x.yaml", dataDir: "d"}, "pub a b"},
		{"--config=a=b.yaml pub a b", natsArgs{config: "a=b.yaml"}, "pub a b"},
		{"stream ls --account shop", natsArgs{}, "stream ls --account shop"},
		{"--trace --account shop", natsArgs{}, "--trace --account shop"},
		{"--account= stream ls", natsArgs{}, "stream ls"},
	} {
		own, rest, err := splitNATSArgs(strings.Fields(c.args))
		if err != nil || own != c.own || strings.Join(rest, " ") != c.rest {
			t.Errorf("%q: got %+v, %q, %v, want %+v, %q", c.args, own, rest, err, c.own, c.rest)
		}
	}
	if _, _, err := splitNATSArgs([]string{"--user"}); err == nil {
		t.Error("got no error for a flag without its value, want one")
	}
}

// natsApp is the nats tool with its output thrown away.
func natsApp(t *testing.T) *fisk.Application {
	t.Helper()
	app, _, err := newNATSApp(stdio{in: os.Stdin, out: &bytes.Buffer{}, err: &bytes.Buffer{}})
	if err != nil {
		t.Fatal(err)
	}
	return app
}

func TestSelectedFindsTheCommandBehindItsAliases(t *testing.T) {
	for args, want := range map[string]string{
		"stream ls":                    "stream ls",
		"stream list":                  "stream ls",
		"str ls":                       "stream ls",
		"s add ORDERS":                 "stream add",
		"stream create ORDERS":         "stream add",
		"con add ORDERS worker --pull": "consumer add",
		"consumer next ORDERS worker":  "consumer next",
		"publish a b":                  "publish",
		"pub a b":                      "publish",
		"server report jetstream":      "server report jetstream",
		"srv rep js":                   "server report jetstream",
		"bench js pub sync x":          "bench js pub sync",
		"pub a -- --help":              "publish",
		"":                             "",
		"help stream":                  "",
		"stream ls --help":             "",
		"stream -h":                    "",
		"--help-long":                  "",
		"nonsense":                     "",
		"stream ls --nonsense":         "",
	} {
		got := ""
		if c := selected(natsApp(t), strings.Fields(args)); c != nil {
			got = c.FullCommand
		}
		if got != want {
			t.Errorf("%q: got %q, want %q", args, got, want)
		}
	}
}

func TestServerCommandsUseTheSystemAccount(t *testing.T) {
	for args, want := range map[string]bool{
		"server report jetstream":   true,
		"srv rep js":                true,
		"server ls":                 true,
		"server ping":               true,
		"server info":               true,
		"server check meta":         true,
		"server check stream":       false,
		"server check connection":   false,
		"stream ls":                 false,
		"account info":              false,
		"pub a b":                   false,
		"bench pub x":               false,
		"consumer next ORDERS work": false,
	} {
		c := selected(natsApp(t), strings.Fields(args))
		if c == nil {
			t.Errorf("%q: got no command, want one", args)
		} else if got := needsSystem(c); got != want {
			t.Errorf("%q: got system account %t, want %t", args, got, want)
		}
	}
}

func TestDefaultsAnswerWhereNobodyIsThere(t *testing.T) {
	for _, c := range []struct {
		command, args string
		terminal      bool
		want          string
	}{
		{"stream add", "stream add X", false, "stream add X --defaults"},
		{"consumer add", "con add X y", false, "con add X y --defaults"},
		{"stream add", "stream add X --defaults", false, "stream add X --defaults"},
		{"stream add", "stream add X", true, "stream add X"},
		{"stream edit", "stream edit X", false, "stream edit X"},
		{"pub", "pub a b", false, "pub a b"},
	} {
		args := strings.Fields(c.args)
		before := slices.Clone(args)
		if got := strings.Join(withDefaults(c.command, args, c.terminal), " "); got != c.want {
			t.Errorf("%q, terminal %t: got %q, want %q", c.args, c.terminal, got, c.want)
		}
		if diff := cmp.Diff(before, args); diff != "" {
			t.Errorf("%q: got the arguments changed in place:\n%s", c.args, diff)
		}
	}
}

func TestConnectAsRefusesWhatIsNoCredentialsFile(t *testing.T) {
	for _, creds := range []string{"", "-----BEGIN NATS USER JWT-----\nx\n"} {
		if _, err := connectAs(&options.Options{}, admin.Login{URL: "nats://127.0.0.1:1", Creds: creds}); err == nil {
			t.Errorf("%q: got no error, want one", creds)
		}
	}
}
