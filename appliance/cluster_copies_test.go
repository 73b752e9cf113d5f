// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-mq/holdfast/appliance/admin"
	"github.com/holdfast-mq/holdfast/appliance/engine"
	"github.com/holdfast-mq/holdfast/bootstrap"
)

func on(nodes ...string) []admin.Copy {
	var out []admin.Copy
	for _, n := range nodes {
		name, flaw, _ := strings.Cut(n, " ")
		out = append(out, admin.Copy{Node: name, Current: flaw == "", Offline: flaw == "offline"})
	}
	return out
}

func TestWhatLosingANodeWouldDo(t *testing.T) {
	for name, c := range map[string]struct {
		copies       []admin.Copy
		leader       string
		stops, loses string // the nodes whose loss does that
	}{
		"three copies":              {on("n1", "n2", "n3"), "n1", "", ""},
		"one copy":                  {on("n2"), "n2", "n2", "n2"},
		"two copies":                {on("n1", "n2"), "n1", "n1 n2", ""},
		"one of three is gone":      {on("n1", "n2", "n3 offline"), "n1", "n1 n2", ""},
		"one of three is behind":    {on("n1", "n2", "n3 behind"), "n1", "n1 n2", ""},
		"only the leader has all":   {on("n1", "n2 behind", "n3 behind"), "n1", "n1 n2 n3", "n1"},
		"it has no leader as it is": {on("n1", "n2 offline", "n3 offline"), "", "", ""},
		"nobody knows where it is":  {nil, "", "", ""},
	} {
		var stops, loses []string
		for _, n := range []string{"n1", "n2", "n3"} {
			s, l := without(admin.Placement{Leader: c.leader, Copies: c.copies}, n)
			if s {
				stops = append(stops, n)
			}
			if l {
				loses = append(loses, n)
			}
		}
		if got := strings.Join(stops, " "); got != c.stops {
			t.Errorf("%s: got a stop by the loss of %q, want %q", name, got, c.stops)
		}
		if got := strings.Join(loses, " "); got != c.loses {
			t.Errorf("%s: got messages lost by the loss of %q, want %q", name, got, c.loses)
		}
	}
}

func TestLossesNameEverythingWhenTooFewAreLeft(t *testing.T) {
	c := admin.Cluster{Quorum: 2, Size: 3, Leader: "n1",
		Nodes:   []admin.Member{{Name: "n1", Self: true}, {Name: "n2", Connected: true}, {Name: "n3"}, {}},
		Streams: []admin.Placement{{Name: "a/S", Leader: "n1", Copies: on("n1")}, {Name: "a/T", Leader: "n1", Copies: on("n1", "n2", "n3 offline")}},
	}
	want := []admin.Loss{{Node: "n1", Everything: true, Loses: []string{"a/S"}}, {Node: "n2", Everything: true}}
	if diff := cmp.Diff(want, losses(c)); diff != "" {
		t.Errorf("losses (-want +got):\n%s", diff)
	}
	c.Nodes[2].Connected = true
	want = []admin.Loss{{Node: "n1", Stops: []string{"a/S", "a/T"}, Loses: []string{"a/S"}}, {Node: "n2", Stops: []string{"a/T"}}, {Node: "n3"}}
	if diff := cmp.Diff(want, losses(c)); diff != "" {
		t.Errorf("losses (-want +got):\n%s", diff)
	}
}

