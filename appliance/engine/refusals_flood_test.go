// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"
)

// One client that does not know its place must not cost the others theirs.
func TestFloodOfViolationsLeavesTheOthersAlone(t *testing.T) {
	const atLeast, turns = 100_000, 20
	r := newRealm(t, "shop")
	e := started(t, r, r.settings(t), nil)
	addr := open(t, e)
	conn, in := r.member(t, "shop", "flooder", onlyOrders).raw(t, addr)
	nc := dial(t, addr, r.member(t, "shop", "checkout", onlyOrders).login())

	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	// The flood lasts until the others have had their turns: how many of them one
	// of a given length leaves room for is up to the scheduler, and few on one core.
	enough, flood := make(chan struct{}), 0
	sent := make(chan error, 1)
	go func() {
		// The server answers each violation with an error, until the test ends.
		_, _ = io.Copy(io.Discard, in)
	}()
	go func() {
		out := bufio.NewWriter(conn)
		var errs error
		for ended := false; errs == nil && (!ended || flood < atLeast); flood++ {
			_, errs = fmt.Fprintf(out, "PUB secret.%d 1\r\nx\r\n", flood)
			select {
			case <-enough:
				ended = true
			default:
			}
		}
		sent <- errors.Join(errs, out.Flush())
	}()
	eventually(t, func() error {
		if len(e.refusals.list()) == 0 {
			return errors.New("got no refusal, want the flood begun")
		}
		return nil
	})
	began := time.Now()
	for range turns {
		for range 100 {
			if err := nc.Publish("orders.a", []byte("x")); err != nil {
				t.Fatal(err)
			}
		}
		if err := nc.FlushTimeout(patience); err != nil {
			t.Fatalf("flush beside the flood: %v", err)
		}
	}
	t.Logf("%d messages beside the flood in %v", 100*turns, time.Since(began))
	close(enough)
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	// As long as it takes, while it goes on.
	for counted := uint64(0); counted < uint64(flood); {
		eventually(t, func() error {
			now := e.Refusals()[0].Count
			if now == counted {
				return fmt.Errorf("got %d violations counted, want %d", now, flood)
			}
			counted = now
			return nil
		})
	}
	waitRefusals(t, e, []Refusal{{
		Account: "shop", User: "flooder", Reason: ReasonPublish, Count: uint64(flood), Example: fmt.Sprintf("secret.%d", flood-1),
	}})
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 16<<20 {
		t.Errorf("got %d bytes more on the heap after the flood, want little", grown)
	}
}

func TestFloodOfConnectionsIsCountedWhole(t *testing.T) {
	const clients, each = 4, 500
	r := newRealm(t, "shop")
	e := started(t, r, r.settings(t), nil)
	addr := open(t, e)
	// More users than may have an entry, all refused.
	logins := make([]nats.Option, 2*mostStrangers)
	for i := range logins {
		logins[i] = r.member(t, "shop", "", func(c *jwt.UserClaims) { c.Expires = 1 }).login()
	}
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			for i := range each {
				refusedLogin(t, addr, logins[i%len(logins)])
			}
		})
	}
	all.Wait()
	eventually(t, func() error {
		list := e.Refusals()
		var sum uint64
		for _, v := range list {
			sum += v.Count
		}
		if sum != clients*each || len(list) != mostStrangers+1 {
			return fmt.Errorf("got %d refusals in %d entries, want %d in %d", sum, len(list), clients*each, mostStrangers+1)
		}
		return nil
	})
}
