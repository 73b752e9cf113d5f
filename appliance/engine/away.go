// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"math"

	"github.com/nats-io/nats-server/v2/server"
)

// SendAway ends the connections of clients and returns how many there were. Clients connect
// again, first to the other nodes that they know. Connections of this process stay.
func (e *Engine) SendAway() int {
	z, err := e.server.Connz(&server.ConnzOptions{Limit: math.MaxInt32})
	if err != nil {
		return 0 // the server is stopping
	}
	n := 0
	for _, c := range z.Conns {
		if c.IP != "" && e.server.DisconnectClientByID(c.Cid) == nil {
			n++
		}
	}
	return n
}