// TestPlacementsAreThoseOfTheLeader takes what a leader says before what this node sees,
// and what this node sees where no leader answers.
func TestPlacementsAreThoseOfTheLeader(t *testing.T) {
	since := time.Now()
	three := bootstrap.Placement{Leader: "n1", Replicas: []bootstrap.Replica{{Node: "n3", Behind: 7}, {Node: "n2", Current: true}}}
	durable := map[string]any{"durable_name": "d"}
	observed := bootstrap.Observed{Accounts: map[string]bootstrap.ObservedAccount{"a": {Streams: map[string]bootstrap.ObservedStream{
		"LED": {Placement: three, Consumers: map[string]bootstrap.ObservedConsumer{
			"d": {Config: durable, Placement: bootstrap.Placement{Leader: "n2"}},
			"e": {Placement: bootstrap.Placement{Leader: "n2"}},
			"f": {Config: durable, Placement: three},
		}},
		"ELSEWHERE": {Unavailable: "gone", Placement: bootstrap.Placement{Replicas: []bootstrap.Replica{{Node: "n3", Offline: true}}}},
		"SILENT":    {Unavailable: "its leader did not answer"},
		"AWAY":      {Unavailable: "its leader did not answer"},
	}}}}
	local := []engine.Copies{
		{Account: "a", Stream: "LED", Leader: "n1", Nodes: []engine.Copy{{Node: "n1"}, {Node: "n2"}, {Node: "n3"}}},
		{Account: "a", Stream: "SILENT", Nodes: []engine.Copy{{Node: "n2"}, {Node: "n3", Offline: true}}},
		{Account: "b", Stream: "OWN", Leader: "n2", Nodes: []engine.Copy{{Node: "n1"}, {Node: "n2"}, {Node: "n3"}}},
	}
	nodes := []admin.Member{{Name: "n1", Current: true, Connected: true}, {Name: "n2", Self: true, Current: true}, {Name: "n3", Connected: true}, {Name: "n4"}}
	got := map[string]admin.Placement{}
	for _, p := range placements(observed, local, nodes, map[string]string{"a/AWAY": "n4"}, map[string]time.Time{"a/SILENT": since}) {
		got[p.Name] = p
	}
	if len(got) != 6 {
		t.Errorf("got %d placements, want those of five streams and one consumer: %v", len(got), got)
	}
	for name, want := range map[string][]admin.Copy{
		"a/LED":       {{Node: "n1", Current: true}, {Node: "n2", Current: true}, {Node: "n3", Behind: 7}},
		"a/LED/d":     {{Node: "n2", Current: true}},
		"a/ELSEWHERE": {{Node: "n3", Offline: true}},
		"a/SILENT":    {{Node: "n2", Current: true}, {Node: "n3", Offline: true}},
		"a/AWAY":      {{Node: "n4", Offline: true}},
		"b/OWN":       {{Node: "n1", Current: true}, {Node: "n2", Current: true}, {Node: "n3"}},
	} {
		if diff := cmp.Diff(want, got[name].Copies); diff != "" {
			t.Errorf("%s: copies (-want +got):\n%s", name, diff)
		}
		if leaderless := name == "a/ELSEWHERE" || name == "a/AWAY" || name == "a/SILENT"; leaderless != (got[name].Problem != "") || leaderless != (got[name].Fix != "") {
			t.Errorf("%s: got problem %q and fix %q", name, got[name].Problem, got[name].Fix)
		}
	}
	if p := got["a/AWAY"]; !strings.Contains(p.Problem, "its only copy is on n4") {
		t.Errorf("got %+v, want where its only copy is", p)
	}
	if p := got["a/SILENT"]; p.NoLeaderSince == nil || !strings.Contains(p.Problem, "does not hear of n3") || !strings.Contains(p.Fix, "bring n3 up") {
		t.Errorf("got %+v, want since when and which node to bring up", p)
	}
}

// TestNothingVanishesWhenNobodyListsIt has streams that only others keep, while there is no
// leader who could list them.
func TestNothingVanishesWhenNobodyListsIt(t *testing.T) {
	observed := bootstrap.Observed{Accounts: map[string]bootstrap.ObservedAccount{"a": {Unavailable: "no leader"}, "b": {}}}
	local := []engine.Copies{{Account: "a", Stream: "THREE", Nodes: []engine.Copy{{Node: "n1", Offline: true}, {Node: "n2"}, {Node: "n3", Offline: true}}}}
	nodes := []admin.Member{{Name: "n1"}, {Name: "n2", Self: true}, {Name: "n3"}, {Name: "n4", Connected: true, Current: true}}
	alone := map[string]string{"a/ONE": "n1", "a/THERE": "n4", "a/DECLARED": "", "a/THREE": "", "b/REMOVED": "n1"}
	got := map[string]admin.Placement{}
	for _, p := range placements(observed, local, nodes, alone, nil) {
		got[p.Name] = p
	}
	for name, want := range map[string]struct{ problem, fix string }{
		"a/ONE":      {"its only copy is on n1", "bring n1 up"},
		"a/THERE":    {},
		"a/DECLARED": {"no leader answers, and this node does not keep it", "bring them up"},
		"a/THREE":    {"does not hear of n1, n3", "bring n1 or n3 up"},
	} {
		p, ok := got[name]
		if !ok || (p.Problem == "") != (want.problem == "") || !strings.Contains(p.Problem, want.problem) || !strings.Contains(p.Fix, want.fix) {
			t.Errorf("%s: got %+v, want %+v", name, p, want)
		}
	}
	if p := got["a/THERE"]; p.Leader != "n4" || len(p.Copies) != 1 || !p.Copies[0].Current {
		t.Errorf("got %+v, want the node that is there", p)
	}
	if len(got) != 4 {
		t.Errorf("got %v, want nothing of what an account that can be read does not have", got)
	}
}

