// SPDX-License-Identifier: Apache-2.0

package jetstream_test

import (
	"context"
	"errors"
	"testing"
)

func TestRoundTripNeedsAServerThatServes(t *testing.T) {
	n := startNode(t)
	c := newClient(t, n)
	for range 3 {
		if err := c.RoundTrip(t.Context(), "SYS"); err != nil {
			t.Errorf("got %v, want a message there and back", err)
		}
	}
	if got := c.Connections(); got != 1 {
		t.Errorf("got %d connections, want one for all", got)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.RoundTrip(ended, "SYS"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want no longer a wait than the context", err)
	}
	n.Shutdown()
	n.WaitForShutdown()
	if err := c.RoundTrip(t.Context(), "SYS"); err == nil {
		t.Error("got a message there and back through a server that is down, want an error")
	}
}
