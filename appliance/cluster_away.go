// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"time"

	"github.com/holdfast-mq/holdfast/appliance/engine"
)

const (
	// awayFirst is how long a node has to hear too few of the others before it sends its
	// clients to them; a route that is made again takes less.
	awayFirst = 5 * time.Second
	// awayLast is the longest time between two such tries: clients that have no other node
	// come back, and are not to be disturbed for nothing.
	awayLast = 5 * time.Minute
)

// away decides when a node that is cut off sends its clients to the other nodes. Clients do
// not notice themselves: their connection is as good as ever, and nothing that has copies is
// acknowledged. docs/adr/0018.
type away struct {
	next  time.Time // zero while the node is not cut off
	pause time.Duration
}

// due is true when clients are to be sent away now.
func (a *away) due(cutOff bool, now time.Time) bool {
	switch {
	case !cutOff:
		*a = away{}
	case a.next.IsZero():
		a.pause = awayFirst
		a.next = now.Add(a.pause)
	case !now.Before(a.next):
		a.pause = min(2*a.pause, awayLast)
		a.next = now.Add(a.pause)
		return true
	}
	return false
}

// cutOff reports whether a node hears of too few others for them to decide on anything
// together with it.
func cutOff(state engine.ClusterState) bool {
	up := 0
	for _, m := range state.Members {
		if m.Self || m.Connected {
			up++
		}
	}
	return up < state.Quorum
}

// sendAway has clients connect to other nodes.
func (a *Appliance) sendAway() {
	if n := a.engine.SendAway(); n > 0 {
		a.log.Warn("clients sent to the other nodes: this one hears too few of them to store what has copies", keyCount, n,
			keyFix, "bring the other nodes up, or mend the way to them; `holdfast cluster status` shows which")
	}
}
