// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"slices"
	"testing"
	"time"

	"github.com/holdfast-mq/holdfast/appliance/engine"
)

func TestClientsAreSentAwayFromANodeThatIsCutOff(t *testing.T) {
	state := func(quorum int, connected ...string) engine.ClusterState {
		out := engine.ClusterState{Size: 3, Quorum: quorum}
		for _, n := range []string{"n1", "n2", "n3"} {
			out.Members = append(out.Members, engine.Member{Name: n, Self: n == "n1", Connected: slices.Contains(connected, n)})
		}
		return out
	}
	for name, c := range map[string]struct {
		state engine.ClusterState
		want  bool
	}{
		"all":                 {state(2, "n2", "n3"), false},
		"one other is enough": {state(2, "n3"), false},
		"nobody else":         {state(2), true},
		"not known yet":       {state(0), false},
	} {
		if got := cutOff(c.state); got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}

	begin := time.Unix(1000, 0)
	var a away
	var sent []int
	for s := range 200 {
		// Whole again for a moment after a minute and a half.
		if a.due(s != 90, begin.Add(time.Duration(s)*time.Second)) {
			sent = append(sent, s)
		}
	}
	// Twice as long each time; and anew after it was whole.
	if want := []int{5, 15, 35, 75, 96, 106, 126, 166}; !slices.Equal(sent, want) {
		t.Errorf("sent away after %v s, want %v", sent, want)
	}
}
