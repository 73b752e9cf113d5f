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
			p.Copies[2] = admin.Copy{Node: "n3", Behind: 1234}
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
		"shop/S200: n3 is 1,234 changes behind\n", "shop/S201: n3 is gone, last heard of 9.0s ago\n", "and 293 more; --all names them",
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
