// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-mq/holdfast/appliance/admin"
)

// TestABigClusterFitsAScreen sums streams up, and names all when it is asked to.
func TestABigClusterFitsAScreen(t *testing.T) {
	since := time.Now().Add(-time.Minute)
	c := admin.Cluster{Name: "c", Leader: "n1", Size: 3, Quorum: 2, Nodes: []admin.Member{
		{Address: "a:1", Name: "n1", Self: true, Current: true}, {Address: "b:1", Name: "n2", Connected: true, Current: true, ClockAhead: -2, Warnings: []string{"its clock is 2s behind this node's"}},
		{Address: "c:1", Name: "n3", Problem: "gone", Fix: "start it"},
	}}
	var stops []string
	for i := range 500 {
		name := fmt.Sprintf("shop/S%03d", i)
		p := admin.Placement{Name: name, Leader: "n1", Copies: []admin.Copy{{Node: "n1", Current: true}, {Node: "n2", Current: true}, {Node: "n3", Offline: true, Seen: 9}}}
		switch {
		case i < 100:
			p.Leader, p.Problem, p.Fix, p.NoLeaderSince = "", "no leader at all", "wait", &since
		case i < 200:
			p.Copies = []admin.Copy{{Node: "n1", Current: true}}
			stops = append(stops, name)
		case i == 200:
			p.Copies[2] = admin.Copy{Node: "n3", Behind: 1234, Seen: 9}
		}
		c.Streams = append(c.Streams, p)
	}
	c.Losses = []admin.Loss{{Node: "n1", Stops: stops, Loses: stops[:1]}, {Node: "n2"}}
	var short, long strings.Builder
	printCluster(&short, c, false)
	printCluster(&long, c, true)
	if n := strings.Count(short.String(), "\n"); n > 30 {
		t.Errorf("got %d lines, want what fits a screen:\n%s", n, &short)
	}
	for _, want := range []string{
		"500 streams, 100 with one copy only; 400 with copies that are not as they should be:",
		"shop/S000, shop/S001, shop/S002 and 97 more: no leader at all, since ", "fix: wait",
		"shop/S200: n3 is 1,234 changes behind, last heard of 9.0s ago\n", "shop/S201: n3 is gone\n", "and 293 more; --all names them",
		"Losing n1 stops shop/S100, shop/S101, shop/S102 and 97 more; losing its disk loses shop/S100.\nLosing n2 stops nothing.\n",
		"-2s", "warning: its clock is 2s behind", "c:1: gone\n    fix: start it\n",
	} {
		if !strings.Contains(short.String(), want) {
			t.Errorf("got %s\nwant %q in it", &short, want)
		}
	}
	for _, want := range []string{"shop/S099: no leader", "shop/S150: on n1, n1 leads", "shop/S499: n3 is gone", "shop/S198, shop/S199; losing"} {
		if !strings.Contains(long.String(), want) {
			t.Errorf("--all: got no %q", want)
		}
	}
}

// TestClusterStatusSaysWhatHasStopped has two of three nodes down, and one whose publishers
// are stopped.
func TestClusterStatusSaysWhatHasStopped(t *testing.T) {
	since := time.Now().Add(-time.Minute)
	c := admin.Cluster{Name: "c", Leader: "n1", Size: 3, Quorum: 2, Stopped: true,
		Nodes:   []admin.Member{{Address: "a:1", Name: "n1", Self: true, Current: true}, {Address: "b:1", Name: "n2"}, {Address: "c:1"}},
		Returns: []admin.Return{{Node: "n2", Address: "b:1", Enough: true, Waits: []string{"shop/ONE"}}, {Address: "c:1", Enough: true}},
		Losses:  []admin.Loss{{Node: "n1", Everything: true}},
	}
	full := admin.Cluster{Name: "c", Leader: "n1", Size: 3, Quorum: 2,
		Nodes: []admin.Member{
			{Address: "a:1", Name: "n1", Self: true, Current: true},
			{Address: "b:1", Name: "n2", Connected: true, Problem: "publishing stopped there", Fix: "make room", PublishingStopped: "why", PublishingStoppedSince: &since},
		},
		Streams: []admin.Placement{{Name: "shop/A", Leader: "n2"}, {Name: "shop/A/worker", Leader: "n2"}, {Name: "shop/B", Leader: "n1"}},
	}
	for _, v := range []struct {
		c     admin.Cluster
		want  []string
		never string
	}{
		{c, []string{
			"has stopped, for too few nodes are up: 1 of 3, and 2 are needed.", "With n2 back everything goes on but shop/ONE.\n", "With c:1 back everything goes on.\n",
		}, "Losing"},
		{full, []string{"b:1: publishing stopped there\n    fix: make room\n    streams that it leads: shop/A\n"}, "shop/B,"},
	} {
		var got strings.Builder
		printCluster(&got, v.c, false)
		for _, want := range v.want {
			if !strings.Contains(got.String(), want) {
				t.Errorf("got %s\nwant %q in it", &got, want)
			}
		}
		if strings.Contains(got.String(), v.never) {
			t.Errorf("got %s\nwant no %q in it", &got, v.never)
		}
	}
	c.Quorum, c.Returns[0].Enough = 3, false
	var got strings.Builder
	printCluster(&got, c, false)
	if !strings.Contains(got.String(), "n2 alone is not enough: 2 of those that are down have to be back.") {
		t.Errorf("got %s", &got)
	}
}

func TestAFileThatIsNotInForceIsNamed(t *testing.T) {
	var out strings.Builder
	printCluster(&out, admin.Cluster{Leader: "n1", Nodes: []admin.Member{
		{Address: "a:1", Name: "n1", Self: true}, {Address: "b:1", Name: "n2", Connected: true, FileRefused: "the file as it is now is not in force: unknown key"},
	}}, false)
	for _, want := range []string{"NOT IN FORCE\n", "\nb:1: the file as it is now is not in force: unknown key\n    fix: "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("got %s\nwant %q in it", &out, want)
		}
	}
}

func TestAFileThatDiffersIsNamedWithWhoseCounts(t *testing.T) {
	const durable = "storage.durability is interval on node n2 and strict on node n1 (each node flushes by its own)"
	for name, c := range map[string]struct {
		leader string
		other  bool
		differ []string
		want   string // "" for nothing
	}{
		"the same": {leader: "n1"},
		"group_commit alone": {"n1", false, []string{"group_commit of shop/ORDERS is off on node n2 and auto on node n1"},
			"b:1: its file differs: group_commit of shop/ORDERS is off on node n2 and auto on node n1; that of node n1 counts, which leads\n    fix: put the same file on all nodes\n"},
		"streams":             {"n2", true, nil, "b:1: its file asks for other accounts, users or streams; that of node n2 counts, which leads\n"},
		"both, and no leader": {"", true, []string{durable}, "users or streams: " + durable + "; that of the node that leads counts\n"},
	} {
		var out strings.Builder
		printCluster(&out, admin.Cluster{Leader: c.leader, Nodes: []admin.Member{
			{Address: "a:1", Name: "n1", Self: true}, {Address: "b:1", Name: "n2", Connected: true, Current: true, OtherFile: c.other, Differs: c.differ},
		}}, false)
		if strings.Contains(out.String(), "DIFFERS") != (c.want != "") || !strings.Contains(out.String(), c.want) || c.want == "" && strings.Contains(out.String(), "counts") {
			t.Errorf("%s: got %s\nwant %q", name, &out, c.want)
		}
	}
}
