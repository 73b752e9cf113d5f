// SPDX-License-Identifier: Apache-2.0

package jetstream_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"
)

// TestListsAreAskedForAtTheSameTime answers none before all are asked: in a cluster each
// that has something silent in it takes the server its whole time limit.
func TestListsAreAskedForAtTheSameTime(t *testing.T) {
	c, nc := startWithoutJetStream(t)
	const streams = 10
	var mu sync.Mutex
	var waiting []*nats.Msg
	handle := func(subject string, f func(m *nats.Msg)) {
		if _, err := nc.Subscribe(subject, f); err != nil {
			t.Fatal(err)
		}
	}
	handle("$JS.API.STREAM.LIST", func(m *nats.Msg) {
		list := ""
		for i := range streams {
			list += fmt.Sprintf(`,{"config":{"name":"S%d"},"state":{"consumer_count":1}}`, i)
		}
		_ = m.Respond(fmt.Appendf(nil, `{"total":%d,"streams":[%s]}`, streams, list[1:]))
	})
	handle("$JS.API.CONSUMER.LIST.*", func(m *nats.Msg) {
		mu.Lock()
		defer mu.Unlock()
		if waiting = append(waiting, m); len(waiting) < streams {
			return
		}
		for _, m := range waiting {
			_ = m.Respond([]byte(`{"total":1,"consumers":[{"name":"c","config":{}}]}`))
		}
	})
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	have, err := c.Observe(t.Context(), []string{"shop"})
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range have.Accounts["shop"].Streams {
		if s.Unavailable != "" || len(s.Consumers) != 1 {
			t.Errorf("%s: got %q and %d consumers, want one", name, s.Unavailable, len(s.Consumers))
		}
	}
	if n := len(have.Accounts["shop"].Streams); n != streams {
		t.Errorf("got %d streams, want %d", n, streams)
	}
}
