// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
)

const refusals = `    users:
      admin: {inbox: shared}
      all: {role: producer, streams: [ORDERS, BILLS]}
      orders: {role: producer, streams: [ORDERS]}
      looker: {role: observer}
      worker: {role: worker, consumers: [ORDERS/work]}
      some: {permissions: {publish: ["orders.eu.>", "core.>"], subscribe: ["orders.>"]}}
      wide: {permissions: {publish: [">"], subscribe: [">"]}}
      own: {permissions: {publish: ["orders.*.new", "bills"], subscribe: []}, inbox: private}
    streams:
      ORDERS: {group_commit: GROUP, subjects: ["orders.>"], max_bytes: 16MiB, consumers: {work: {}}}
      BILLS: {group_commit: GROUP, subjects: ["bills", "bills.*.x"], max_bytes: 16MiB}
`

// TestTransparencyOfPermissions publishes as every kind of user, to what it may and
// to what it may not.
func TestTransparencyOfPermissions(t *testing.T) {
	off, on := twoSides(t, refusals)
	subjects := []string{"orders.a", "orders.eu.a", "orders.eu.new", "bills", "bills.a.x", "bills.a", "core.a", "elsewhere",
		"$JS.API.STREAM.INFO.ORDERS", "$JS.API.STREAM.PURGE.ORDERS", "$JS.ACK.ORDERS.work.1.1.1.1.1", "$JS.ACK.BILLS.work.1.1.1.1.1",
		"_hf.in.ORDERS.orders.a", "_hf.in.orders.a", "_hf.out.orders.a", "_hf.out.x.orders.a"}
	for _, user := range []string{"admin", "all", "orders", "looker", "worker", "some", "wide", "own"} {
		t.Run(user, func(t *testing.T) {
			var lines [2][]string
			for n, s := range []*side{off, on} {
				lines[n] = s.tries(t, user, subjects)
			}
			if diff := cmp.Diff(lines[0], lines[1]); diff != "" {
				t.Errorf("off (-) and on (+) differ:\n%s", diff)
			}
			if !strings.Contains(strings.Join(lines[0], "\n"), "kept") && slices.Contains([]string{"admin", "all", "orders", "some", "wide", "own"}, user) {
				t.Errorf("got nothing kept of %q, want something", lines[0])
			}
		})
	}
}

// tries publishes to subjects and returns what the user and the streams say.
func (s *side) tries(t *testing.T, user string, subjects []string) []string {
	t.Helper()
	var mu sync.Mutex
	var errs []string
	nc, _ := s.connect(t, user, nats.CustomInboxPrefix("_inbox."+user), nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
		mu.Lock()
		defer mu.Unlock()
		errs = append(errs, err.Error())
	}))
	admin, _ := s.connect(t, "admin")
	count := func() uint64 {
		n := uint64(0)
		for _, stream := range []string{"ORDERS", "BILLS"} {
			_, state, err := stored(admin, stream)
			if err != nil || state == nil {
				t.Fatalf("%s: got %v, %v, want its state", stream, state, err)
			}
			n += state.LastSeq
		}
		return n
	}
	var out []string
	for _, subject := range subjects {
		before := count()
		answered := "no answer"
		if m, err := nc.Request(subject, []byte("x"), 80*time.Millisecond); err == nil {
			answered = "an answer"
			if a, err := readAnswer(m); err == nil {
				answered = a.kind()
			}
		}
		if err := nc.Flush(); err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		refused := strings.Join(errs, "; ")
		errs = nil
		mu.Unlock()
		kept := "nothing"
		if count() > before {
			kept = "kept"
		}
		out = append(out, fmt.Sprintf("%s: %s, %s, %q", subject, answered, kept, refused))
	}
	return out
}

// TestTransparencyOfABrokenProtocol sends what ends a connection.
func TestTransparencyOfABrokenProtocol(t *testing.T) {
	off, on := twoSides(t, refusals)
	for name, text := range map[string]string{
		"one byte too many":         string(publication("orders.a", "", "", strings.Repeat("x", 1<<20+1))),
		"a header too many":         string(publication("orders.a", "", "X: y", strings.Repeat("x", 1<<20))),
		"a payload without its end": "PUB orders.a 3\r\nabcdef\r\n",
		"no size":                   "PUB orders.a\r\n",
		"a size that is none":       "PUB orders.a many\r\n",
		"header longer than all":    "HPUB orders.a 30 10\r\n0123456789\r\n",
		"unknown verb":              "PUBLISH orders.a 1\r\nx\r\n",
		"a wildcard":                string(publication("orders.*", "", "", "x")),
		"a wildcard at the end":     string(publication("orders.>", "", "", "x")),
		"an empty token":            string(publication("orders..a", "", "", "x")),
		"a dot at the end":          string(publication("orders.a.", "", "", "x")),
	} {
		t.Run(name, func(t *testing.T) {
			var lines [2][]string
			for n, s := range []*side{off, on} {
				lines[n] = s.breaks(t, text)
			}
			if diff := cmp.Diff(lines[0], lines[1]); diff != "" {
				t.Errorf("off (-) and on (+) differ:\n%s", diff)
			}
		})
	}
}

// breaks writes to a connection and returns what comes of it.
func (s *side) breaks(t *testing.T, text string) []string {
	t.Helper()
	closed := make(chan struct{})
	nc, wire := s.connect(t, "admin", nats.ClosedHandler(func(*nats.Conn) { close(closed) }))
	admin, _ := s.connect(t, "admin")
	// A neighbour of the same stream must not feel it.
	if _, err := wire.Write(append(publication("orders.before", "", "", "before"), text...)); err != nil {
		t.Fatal(err)
	}
	end := "goes on"
	if err := nc.FlushTimeout(patience); err != nil {
		<-closed
		end = fmt.Sprintf("ends: %v", nc.LastError())
	}
	if m, err := admin.Request("orders.after", []byte("after"), patience); err != nil || len(m.Data) == 0 {
		t.Errorf("%s: got %v, %v of a neighbour's message, want an answer", s.name, m, err)
	}
	all, _, err := stored(admin, "ORDERS")
	if err != nil {
		t.Fatal(err)
	}
	out := []string{end}
	for _, w := range all {
		out = append(out, fmt.Sprintf("%d %s", w.Seq, w))
	}
	return out
}
