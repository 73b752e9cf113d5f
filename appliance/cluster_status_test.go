// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-mq/holdfast/appliance/admin"
	"github.com/holdfast-mq/holdfast/appliance/config"
	"github.com/holdfast-mq/holdfast/appliance/diag"
	"github.com/holdfast-mq/holdfast/appliance/engine"
	"github.com/holdfast-mq/holdfast/appliance/join"
)

func TestWhatIsSaidOfAMember(t *testing.T) {
	now := time.Now()
	long := now.Add(-time.Hour)
	v := view{
		state:  engine.ClusterState{Members: []engine.Member{{Name: "n1", Self: true, Connected: true}, {Name: "n2", Connected: true}, {Name: "n3"}, {Name: "n4", Connected: true}}},
		self:   join.Answer{Node: "n1", Process: "1", Version: "0.1.0", NATS: "2.15.3", Wants: "w"},
		counts: join.Answer{Wants: "w"},
		lost:   map[string]time.Time{"n3": long},
		met:    map[string]time.Time{"n2": long, "n4": long},
		now:    now,
	}
	well := peer{answer: join.Answer{Node: "n2", Process: "2", Version: "0.1.0", NATS: "2.15.3", Wants: "w", Sees: []string{"n1", "n4"}}, asked: now}
	change := func(f func(*peer)) peer {
		p := well
		f(&p)
		return p
	}
	none := change(func(p *peer) { p.answer.Node = "n3" })
	for name, c := range map[string]struct {
		said    peer
		view    func(*view)
		problem string // "" for none
		warning string
		current bool
		other   bool
	}{
		"well":          {said: well, current: true},
		"another file":  {said: change(func(p *peer) { p.answer.Wants = "v" }), current: true, other: true},
		"not asked yet": {said: peer{}, problem: "not heard of yet"},
		"no answer":     {said: change(func(p *peer) { p.err = errors.New("connection refused") }), problem: "connection refused"},
		"gone for long": {
			said: change(func(p *peer) {
				p.answer.Node, p.err = "n3", diag.Fail(diag.CodeClusterPeer, errors.New("refused"), "f")
			}),
			problem: "(1h0m0s), and it does not answer: refused",
		},
		"no answer, and a route": {
			said:    change(func(p *peer) { p.err = diag.Fail(diag.CodeClusterPeer, errors.New("timed out"), "f") }),
			problem: "there is a route to it, and it does not answer on the port behind: timed out",
		},
		"no route": {said: none, problem: "it answers on n:6223, and there is no route to n:6222, since"},
		"just killed": {
			// What it said is from before it was lost: it does not answer any more.
			said: change(func(p *peer) { p.answer.Node, p.asked = "n3", now.Add(-2*time.Second) }),
			view: func(v *view) { v.lost = map[string]time.Time{"n3": now.Add(-time.Second)} }, problem: "not connected since",
		},
		"killed while nobody asked": {
			said: change(func(p *peer) { p.answer.Node, p.asked = "n3", long.Add(-time.Second) }), problem: "not connected since",
		},
		"its certificate ended": {
			said: change(func(p *peer) {
				p.answer.Node, p.answer.Certificates = "n3", []join.Certificate{{Name: "route", NotAfter: long}}
			}),
			problem: "certificate that node n3 has for routes ended on",
		},
		"ours ended": {
			said: none, view: func(v *view) { v.self.Certificates = []join.Certificate{{Name: "route_ca", NotAfter: long}} },
			problem: "certificate that node n1 has for routes ended on",
		},
		"a certificate that ends": {
			said: change(func(p *peer) {
				p.answer.Certificates = []join.Certificate{{Name: "server", NotAfter: now, Problem: "ends soon"}}
			}),
			warning: "ends soon", current: true,
		},
		"blind to another": {said: change(func(p *peer) { p.answer.Sees = []string{"n1"} }), problem: "it has no connection to node n4", current: true},
		"met that one just now": {
			said: change(func(p *peer) { p.answer.Sees = []string{"n1"} }), view: func(v *view) { v.met = map[string]time.Time{"n4": now} }, current: true,
		},
		"copies to come": {said: change(func(p *peer) { p.answer.Lacks = "stream 'S' is not current" }), problem: "does not have everything yet: stream 'S'"},
		"publishers stopped": {
			said: change(func(p *peer) {
				p.asked, p.ahead = now.Add(-time.Second), time.Second // its clock does not count
				p.answer.Stopped, p.answer.StoppedFor, p.answer.Lacks = "4 MiB are free", time.Minute, "stream 'S' is not current"
			}),
			problem: "(1m1s): 4 MiB are free; what is published to a stream that it leads is refused",
		},
		"a clock that is an hour ahead": {
			said: change(func(p *peer) { p.ahead = time.Hour }), problem: "its clock is 1h0m0s ahead of this node's", current: true,
		},
		"a clock that is an hour behind": {
			said: change(func(p *peer) { p.ahead = -time.Hour }), problem: "its clock is 1h0m0s behind this node's", current: true,
		},
		"an hour ahead, and no route": {
			said: change(func(p *peer) { p.answer.Node, p.ahead = "n3", time.Hour }), problem: "there is no route", warning: "its clock is 1h0m0s ahead",
		},
		"a clock that is seconds off": {
			said: change(func(p *peer) { p.ahead = 3 * time.Second }), warning: "its clock is 3s ahead", current: true,
		},
		"an answer that took long": {said: change(func(p *peer) { p.ahead, p.unsure = 3*time.Second, 3*time.Second }), current: true},
		"another version":          {said: change(func(p *peer) { p.answer.Version = "0.2.0" }), warning: "it has holdfast 0.2.0, and this node 0.1.0", current: true},
		"another server":           {said: change(func(p *peer) { p.answer.NATS = "2.16.0" }), warning: "it has nats-server 2.16.0, and this node 2.15.3", current: true},
		"a second one of that name": {
			said: well, view: func(v *view) {
				v.peers = map[string]peer{"m:6222": {answer: join.Answer{Node: "n2", Process: "3"}, asked: now}}
			},
			problem: "it is node n2, and so is m:6222", current: true,
		},
	} {
		v := v
		if c.view != nil {
			c.view(&v)
		}
		m := v.member("n:6222", false, c.said)
		warnings := strings.Join(m.Warnings, "; ")
		if (m.Problem == "") != (c.problem == "") || !strings.Contains(m.Problem, c.problem) || m.Current != c.current || m.OtherFile != c.other {
			t.Errorf("%s: got %+v, want problem %q, current %t and another file %t", name, m, c.problem, c.current, c.other)
		}
		if (warnings == "") != (c.warning == "") || !strings.Contains(warnings, c.warning) {
			t.Errorf("%s: got warnings %q, want %q", name, warnings, c.warning)
		}
		if (m.PublishingStopped != "") != (c.said.answer.Stopped != "") || (m.PublishingStopped != "") != (m.PublishingStoppedSince != nil) {
			t.Errorf("%s: got publishing stopped %q since %v", name, m.PublishingStopped, m.PublishingStoppedSince)
		}
		if m.Problem != "" && m.Fix == "" && c.said.err == nil {
			t.Errorf("%s: got no fix for %q", name, m.Problem)
		}
	}
}

