// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-mq/holdfast/appliance/engine"
	"github.com/holdfast-mq/holdfast/appliance/join"
)

func TestWhatIsSaidOfAMember(t *testing.T) {
	state := engine.ClusterState{Members: []engine.Member{{Name: "n2", Connected: true}, {Name: "n3"}}}
	well := peer{answer: join.Answer{Node: "n2", Wants: "w"}, asked: time.Now()}
	change := func(f func(*peer)) peer {
		p := well
		f(&p)
		return p
	}
	for name, c := range map[string]struct {
		said    peer
		problem string // "" for none
		current bool
		other   bool
	}{
		"well":            {well, "", true, false},
		"another file":    {change(func(p *peer) { p.answer.Wants = "v" }), "", true, true},
		"not asked yet":   {peer{}, "not heard of yet", false, false},
		"no answer":       {change(func(p *peer) { p.err = errors.New("connection refused") }), "connection refused", false, false},
		"no route":        {change(func(p *peer) { p.answer.Node = "n3" }), "no route to n:6222", false, false},
		"copies to come":  {change(func(p *peer) { p.answer.Lacks = "stream 'S' is not current" }), "does not have everything yet: stream 'S'", false, false},
		"a clock that is": {change(func(p *peer) { p.ahead = time.Hour }), "its clock is 1h0m0s before", true, false},
	} {
		m := member("n:6222", false, c.said, state, "w")
		if (m.Problem == "") != (c.problem == "") || !strings.Contains(m.Problem, c.problem) || m.Current != c.current || m.OtherFile != c.other {
			t.Errorf("%s: got %+v, want problem %q, current %t and another file %t", name, m, c.problem, c.current, c.other)
		}
	}
}
