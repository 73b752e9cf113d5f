// SPDX-License-Identifier: Apache-2.0

//go:build unix

package appliance

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-mq/holdfast/appliance/admin"
	"github.com/holdfast-mq/holdfast/appliance/certs"
	"github.com/holdfast-mq/holdfast/appliance/config"
	"github.com/holdfast-mq/holdfast/appliance/datadir"
	"github.com/holdfast-mq/holdfast/appliance/diag"
	"github.com/holdfast-mq/holdfast/appliance/join"
	"github.com/holdfast-mq/holdfast/appliance/porttest"
	"github.com/holdfast-mq/holdfast/appliance/service"
)

const testSecret = "a secret of more than thirty-two characters"

// waitingNode is the first node of a cluster whose others are not there. It returns its
// admin client, and the address of the second.
func waitingNode(t *testing.T) (node *admin.Client, second string) {
	t.Helper()
	home := t.TempDir()
	secret := filepath.Join(home, "secret")
	if err := os.WriteFile(secret, []byte(testSecret), 0o600); err != nil {
		t.Fatal(err)
	}
	addr := fmt.Sprintf("127.0.0.1:%d", porttest.Free(t, 2))
	second = "127.0.0.1:3"
	file := filepath.Join(home, "holdfast.yaml")
	text := "node: {name: n1}\naccounts: {shop: {users: {admin: {}}}}\n" +
		string((&config.Cluster{Name: "plant", Listen: config.Address(addr), Peers: []string{addr, second, "127.0.0.1:5"}}).Block(secret))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(home, "data")
	cfg, problems := LoadConfig(config.Options{File: file, Flags: []config.Flag{{Name: "--data-dir", Key: "node.data_dir", Text: data}}})
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	joined := make(chan error, 1)
	go func() {
		joined <- Join(ctx, Options{Config: cfg, AllowUnsafe: true, Log: slog.New(slog.DiscardHandler), Notify: service.NewNotifier()})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-joined; err != nil {
			t.Error(err)
		}
	})
	node = admin.NewClient(FindSocket(data))
	for deadline := time.Now().Add(30 * time.Second); ; {
		_, err := node.Status(t.Context())
		if err == nil {
			return node, second
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		<-time.After(10 * time.Millisecond)
	}
}

func invite(t *testing.T, node *admin.Client, forPeer string) string {
	t.Helper()
	i, err := node.Invite(t.Context(), admin.InviteRequest{For: forPeer, Expires: 3600})
	if err != nil {
		t.Fatal(err)
	}
	return i.Token
}

// freshMachine has a file, unless it is "".
func freshMachine(t *testing.T, text string) TokenJoin {
	t.Helper()
	home := t.TempDir()
	file := filepath.Join(home, "holdfast.yaml")
	if text != "" {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return TokenJoin{File: file, limit: time.Millisecond, Load: func(texts []config.Text) (*config.Config, diag.List) {
		return LoadConfig(config.Options{File: file, Texts: texts, Flags: []config.Flag{{Name: "--data-dir", Key: "node.data_dir", Text: filepath.Join(home, "data")}}})
	}}
}

// TestJoinByTokenCanBeCutOffAnywhere ends after each file that is written, and begins
// again with the same token.
func TestJoinByTokenCanBeCutOffAnywhere(t *testing.T) {
	node, second := waitingNode(t)
	for name, text := range map[string]string{"no file": "", "own file": "# mine\nlisten: {http: \"off\"}", "starter": string(config.Starter())} {
		for cut := range 3 {
			m := freshMachine(t, text)
			m.Token = invite(t, node, second)
			a, err := m.Ask(t.Context())
			if err != nil || len(a.Files) != 2 || a.From != "n1" || a.Cluster != "plant" {
				t.Fatalf("%s: got %+v and %v, want two files from n1", name, a, err)
			}
			for _, f := range a.Files[:cut] {
				if err := f.write(a.like); err != nil {
					t.Fatal(err)
				}
			}
			again, err := m.Ask(t.Context())
			if err != nil || again.Already != (cut == 2) || cut < 2 && len(again.Files) != 2-cut {
				t.Fatalf("%s, cut off after %d: got %+v and %v", name, cut, again, err)
			}
			if err := again.Write(); err != nil {
				t.Fatal(err)
			}
			cfg, l := m.Load(nil)
			if err := l.Err(); err != nil || cfg.Cluster == nil || cfg.Cluster.Advertise != second {
				t.Fatalf("%s: got %v, want a configuration with the block", name, err)
			}
			if secret, err := cfg.Cluster.Secret.Reveal(); err != nil || secret != testSecret {
				t.Errorf("%s: got %v, want the secret", name, err)
			}
			if _, shop := cfg.Accounts["shop"]; shop == (name == "own file") || len(cfg.Accounts) > 1 {
				t.Errorf("%s: got accounts %v, want those of n1 unless there is a file of its own", name, cfg.Accounts)
			}
			if got, err := os.ReadFile(m.File); err != nil || name == "own file" && !strings.HasPrefix(string(got), text) {
				t.Errorf("%s: got %v and %q, want what was there", name, err, got)
			}
			if _, err := os.Lstat(m.keyFile()); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s: got %v, want the key of the token gone", name, err)
			}
		}
	}
}

