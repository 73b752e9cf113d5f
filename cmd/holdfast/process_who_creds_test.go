// SPDX-License-Identifier: Apache-2.0

//go:build process && linux

package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/holdfast-mq/holdfast/appliance/admin"
)

func TestProcessShowsCredentialsAndWhatGoesWithThem(t *testing.T) {
	t.Parallel()
	n := newNode(t, who).start()
	list := n.creds(exitOK, []string{"USER", "shop/auditor", "observer", "active"}, "list")
	checkOutput(t, list)
	var users []admin.User
	if err := json.Unmarshal([]byte(n.creds(exitOK, nil, "list", "-o", "json")), &users); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, u := range users {
		got = append(got, u.Account+"/"+u.User+" "+u.Role+" "+u.State)
	}
	want := []string{"shop/auditor observer active", "shop/boss admin active", "shop/checkout producer active", "shop/packer worker active"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("got other users (-want +got):\n%s", diff)
	}

	creds := string(read(t, n.credsFile("packer")))
	if n.creds(exitOK, nil, "show", "shop/packer") != creds || n.creds(exitOK, nil, "export", "shop/packer") != creds {
		t.Error("got other credentials than those in the data directory, want the same")
	}
	url := "nats://" + n.address("client")
	for _, want := range []admin.Login{
		{User: "packer", Role: "worker", Consumers: []string{"ORDERS/packing"}},
		{User: "checkout", Role: "producer", Subjects: []string{"orders.>"}},
		{User: "boss", Role: "admin", Subjects: []string{"orders.>"}},
		{User: "auditor", Role: "observer"},
	} {
		want.Account, want.URL, want.LocalURL, want.InboxPrefix = "shop", url, url, "_inbox."+want.User
		l := n.loginOf(want.User)
		if diff := cmp.Diff(want, l, cmpopts.IgnoreFields(l, "Creds")); diff != "" {
			t.Errorf("%s: got other words (-want +got):\n%s", want.User, diff)
		}
		if l.Creds != string(read(t, n.credsFile(want.User))) {
			t.Errorf("%s: got other credentials in the JSON, want those in the data directory", want.User)
		}
	}

	n.creds(exitFailed, []string{`no such user`, "hint: there are: auditor, boss, checkout, packer"}, "show", "shop/nobody")
	n.creds(exitFailed, []string{"hint: there are: shop"}, "show", "depot/packer")
	for _, word := range []string{"packer", "shop/", "/packer", "a/b/c"} {
		for _, verb := range []string{"show", "export", "rotate", "revoke"} {
			n.creds(exitUsage, []string{"is not a user", "write ACCOUNT/USER"}, verb, word)
		}
	}
	n.creds(exitUsage, []string{"there is no snippet", "go, node, python, java, dotnet, c, cli"}, "show", "shop/packer", "--snippet", "cobol")
	n.creds(exitUsage, []string{"negative"}, "rotate", "shop/packer", "--overlap=-1h", "--yes")
	n.creds(exitUsage, []string{`"code": "HF`, `"fix"`}, "show", "packer", "-o", "json")
	if code, out, errs := n.secretly("ca"); code != exitFailed || out != "" || !strings.Contains(errs, "hint:") {
		t.Errorf("ca: got exit code %d, %q and %q, want 1 and a hint: there is no TLS", code, out, errs)
	}
	n.stop()
	n.creds(exitFailed, []string{"no node is running"}, "list")
}

func TestProcessForgetsCredentialsThatWereHandedOut(t *testing.T) {
	t.Parallel()
	n := newNode(t, who).start()
	file := n.kept("packer")
	creds := n.creds(exitOK, []string{"forgotten here", "creds rotate shop/packer"}, "export", "shop/packer", "--forget")
	if creds != string(read(t, file)) {
		t.Error("got other credentials from the export, want the user's")
	}
	if _, err := os.Stat(n.credsFile("packer")); !os.IsNotExist(err) {
		t.Errorf("got %v for the credentials file, want it gone", err)
	}
	if seed := seed.FindString(creds); seed == "" || strings.Contains(string(read(t, n.data+"/identity.json")), seed) {
		t.Error("got the seed in identity.json, want it forgotten")
	}
	n.mustLogin("packer", file)
	for _, verb := range []string{"show", "export"} {
		n.creds(exitFailed, []string{"handed out", "hint:", "creds rotate shop/packer"}, verb, "shop/packer")
	}
	n.creds(exitOK, []string{"shop/packer    worker    handed out 2"}, "list")

	n.kill9()
	n.start()
	n.mustLogin("packer", file)
	n.creds(exitOK, []string{"new credentials", "no longer work"}, "rotate", "shop/packer", "--yes")
	n.keptOut("packer", file)
	n.mustLogin("packer", n.credsFile("packer"))
}

func TestProcessCutsOffOnlyWhenSomebodyMeansIt(t *testing.T) {
	t.Parallel()
	n := newNode(t, who).start()
	c := n.mustLogin("packer", n.kept("packer"))
	n.creds(exitUsage, []string{"nobody is there to answer", "hint: add --yes"}, "revoke", "shop/packer")
	n.creds(exitUsage, []string{"cut off whoever uses the old ones now?", "nobody is there to answer", "hint: add --yes"}, "rotate", "shop/packer")
	n.creds(exitUsage, []string{"cut off whoever uses the old ones in 24h?", "hint: add --yes"}, "rotate", "shop/packer", "--overlap", "24h")
	n.creds(exitFailed, []string{"no such user"}, "revoke", "shop/nobody", "--yes")
	n.creds(exitOK, []string{"shop/packer    worker    active"}, "list")
	if err := c.Flush(); err != nil || c.disconnects.Load() != 0 {
		t.Errorf("got %v and %d interruptions, want the user untouched", err, c.disconnects.Load())
	}
}
