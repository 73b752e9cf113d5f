// SPDX-License-Identifier: Apache-2.0

//go:build process && linux

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-mq/holdfast/appliance/admin"
)

// invite makes a token on a node.
func (n *node) invite(args ...string) admin.Invitation {
	n.t.Helper()
	cmd := n.command(append([]string{"cluster", "invite", "--config", "holdfast.yaml", "--output", "json"}, args...)...)
	out, err := cmd.Output()
	var i admin.Invitation
	if err != nil || json.Unmarshal(out, &i) != nil || i.Token == "" {
		n.t.Fatalf("cluster invite %q: got %v and %q, want a token", args, err, out)
	}
	return i
}

// joinBy runs join with a token on stdin.
func (n *node) joinBy(token string) (code int, out string) {
	n.t.Helper()
	cmd := n.command("cluster", "join", "--config", "holdfast.yaml", "--yes")
	cmd.Stdin = strings.NewReader(token + "\n")
	b, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		n.t.Fatal(err)
	}
	checkOutput(n.t, string(b))
	if strings.Contains(string(b), sharedSecret) || strings.Contains(string(b), token) {
		n.t.Errorf("got a secret in %q", b)
	}
	return cmd.ProcessState.ExitCode(), string(b)
}

// peersOf are the addresses of nodes that were configured by newCluster.
func peersOf(t *testing.T, n *node) []string {
	t.Helper()
	text, err := os.ReadFile(n.file())
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), `peers: ["`)
	list, _, _ := strings.Cut(rest, `"]`)
	peers := strings.Split(list, `", "`)
	if len(peers) != 3 {
		t.Fatalf("got peers %q, want three", peers)
	}
	return peers
}