func TestWhichNodeBringsBackWhatHasStopped(t *testing.T) {
	c := admin.Cluster{Quorum: 2, Size: 3,
		Nodes: []admin.Member{{Name: "n1", Self: true}, {Name: "n2", Address: "b:1"}, {Address: "c:1", Name: "n3"}},
		Streams: []admin.Placement{
			{Name: "a/ALL", Copies: on("n1", "n2 offline", "n3 offline")}, {Name: "a/OTHER", Copies: on("n2 offline")}, {Name: "a/OWN", Copies: on("n1")}, {Name: "a/UNKNOWN"},
		},
	}
	want := []admin.Return{{Node: "n2", Address: "b:1", Enough: true}, {Node: "n3", Address: "c:1", Enough: true, Waits: []string{"a/OTHER"}}}
	if diff := cmp.Diff(want, returns(c, upNodes(c.Nodes))); diff != "" {
		t.Errorf("returns (-want +got):\n%s", diff)
	}
	c.Quorum = 3
	if got := returns(c, upNodes(c.Nodes)); got[0].Enough || len(got[0].Waits) > 0 {
		t.Errorf("got %+v, want that one more is not enough", got)
	}
}

func TestNoMoreNodesAreAskedForThanAreNeeded(t *testing.T) {
	for _, c := range []struct {
		gone   []string
		needed int
		want   string
	}{
		{[]string{"n1"}, 1, "bring n1 up"},
		{[]string{"n1", "n3"}, 1, "bring n1 or n3 up"},
		{[]string{"n1", "n3"}, 2, "bring n1 and n3 up"},
		{[]string{"n1", "n3", "n4"}, 2, "bring 2 of n1, n3, n4 up"},
		{[]string{"n1"}, 0, "those that are there are enough, unless one of them started empty"},
	} {
		if got := bringText(c.gone, c.needed); !strings.HasPrefix(got, c.want) {
			t.Errorf("%v, %d needed: got %q, want %q", c.gone, c.needed, got, c.want)
		}
	}
}

// TestACopyIsGoneWhenNobodyHearsOfIt does not wait for the server to call it offline.
func TestACopyIsGoneWhenNobodyHearsOfIt(t *testing.T) {
	nodes := []admin.Member{{Name: "n1", Self: true}, {Name: "n2", Connected: true}, {Name: "n3"}}
	for name, c := range map[string]struct {
		leader string
		seen   float64
		whole  bool
		want   bool
	}{
		"its leader heard of it": {"n2", 0.5, true, false},
		"its leader did not":     {"n2", 9, true, true},
		"its leader never did":   {"n2", 0, false, true},
		"there is none":          {"", 0, true, true},
		"it leads":               {"n3", 9, true, false},
	} {
		got := gone([]admin.Copy{{Node: "n1", Seen: 9}, {Node: "n2", Seen: 9}, {Node: "n3", Seen: c.seen, Current: c.whole}}, c.leader, nodes)
		if got[0].Offline || got[1].Offline || got[2].Offline != c.want || got[2].Current == c.want {
			t.Errorf("%s: got %+v, want n3 gone %t and nobody else", name, got, c.want)
		}
	}
}