// TestJoinByTokenLeavesWhatIsSomebodysAlone: nothing is written, and the token not used
// where that is known before.
func TestJoinByTokenLeavesWhatIsSomebodysAlone(t *testing.T) {
	node, second := waitingNode(t)
	for name, c := range map[string]struct {
		text    string
		prepare func(t *testing.T, home string)
		want    string
		code    diag.Code
	}{
		"an identity": {"", func(t *testing.T, home string) {
			stamped(t, home)
			put(t, filepath.Join(home, "data", "identity.json"), "{}")
		}, "an identity of its own", diag.CodeClusterOwn},
		"messages": {"", func(t *testing.T, home string) {
			stamped(t, home)
			put(t, filepath.Join(home, "data", "jetstream", "A", "x"), "")
		}, "messages of its own", diag.CodeClusterOwn},
		"another secret": {"", func(t *testing.T, home string) {
			put(t, filepath.Join(home, clusterSecretName), "another one's")
		}, "another secret", diag.CodeClusterOwn},
		"another cluster": {"cluster: {name: other, peers: [\"127.0.0.1:1\", \"127.0.0.1:3\", \"127.0.0.1:5\"], listen: \"127.0.0.1:1\", secret: \"file:absent\"}\n", nil, "another block", diag.CodeClusterOwn},
		"a broken file":   {"lisen: {}\n", nil, "not valid", diag.CodeClusterOwn},
		"a port in use":   {"listen: {client: \"127.0.0.1:3\"}\n", nil, "would not be valid", diag.CodeClusterOwn},
	} {
		t.Run(name, func(t *testing.T) {
			m := freshMachine(t, c.text)
			if c.prepare != nil {
				c.prepare(t, filepath.Dir(m.File))
			}
			m.Token = invite(t, node, second)
			a, err := m.Ask(t.Context())
			if err == nil || !strings.Contains(err.Error(), c.want) || diag.Hint(err) == "" || c.code != "" && diag.CodeOf(err) != c.code {
				t.Fatalf("got %+v and %v, want %s with %q and a hint", a, err, c.code, c.want)
			}
			if got, err := os.ReadFile(m.File); string(got) != c.text || err != nil && c.text != "" {
				t.Errorf("got %v and %q, want the file as it was", err, got)
			}
		})
	}
}