// TestProcessNodesJoinByToken has the block on the first node alone. The second has a file
// of its own, the third nothing at all.
func TestProcessNodesJoinByToken(t *testing.T) {
	t.Parallel()
	nodes := newCluster(t, shop)
	peers := peersOf(t, nodes[0])
	nodes[1].configure(strings.Replace(shop, "node: {", "node: {name: n2, ", 1))
	for i, n := range nodes[1:] {
		if err := os.Remove(filepath.Join(n.home, "cluster.secret")); err != nil {
			t.Fatal(err)
		}
		if i == 1 {
			if err := os.Remove(n.file()); err != nil {
				t.Fatal(err)
			}
		}
	}
	nodes[0].launch()
	nodes[0].logged("waiting for the other nodes")
	var tokens []string
	for i, n := range nodes[1:] {
		token := nodes[0].invite("--for", peers[i+1])
		tokens = append(tokens, token.Token)
		if code, out := n.joinBy(token.Token); code != exitOK || !strings.Contains(out, "next: ") {
			t.Fatalf("got exit code %d and %q, want that it is set up", code, out)
		}
		secret := filepath.Join(n.home, "cluster.secret")
		info, err := os.Stat(secret)
		if err != nil || info.Mode().Perm()&0o027 != 0 {
			t.Errorf("got %v and %v, want a secret for the service alone", info, err)
		}
		if text, err := os.ReadFile(secret); err != nil || strings.TrimSpace(string(text)) != sharedSecret {
			t.Errorf("got %v, want the secret of the cluster", err)
		}
		if _, err := os.Stat(filepath.Join(n.home, "cluster-join.key")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("got %v, want the key of the token gone", err)
		}
		n.launch()
	}
	waitAllReady(t, nodes...)
	for _, n := range nodes {
		n.waitCluster()
	}
	for _, m := range nodes[1].cluster(exitOK).Nodes {
		if !m.Current || !m.Connected || m.OtherFile || m.Problem != "" {
			t.Errorf("got %+v, want it to have everything and the same file", m)
		}
	}
	publish(t, nodes[2].jetStream(), "orders.a", "from the third")
	eventually(t, patience, func() error {
		s, err := nodes[1].jetStream().Stream(t.Context(), "ORDERS")
		if err != nil {
			return err
		}
		m, err := s.GetMsg(t.Context(), 1)
		if err != nil {
			return err
		}
		if got := string(m.Data); got != "from the third" {
			return fmt.Errorf("got %q, want the message", got)
		}
		return nil
	})

	// Again where it was done changes nothing; elsewhere the token is used up.
	if code, out := nodes[2].joinBy(tokens[1]); code != exitOK || !strings.Contains(out, "nothing was changed") {
		t.Errorf("got exit code %d and %q, want that nothing was changed", code, out)
	}
	other := newNode(t, shop)
	if code, out := other.joinBy(tokens[1]); code != exitFailed || !strings.Contains(out, "the token was used at") {
		t.Errorf("got exit code %d and %q, want that the token was used", code, out)
	}
	nodes[0].logged("a machine with a token was turned away")
	if code, out := nodes[0].holdfast("cluster", "invite", "--config", "holdfast.yaml"); code != exitFailed || !strings.Contains(out, "all nodes of the cluster are there already") {
		t.Errorf("got exit code %d and %q, want no token", code, out)
	}

	// A machine that lost everything takes its place again, with a token of a cluster that
	// goes on meanwhile.
	nodes[1].kill9()
	if err := errors.Join(os.RemoveAll(nodes[1].data), os.Remove(filepath.Join(nodes[1].home, "cluster.secret"))); err != nil {
		t.Fatal(err)
	}
	nodes[1].configure(strings.Replace(shop, "node: {", "node: {name: n2, ", 1))
	var again string
	eventually(t, patience, func() error {
		code, out := nodes[2].holdfast("cluster", "invite", "--config", "holdfast.yaml", "--for", peers[1])
		if code != exitOK {
			return fmt.Errorf("got exit code %d and %q, want a token", code, out)
		}
		again, _, _ = strings.Cut(out, "\n")
		return nil
	})
	if code, out := nodes[1].joinBy(again); code != exitOK {
		t.Fatalf("got exit code %d and %q, want that it is set up", code, out)
	}
	nodes[1].launch()
	waitAllReady(t, nodes...)
	if info, err := nodes[1].jetStream().Stream(t.Context(), "ORDERS"); err != nil || info.CachedInfo().State.Msgs != 1 {
		t.Errorf("got %v and %v, want the message", info, err)
	}
	for _, n := range nodes {
		if text := n.log.String(); strings.Contains(text, sharedSecret) || strings.Contains(text, tokens[0]) || strings.Contains(text, tokens[1]) {
			t.Error("a secret is in the log")
		}
	}
}

// TestProcessJoinThatIsKilledGoesOn kills join earlier and later, and runs it again with
// the same token.
func TestProcessJoinThatIsKilledGoesOn(t *testing.T) {
	t.Parallel()
	nodes := newCluster(t, shop)
	peers := peersOf(t, nodes[0])
	nodes[0].launch()
	nodes[0].logged("waiting for the other nodes")
	cut := 0
	for round := range 10 {
		token := nodes[0].invite("--for", peers[1]).Token
		fresh := newNode(t, shop)
		cmd := fresh.command("cluster", "join", "--config", "holdfast.yaml", "--yes")
		cmd.Stdin = strings.NewReader(token)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		// At what point that is depends on the machine; each is as good as another.
		<-time.After(time.Duration(round) * 20 * time.Millisecond)
		_ = cmd.Process.Kill()
		if err := cmd.Wait(); err != nil {
			cut++
		}
		if code, out := fresh.joinBy(token); code != exitOK {
			t.Fatalf("round %d: got exit code %d and %q, want that it goes on", round, code, out)
		}
		if code, out := fresh.holdfast("check", "holdfast.yaml"); code != exitOK {
			t.Errorf("round %d: got exit code %d and %q, want a configuration that is valid", round, code, out)
		}
		text, err := os.ReadFile(fresh.file())
		if err != nil || strings.Count(string(text), "\ncluster:") != 1 {
			t.Errorf("round %d: got %v and %q, want one block", round, err, text)
		}
	}
	if cut == 0 {
		t.Error("got every join to its end, want some killed")
	}
}