func TestProblemsOfTheClusterAreInTheStatus(t *testing.T) {
	since := time.Now().Add(-time.Minute)
	c := admin.Cluster{
		Nodes: []admin.Member{{Address: "a:1", Self: true, Problem: "mine"}, {Address: "b:1", Problem: "gone", Fix: "f", Code: diag.CodeClusterClock}},
		Streams: []admin.Placement{
			{Name: "shop/A", Problem: "no leader", NoLeaderSince: &since}, {Name: "shop/B", Problem: "no leader"}, {Name: "shop/C", Problem: "no leader"},
			{Name: "shop/D", Problem: "no leader"}, {Name: "shop/E", Problem: "no leader"}, {Name: "shop/F"},
		},
	}
	var got []string
	for _, p := range clusterProblems(c) {
		got = append(got, string(p.Code)+" "+p.What)
	}
	all := strings.Join(got, "\n")
	for _, want := range []string{"HF2421 cluster: b:1: gone", "HF2423 shop/A: no leader, since ", "(1m0s)", "HF2423 2 more streams have no leader"} {
		if !strings.Contains(all, want) {
			t.Errorf("got %q, want %q in it", all, want)
		}
	}
	if strings.Contains(all, "mine") || strings.Contains(all, "shop/D") || len(got) != 5 {
		t.Errorf("got %q, want neither what is said elsewhere nor all streams", all)
	}
}