// TestANodeThatWasNeverSeenIsCalledByItsAddress is of a node that started while others were
// down: it knows their addresses, and neither their names nor who keeps what.
func TestANodeThatWasNeverSeenIsCalledByItsAddress(t *testing.T) {
	unseen := engine.NodeName("Server name unknown at this time (peerID: S1Nunr6R)")
	for name, c := range map[string]struct {
		nodes []admin.Member
		want  []string // copies of a stream on n1 and two others
	}{
		"both":                 {[]admin.Member{{Name: "n1", Self: true}, {Address: "b:1"}, {Address: "c:1"}}, []string{"n1", "b:1", "c:1"}},
		"one of them is known": {[]admin.Member{{Name: "n1", Self: true}, {Name: "n2", Address: "b:1"}, {Address: "c:1"}}, []string{"n1", unseen, unseen}},
	} {
		copies := []engine.Copy{{Node: "n1"}, {Node: unseen}, {Node: unseen}}
		got := placements(bootstrap.Observed{}, []engine.Copies{{Account: "a", Stream: "S", Nodes: copies}}, c.nodes, nil, nil)
		for i, want := range c.want {
			if k := got[0].Copies[i]; k.Node != want || k.Offline != (strings.HasSuffix(want, ":1")) {
				t.Errorf("%s: got %+v, want %s", name, k, want)
			}
		}
		if name == "both" {
			if !strings.Contains(got[0].Problem, "n1, b:1, c:1, this one does not hear of b:1, c:1") || !strings.HasPrefix(got[0].Fix, "bring b:1 or c:1 up") {
				t.Errorf("got %q and %q", got[0].Problem, got[0].Fix)
			}
			back := returns(admin.Cluster{Quorum: 2, Nodes: c.nodes, Streams: got}, upNodes(c.nodes))
			if len(back) != 2 || len(back[0].Waits)+len(back[1].Waits) > 0 {
				t.Errorf("got %+v, want the stream back with each", back)
			}
		}
	}
}

func TestARouteAndALeaderAreSeenToComeAndGo(t *testing.T) {
	s := newSightings()
	begun := time.Unix(1000, 0)
	state := func(leader string, connected ...string) engine.ClusterState {
		out := engine.ClusterState{Leader: leader, Members: []engine.Member{{Name: "n1", Self: true, Connected: true}, {Name: "n2"}}}
		for _, n := range connected {
			if n == "n2" {
				out.Members[1].Connected = true
			} else {
				out.Members = append(out.Members, engine.Member{Name: n, Connected: true})
			}
		}
		return out
	}
	for i, step := range []struct {
		state       engine.ClusterState
		lost, found string
		leaderless  bool
	}{
		{state("", "n3"), "", "n3", true},
		{state("n2", "n2", "n3"), "", "n2", false},
		{state("n2", "n2", "n3"), "", "", false},
		{state("n2"), "n2 n3", "", false},
		{state(""), "", "", true},
		{state("n2", "n2", "n3"), "", "n2 n3", false},
	} {
		lost, found := s.sight(step.state, []string{"n2"}, begun.Add(time.Duration(i)*time.Second))
		if strings.Join(lost, " ") != step.lost || strings.Join(found, " ") != step.found || s.leaderless.IsZero() == step.leaderless {
			t.Errorf("step %d: got lost %v, found %v and no leader since %v, want %q, %q and %t", i, lost, found, s.leaderless, step.lost, step.found, step.leaderless)
		}
	}
	if len(s.lost) != 0 || len(s.met) != 2 {
		t.Errorf("got lost %v and met %v, want both nodes met", s.lost, s.met)
	}
}

// TestAStreamWithoutALeaderIsSaidOnce says nothing of one that is elected soon.
func TestAStreamWithoutALeaderIsSaidOnce(t *testing.T) {
	s := newSightings()
	begun := time.Unix(1000, 0)
	none := []engine.Copies{{Account: "a", Stream: "S"}}
	led := []engine.Copies{{Account: "a", Stream: "S", Leader: "n1"}}
	before := begun
	said := func(copies []engine.Copies, after time.Duration) string {
		now := begun.Add(after)
		lost, found := s.sightStreams(copies, before, now)
		before = now
		return strings.Join(lost, " ") + ";" + strings.Join(found, " ")
	}
	for i, step := range []struct {
		copies []engine.Copies
		after  time.Duration
		want   string
	}{
		{none, 0, ";"}, {led, 3 * time.Second, ";"}, // an election
		{none, 10 * time.Second, ";"}, {none, 15 * time.Second, ";"}, {none, 21 * time.Second, "a/S;"}, {none, 24 * time.Second, ";"},
		{led, 27 * time.Second, ";a/S"}, {led, 30 * time.Second, ";"},
	} {
		if got := said(step.copies, step.after); got != step.want {
			t.Errorf("step %d: got %q, want %q", i, got, step.want)
		}
	}
}