// TestATokenOfAnotherClusterIsRefusedByAMachineOfOne has the block and the secret of a
// cluster on the machine, in its file or in its data directory.
func TestATokenOfAnotherClusterIsRefusedByAMachineOfOne(t *testing.T) {
	node, second := waitingNode(t)
	s, err := node.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	peers := []string{s.Cluster.Nodes[0].Address, second, s.Cluster.Nodes[2].Address}
	ca := func(t *testing.T, home string) {
		stamped(t, home)
		routes := datadir.RoutesPath(filepath.Join(home, "data"))
		if err := os.Mkdir(routes, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := certs.MakeAuthority(certs.Options{Dir: routes, Write: datadir.WriteFile, Now: time.Now, NodeName: "other"}); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		cluster string
		peers   []string
		secret  string
		prepare func(t *testing.T, home string)
		want    string // "" for the same cluster
	}{
		"the same":       {"plant", peers, testSecret, nil, ""},
		"another name":   {"other", peers, testSecret, nil, `cluster.name is "other" on node`},
		"another secret": {"plant", peers, strings.Repeat("z", 40), nil, "has another secret"},
		"other peers":    {"plant", []string{"127.0.0.1:7", second, "127.0.0.1:5"}, testSecret, nil, "cluster.peers is [127.0.0.1:7, "},
		"no such peer":   {"plant", []string{peers[0], "127.0.0.1:7", "127.0.0.1:5"}, testSecret, nil, "it is for " + second},
		"another CA":     {"plant", peers, testSecret, ca, "the CA of its routes"},
	} {
		t.Run(name, func(t *testing.T) {
			m := freshMachine(t, "")
			home := filepath.Dir(m.File)
			secret := filepath.Join(home, clusterSecretName)
			put(t, secret, c.secret)
			text := string((&config.Cluster{Name: c.cluster, Listen: config.Address(c.peers[1]), Peers: c.peers, Advertise: c.peers[1]}).Block(secret))
			put(t, m.File, text)
			if c.prepare != nil {
				c.prepare(t, home)
			}
			m.Token = invite(t, node, second)
			for range 2 { // it is not used by being looked at
				a, err := m.Ask(t.Context())
				switch {
				case c.want == "" && (err != nil || !a.Already):
					t.Errorf("got %+v and %v, want that it is one of that cluster already", a, err)
				case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || diag.CodeOf(err) != diag.CodeClusterOwn || diag.Hint(err) == ""):
					t.Errorf("got %+v and %v, want it refused with %q and a hint", a, err, c.want)
				}
			}
			if got, err := os.ReadFile(m.File); err != nil || string(got) != text {
				t.Errorf("got %v and %q, want the file as it was", err, got)
			}
			if _, err := os.Lstat(m.keyFile()); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("got %v, want no key of a token", err)
			}
			fresh := freshMachine(t, "")
			fresh.Token = m.Token
			if _, err := fresh.Ask(t.Context()); err != nil {
				t.Errorf("got %v, want the token good for another machine", err)
			}
		})
	}
}

// TestTheKeyOfATokenGoesWithTheTokenAlone refuses one for good, and one that may work yet.
func TestTheKeyOfATokenGoesWithTheTokenAlone(t *testing.T) {
	node, second := waitingNode(t)
	used, good := invite(t, node, second), invite(t, node, second)
	first := freshMachine(t, "")
	first.Token = used
	if _, err := first.Ask(t.Context()); err != nil {
		t.Fatal(err)
	}
	has := func(m TokenJoin, want bool) {
		t.Helper()
		if _, err := os.Lstat(m.keyFile()); errors.Is(err, fs.ErrNotExist) == want {
			t.Errorf("got %v for the key of the token, want it there: %t", err, want)
		}
	}
	has(first, true)
	m := freshMachine(t, "")
	m.Token = used
	if _, err := m.Ask(t.Context()); diag.CodeOf(err) != diag.CodeClusterTokenRefused {
		t.Fatalf("got %v, want that the token was used", err)
	}
	has(m, false)
	// The other one is bound to this machine by its key: that stays.
	m.Token = good
	if _, err := m.Ask(t.Context()); err != nil {
		t.Fatal(err)
	}
	m.Token = used
	if _, err := m.Ask(t.Context()); diag.CodeOf(err) != diag.CodeClusterTokenRefused {
		t.Fatalf("got %v, want that the token was used", err)
	}
	has(m, true)
	m.Token = good
	if _, err := m.Ask(t.Context()); err != nil {
		t.Errorf("got %v, want the token to work on", err)
	}
	// Nobody answers: that may be gone the next time.
	away := freshMachine(t, "")
	nobody, err := join.NewToken([]string{"127.0.0.1:1"}, [32]byte{}, time.Now().Add(time.Hour), second).Reveal()
	if err != nil {
		t.Fatal(err)
	}
	away.Token = nobody
	if _, err := away.Ask(t.Context()); diag.CodeOf(err) != diag.CodeClusterPeer {
		t.Fatalf("got %v, want that nobody answers", err)
	}
	has(away, true)
}

