// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
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
		"_hf.in.orders.a", "_hf.out.orders.a", "_hf.out.x.orders.a"}
	// The way in is as open as the subject that it is for, and no more.
	wayIn := map[string]string{"orders.a": "_hf.in.ORDERS.orders.a", "orders.eu.new": "_hf.in.ORDERS.orders.eu.new", "bills": "_hf.in.BILLS.bills", "elsewhere": "_hf.in.ORDERS.elsewhere"}
	mayPublish := []string{"admin", "all", "orders", "some", "wide", "own"}
	for _, user := range []string{"admin", "all", "orders", "looker", "worker", "some", "wide", "own"} {
		t.Run(user, func(t *testing.T) {
			var lines [2][]string
			for n, s := range []*side{off, on} {
				lines[n] = s.tries(t, user, subjects)
			}
			if diff := cmp.Diff(lines[0], lines[1]); diff != "" {
				t.Errorf("off (-) and on (+) differ:\n%s", diff)
			}
			if kept := strings.Contains(strings.Join(lines[0], "\n"), "kept"); kept != slices.Contains(mayPublish, user) {
				t.Errorf("got kept %t of %q, want it of those only who may publish", kept, lines[0])
			}
			var pairs []string
			for subject, in := range wayIn {
				pairs = append(pairs, subject, in)
			}
			for got := range slices.Chunk(on.tries(t, user, pairs), 2) {
				if strings.Contains(got[1], "kept") && !strings.Contains(got[0], "kept") {
					t.Errorf("got %q, want no way around a permission", got)
				}
			}
		})
	}
}

var leadsTo = regexp.MustCompile(`_hf\.in\.[A-Z]+\.`)

// tries publishes to subjects and returns what the user and the streams say.
func (s *side) tries(t *testing.T, user string, subjects []string) []string {
	t.Helper()
	var mu sync.Mutex
	var errs []string
	refusedNow := func() {} // ends the wait for an answer; guarded by mu
	nc, _ := s.connect(t, user, nats.CustomInboxPrefix("_inbox."+user), nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
		mu.Lock()
		defer mu.Unlock()
		errs = append(errs, err.Error())
		refusedNow()
	}))
	admin, _ := s.connect(t, "admin")
	count := func() uint64 {
		n := uint64(0)
		for _, stream := range []string{"ORDERS", "BILLS"} {
			var info struct {
				State jetstream.StreamState `json:"state"`
			}
			if err := call(admin, "STREAM.INFO."+stream, nil, &info); err != nil {
				t.Fatal(err)
			}
			n += info.State.LastSeq
		}
		return n
	}
	var out []string
	for _, subject := range subjects {
		before := count()
		answered := "no answer"
		// Long, for a purge that waits for the disk; who is refused is told of it at once.
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		mu.Lock()
		refusedNow = cancel
		mu.Unlock()
		m, err := nc.RequestWithContext(ctx, subject, []byte("x"))
		cancel()
		if err == nil {
			answered = "an answer"
			if a, err := readAnswer(m); err == nil {
				answered = a.kind()
			}
		}
		if err := nc.Flush(); err != nil {
			t.Fatal(err)
		}
		_ = waitFor(absence, func() error {
			mu.Lock()
			defer mu.Unlock()
			if len(errs) == 0 && answered == "no answer" {
				return errStill // the client tells of errors beside
			}
			return nil
		})
		mu.Lock()
		// The server names the subject that a publish leads to.
		refused := leadsTo.ReplaceAllString(strings.Join(errs, "; "), "")
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
			t.Parallel()
			var lines [2][]string
			for n, s := range []*side{off, on} {
				lines[n] = s.breaks(t, strings.ReplaceAll(name, " ", "-"), text)
			}
			if diff := cmp.Diff(lines[0], lines[1]); diff != "" {
				t.Errorf("off (-) and on (+) differ:\n%s", diff)
			}
		})
	}
}

// breaks writes to a connection and returns what comes of it. In text, orders.a and
// its like are of the token.
func (s *side) breaks(t *testing.T, token, text string) []string {
	t.Helper()
	text = strings.ReplaceAll(text, " orders.", " orders."+token+".")
	closed := make(chan struct{})
	nc, wire := s.connect(t, "admin", nats.ClosedHandler(func(*nats.Conn) { close(closed) }))
	admin, _ := s.connect(t, "admin")
	if m, err := nc.Request("orders."+token+".before", []byte("before"), patience); err != nil || len(m.Data) == 0 {
		t.Errorf("%s: got %v, %v, want an answer", s.name, m, err)
	}
	// The server need not read to the end what it refuses.
	_, failed := wire.Write([]byte(text))
	end := "goes on"
	if err := nc.FlushTimeout(patience); err != nil || failed != nil {
		select {
		case <-closed:
			end = "ends"
		case <-time.After(patience):
			t.Errorf("%s: got %v, want the connection closed", s.name, errors.Join(failed, err))
		}
	}
	// A neighbour of the same stream must not feel it.
	if m, err := admin.Request("orders."+token+".after", []byte("after"), patience); err != nil || len(m.Data) == 0 {
		t.Errorf("%s: got %v, %v of a neighbour's message, want an answer", s.name, m, err)
	}
	all, _, err := stored(admin, "ORDERS")
	if err != nil {
		t.Fatal(err)
	}
	out := []string{end}
	for _, w := range all {
		if strings.HasPrefix(w.Subject, "orders."+token+".") {
			out = append(out, w.String())
		}
	}
	return out
}
