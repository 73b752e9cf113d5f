// SPDX-License-Identifier: Apache-2.0

package jetstream_test

import (
	"fmt"
	"testing"

	"github.com/holdfast-mq/holdfast/bootstrap"
	"github.com/holdfast-mq/holdfast/bootstrap/jetstream"
)

func TestStepDownMakesAnotherNodeLead(t *testing.T) {
	servers := startOpenCluster(t)
	c := openClient(t, servers[0])
	eventually(t, func() error {
		return c.Execute(t.Context(), bootstrap.Diff(events(t, 3), observe(t, c, "shop"), nil), jetstream.Order{}).Err()
	})
	stream := func() bootstrap.ObservedStream { return observe(t, c, "shop").Accounts["shop"].Streams["EVENTS"] }
	first := ""
	eventually(t, func() error {
		if first = stream().Placement.Leader; first == "" {
			return fmt.Errorf("nobody leads yet")
		}
		return nil
	})
	if err := c.StepDown(t.Context(), "shop", "EVENTS", ""); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		if now := stream().Placement.Leader; now == "" || now == first {
			return fmt.Errorf("got leader %q after %q, want another one", now, first)
		}
		return nil
	})
	for name := range stream().Consumers {
		eventually(t, func() error { return c.StepDown(t.Context(), "shop", "EVENTS", name) })
	}
	if err := c.StepDown(t.Context(), "shop", "NOTHING", ""); err == nil {
		t.Error("got no error of a stream that is not there")
	}
}