// TestJoinByTokenWritesWhatTheServiceCanRead runs as root, which writes for the group that
// the file has, as a package makes it.
func TestJoinByTokenWritesWhatTheServiceCanRead(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: it gives files to a group")
	}
	const group = 12345
	node, second := waitingNode(t)
	m := freshMachine(t, string(config.Starter()))
	if err := errors.Join(os.Chmod(m.File, 0o640), os.Chown(m.File, 0, group)); err != nil {
		t.Fatal(err)
	}
	m.Token = invite(t, node, second)
	a, err := m.Ask(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Write(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{m.File, filepath.Join(filepath.Dir(m.File), clusterSecretName)} {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if st := info.Sys().(*syscall.Stat_t); info.Mode().Perm() != 0o640 || st.Uid != 0 || st.Gid != group {
			t.Errorf("%s: got mode %04o of %d:%d, want 0640 of 0:%d", name, info.Mode().Perm(), st.Uid, st.Gid, group)
		}
	}
}

// stamped makes a data directory, as a node does at its first start.
func stamped(t *testing.T, home string) {
	t.Helper()
	d, err := datadir.Open(filepath.Join(home, "data"), datadir.Options{Version: "1", AllowUnsafe: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
}

func TestInviteRefusesWhatCanNotWork(t *testing.T) {
	node, _ := waitingNode(t)
	s, err := node.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		r    admin.InviteRequest
		want string
	}{
		{admin.InviteRequest{Expires: 3600, For: "n9:6222"}, "not among cluster.peers"},
		{admin.InviteRequest{Expires: 3600, For: s.Cluster.Nodes[0].Address}, "this node itself"},
		{admin.InviteRequest{}, "can't expire after 0s"},
		{admin.InviteRequest{Expires: 8 * 24 * 3600}, "can't expire after"},
	} {
		if i, err := node.Invite(t.Context(), c.r); err == nil || !strings.Contains(err.Error(), c.want) || diag.CodeOf(err) != diag.CodeUsage || diag.Hint(err) == "" {
			t.Errorf("%+v: got %v and %v, want %q", c.r, i, err, c.want)
		}
	}
}

func TestListenIsThatOfTheOtherNodeWithThePortOfThisOne(t *testing.T) {
	for _, c := range []struct{ theirs, forPeer, want string }{
		{"", "", ""},
		{"", "n2:6222", ""},
		{"0.0.0.0:6222", "n2:6222", ""},
		{"0.0.0.0:7000", "", "0.0.0.0:7000"},
		{"[::]:6222", "n2:6222", "[::]:6222"},
		{"", "n2:7222", "0.0.0.0:7222"},
		{"10.0.0.1:6222", "10.0.0.2:6222", "10.0.0.2:6222"},
		{"10.0.0.1:6222", "n2:6222", ""},
		{"127.0.0.1:6222", "127.0.0.1:7222", "127.0.0.1:7222"},
		{"n1:6222", "[fd00::2]:6222", "[fd00::2]:6222"},
	} {
		if got := listenFor(join.Grant{Listen: c.theirs, For: c.forPeer}); string(got) != c.want {
			t.Errorf("%q for %q: got %q, want %q", c.theirs, c.forPeer, got, c.want)
		}
	}
}