// TestProcessTokensAreRefused kills the node that made them in between: what was used
// stays so.
func TestProcessTokensAreRefused(t *testing.T) {
	t.Parallel()
	nodes := newCluster(t, shop)
	peers := peersOf(t, nodes[0])
	nodes[0].launch()
	nodes[0].logged("waiting for the other nodes")
	short := nodes[0].invite("--expires", "1s", "--for", peers[1])
	good := nodes[0].invite("--for", peers[1])

	refused := func(token, code, want string) {
		t.Helper()
		fresh := newNode(t, shop)
		cmd := fresh.command("cluster", "join", "--config", "holdfast.yaml", "--yes", "--output", "json")
		cmd.Stdin = strings.NewReader(token)
		out, _ := cmd.CombinedOutput()
		if cmd.ProcessState.ExitCode() != exitFailed || !strings.Contains(string(out), code) || !strings.Contains(string(out), want) {
			t.Errorf("got exit code %d and %q, want %s with %q", cmd.ProcessState.ExitCode(), out, code, want)
		}
		if _, err := os.Stat(filepath.Join(fresh.home, "cluster.secret")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("got %v, want no secret", err)
		}
		if _, err := os.Stat(filepath.Join(fresh.home, "cluster-join.key")); code == "HF2411" && !errors.Is(err, os.ErrNotExist) {
			t.Errorf("got %v, want no key of a token that was refused for good", err)
		}
	}
	for time.Now().Before(short.Expires) {
		<-time.After(time.Until(short.Expires))
	}
	refused(short.Token, "HF2411", "the token expired at")
	refused(good.Token[:len(good.Token)-3], "HF2410", "not whole")
	refused("", "HF2410", "there is none")

	first := newNode(t, shop)
	if code, out := first.joinBy(good.Token); code != exitOK {
		t.Fatalf("got exit code %d and %q", code, out)
	}
	nodes[0].kill9()
	nodes[0].launch()
	eventually(t, patience, func() error { _, err := nodes[0].status(); return err })
	refused(good.Token, "HF2411", "the token was used at")
	nodes[0].kill9()
	if err := os.Remove(filepath.Join(nodes[0].data, "invites.json")); err != nil {
		t.Fatal(err)
	}
	nodes[0].launch()
	eventually(t, patience, func() error { _, err := nodes[0].status(); return err })
	refused(good.Token, "HF2411", "knows no such token")

	// A node that was made anew is another cluster to who has a token of before.
	nodes[0].kill9()
	if err := os.RemoveAll(nodes[0].data); err != nil {
		t.Fatal(err)
	}
	nodes[0].launch()
	eventually(t, patience, func() error { _, err := nodes[0].status(); return err })
	again := nodes[0].invite("--for", peers[2])
	refused(good.Token, "HF2412", "is not a node of the cluster that the token is of")

	// Nobody is invited by a single node, and a machine with messages is left alone.
	single := newNode(t, shop).start()
	if code, out := single.holdfast("cluster", "invite", "--config", "holdfast.yaml"); code != exitFailed || !strings.Contains(out, "single node") {
		t.Errorf("got exit code %d and %q, want that it is a single node", code, out)
	}
	single.stop()
	before, err := os.ReadFile(single.file())
	if err != nil {
		t.Fatal(err)
	}
	if code, out := single.joinBy(again.Token); code != exitFailed || !strings.Contains(out, "of its own") {
		t.Errorf("got exit code %d and %q, want it to be left alone", code, out)
	}
	if after, err := os.ReadFile(single.file()); err != nil || string(after) != string(before) {
		t.Errorf("got %v and %q, want the file as it was", err, after)
	}
}