// Only the file of the node that leads is applied: others that differ are no news here.
func TestALeaderWithAnotherFileIsInTheStatus(t *testing.T) {
	for name, test := range map[string]struct {
		leader      string
		ours, other bool // differs from the file that counts
		growth      *admin.Growth
		want        int
	}{
		"ours differs":       {"b", true, false, nil, 1},
		"another's differs":  {"b", false, true, nil, 0},
		"nobody leads":       {"", true, false, nil, 0},
		"the same file":      {"b", false, false, nil, 0},
		"while a node grows": {"b", true, false, &admin.Growth{}, 0},
	} {
		c := admin.Cluster{Leader: test.leader, Growth: test.growth, Nodes: []admin.Member{{Name: "a", Self: true, OtherFile: test.ours}, {Name: "b"}, {Name: "c", OtherFile: test.other}}}
		got := clusterProblems(c)
		if len(got) != test.want || len(got) > 0 && (got[0].Code != diag.CodeDiffers || !strings.Contains(got[0].What, "node b leads") || got[0].Fix == "") {
			t.Errorf("%s: got %+v, want %d that names node b", name, got, test.want)
		}
	}
}

// What the leading node decides for all of them, and no revision has, is compared as well.
func TestFilesThatDifferInGroupCommitAreKnown(t *testing.T) {
	load := func(text string) *config.Config {
		t.Helper()
		file := filepath.Join(t.TempDir(), "holdfast.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg, problems := config.Load(config.Options{File: file})
		if err := problems.Err(); err != nil {
			t.Fatal(err)
		}
		return cfg
	}
	const text = "accounts: {shop: {streams: {A: {subjects: [a], max_bytes: 1MiB, num_replicas: 1, allow_atomic: true, group_commit: \"MODE\"}}}}\n"
	with := func(mode string) *config.Config { return load(strings.Replace(text, "MODE", mode, 1)) }
	auto, off := with("auto"), with("off")
	if one, other := newChange(auto, "").digest, newChange(off, "").digest; one != other {
		t.Errorf("got digests %s and %s, want no revision of a change of group_commit alone", one, other)
	}
	left := load(strings.Replace(text, ", group_commit: \"MODE\"", "", 1))
	slow := load("storage: {durability: interval}\n" + strings.Replace(text, "MODE", "auto", 1))
	for _, c := range []struct {
		node, counts map[string]string
		want         []string
	}{
		{decides(auto), decides(auto), nil},
		{decides(auto), decides(left), nil}, // the default
		{decides(off), decides(auto), []string{"group_commit of shop/A is off on node n2 and auto on node n3"}},
		{decides(auto), decides(off), []string{"group_commit of shop/A is auto on node n2 and off on node n3"}},
		{decides(slow), decides(auto), []string{"storage.durability is interval on node n2 and strict on node n3 (each node flushes by its own)"}},
		{nil, decides(off), nil}, // an edition that does not say it
	} {
		v := view{counts: join.Answer{Node: "n3", Decides: c.counts}}
		m := v.member("n:6222", false, peer{answer: join.Answer{Node: "n2", Decides: c.node}})
		if !slices.Equal(m.Differs, c.want) {
			t.Errorf("%v, and %v counts: got %q, want %q", c.node, c.counts, m.Differs, c.want)
		}
	}
	leads := join.Answer{Node: "n2", Decides: decides(off)}
	if got := offIn(leads, "shop", "A"); got != "group_commit is off in the file of node n2, which leads" || offIn(leads, "shop", "B") != "" {
		t.Errorf("got %q, want whose file turns it off, for that stream alone", got)
	}
	// Only the file of the node that leads counts, and status tells those that have another.
	differs := []string{"group_commit of shop/A is off on node n1 and auto on node n2"}
	for leader, want := range map[string]int{"n2": 1, "": 0} {
		got := clusterProblems(admin.Cluster{Leader: leader, Nodes: []admin.Member{{Name: "n1", Self: true, Differs: differs}, {Name: "n2"}, {Name: "n3", Differs: differs}}})
		if len(got) != want || want > 0 && !strings.Contains(got[0].What, "node n2 leads, and its file counts for group commit: group_commit of shop/A is off on node n1") {
			t.Errorf("%q leads: got %+v, want %d that says what differs", leader, got, want)
		}
	}
}

// TestTheFixOfWhatIsMissingFitsWhoIsUp: "keep the others up" is no help where they are down.
func TestTheFixOfWhatIsMissingFitsWhoIsUp(t *testing.T) {
	said := peer{answer: join.Answer{Node: "n1", Lacks: "no meta leader"}, asked: time.Now()}
	for leader, want := range map[string]string{"": "bring the nodes that are down up", "n1": "keep the other nodes up"} {
		v := view{state: engine.ClusterState{Leader: leader, Members: []engine.Member{{Name: "n1", Self: true, Connected: true}}}}
		if m := v.member("a:1", true, said); !strings.HasPrefix(m.Fix, want) {
			t.Errorf("%q leads: got %q, want %q", leader, m.Fix, want)
		}
	}
}

// TestTheFileOfTheLeaderIsTheOneThatCounts: the node that is the odd one says so of itself.
func TestTheFileOfTheLeaderIsTheOneThatCounts(t *testing.T) {
	v := view{self: join.Answer{Node: "n1", Wants: "odd"}, peers: map[string]peer{
		"b:1": {answer: join.Answer{Node: "n2", Wants: "same"}}, "c:1": {answer: join.Answer{Node: "n3", Wants: "same"}},
	}}
	for leader, want := range map[string]map[string]bool{
		"n3": {"n1": true, "n2": false, "n3": false},
		"n1": {"n1": false, "n2": true, "n3": true},
		"":   {"n1": false, "n2": true, "n3": true}, // nobody's counts: seen from here
	} {
		v.state.Leader = leader
		v.counts = v.counting()
		for _, said := range append(slices.Collect(maps.Values(v.peers)), peer{answer: v.self}) {
			if m := v.member("a:1", said.answer.Node == "n1", said); m.OtherFile != want[m.Name] {
				t.Errorf("%q leads: got another file %t on %s", leader, m.OtherFile, m.Name)
			}
		}
	}
}

func TestAFileThatIsNotInForceIsToldOnOtherNodes(t *testing.T) {
	const what = "the file as it is now is not in force: holdfast.yaml:3:1: unknown key"
	m := view{}.member("b:1", false, peer{answer: join.Answer{Node: "n2", FileRefused: what}})
	got := clusterProblems(admin.Cluster{Nodes: []admin.Member{m}})
	if m.FileRefused != what || len(got) != 2 || !strings.Contains(got[1].What, "node n2: "+what) || !strings.Contains(got[1].Fix, "node n2") {
		t.Errorf("got %+v and %+v, want what is refused on node n2", m, got)
	}
}
