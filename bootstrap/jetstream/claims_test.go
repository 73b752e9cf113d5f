// SPDX-License-Identifier: Apache-2.0

package jetstream_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/holdfast-mq/holdfast/bootstrap"
	"github.com/holdfast-mq/holdfast/bootstrap/jetstream"
)

// tokenTakers answers for the nodes of a cluster, each as many requests late as it says.
func tokenTakers(t *testing.T, n *node, late map[string]int) (asked func() int) {
	t.Helper()
	nc := connect(t, n, "SYS")
	count := 0
	requests := make(chan int, 100)
	if _, err := nc.Subscribe("$SYS.REQ.CLAIMS.UPDATE", func(m *nats.Msg) {
		count++
		requests <- count
		for name, from := range late {
			if count > from {
				_ = m.Respond(fmt.Appendf(nil, `{"server":{"name":%q},"data":{"code":200}}`, name))
			}
		}
	}); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	return func() int { return len(requests) }
}

func TestATokenIsTakenByEveryNode(t *testing.T) {
	for name, c := range map[string]struct {
		late   map[string]int
		others []string
		asked  int
		silent []string
	}{
		"a node alone":                {late: map[string]int{"n1": 0}, asked: 1},
		"all at once":                 {late: map[string]int{"n1": 0, "n2": 0, "n3": 0}, others: []string{"n2", "n3"}, asked: 1},
		"one that was not there yet":  {late: map[string]int{"n1": 0, "n2": 0, "n3": 2}, others: []string{"n2", "n3"}, asked: 3},
		"one that hears nothing":      {late: map[string]int{"n1": 0, "n2": 0}, others: []string{"n2", "n3"}, asked: 3, silent: []string{"n3"}},
		"the others before this node": {late: map[string]int{"n1": 1, "n2": 0}, others: []string{"n2"}, asked: 2},
	} {
		t.Run(name, func(t *testing.T) {
			n := startNode(t)
			asked := tokenTakers(t, n, c.late)
			silent, err := newClient(t, n).UpdateAccount(context.Background(), "SYS", "token", c.others)
			if err != nil || !slices.Equal(silent, c.silent) {
				t.Errorf("silent: %v (%v), want %v", silent, err, c.silent)
			}
			if got := asked(); got < c.asked {
				t.Errorf("asked %d times, want at least %d", got, c.asked)
			}
		})
	}
	for node, refuses := range map[string]bool{"n1": true, "n2": false} {
		t.Run("refused by "+node, func(t *testing.T) {
			n := startNode(t)
			tokenTakers(t, n, map[string]int{"n1": 1, "n2": 1})
			nc := connect(t, n, "SYS")
			if _, err := nc.Subscribe("$SYS.REQ.CLAIMS.UPDATE", func(m *nats.Msg) {
				_ = m.Respond(fmt.Appendf(nil, `{"server":{"name":%q},"error":{"description":"no space left on device"}}`, node))
			}); err != nil {
				t.Fatal(err)
			}
			if err := nc.Flush(); err != nil {
				t.Fatal(err)
			}
			silent, err := newClient(t, n).UpdateAccount(context.Background(), "SYS", "token", []string{"n2"})
			if refused := err != nil && strings.Contains(err.Error(), "no space left on device"); refused != refuses || len(silent) > 0 {
				t.Errorf("UpdateAccount: %v, silent %v", err, silent)
			}
		})
	}
}

func TestCreateWaitsUntilANodeKnowsTheAccount(t *testing.T) {
	c, nc := startWithoutJetStream(t)
	asked := 0
	if _, err := nc.Subscribe("$JS.API.STREAM.CREATE.JOBS", func(m *nats.Msg) {
		if asked++; asked < 3 {
			_ = m.Respond([]byte(`{"error":{"code":503,"err_code":10035,"description":"account not found"}}`))
			return
		}
		_ = m.Respond([]byte(`{"config":{"name":"JOBS"}}`))
	}); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	plan := bootstrap.Plan{Actions: []bootstrap.Action{{Op: bootstrap.Create, Kind: bootstrap.KindStream, Account: "shop", Stream: "JOBS", Spec: map[string]any{"name": "JOBS"}}}}
	report := c.Execute(context.Background(), plan, jetstream.Order{})
	if got := report.Results[0]; got.Err != nil {
		t.Errorf("got %v, want the stream after some tries", got.Err)
	}
}
