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
	const flood = 100_000
	r := newRealm(t, "shop")
	e := started(t, r, r.settings(t), nil)
	addr := open(t, e)
	conn, in := r.member(t, "shop", "flooder", onlyOrders).raw(t, addr)
	nc := dial(t, addr, r.member(t, "shop", "checkout", onlyOrders).login())

	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	sent := make(chan error, 1)
	go func() {
		// The server answers each violation with an error, until the test ends.
		_, _ = io.Copy(io.Discard, in)
	}()
	go func() {
		out := bufio.NewWriter(conn)
		var errs error
		for i := range flood {
			_, err := fmt.Fprintf(out, "PUB secret.%d 1\r\nx\r\n", i)
			errs = errors.Join(errs, err)
		}
		sent <- errors.Join(errs, out.Flush())
	}()
	began, batches := time.Now(), 0
	counted := func() bool {
		list := e.refusals.list()
		return len(list) > 0 && list[0].Count == flood
	}
	for ; !counted() && time.Since(began) < time.Minute; batches++ {
		for range 100 {
			if err := nc.Publish("orders.a", []byte("x")); err != nil {
				t.Fatal(err)
			}
		}
		if err := nc.FlushTimeout(5 * time.Second); err != nil {
			t.Fatalf("flush beside the flood: %v", err)
		}
	}
	t.Logf("%d messages beside the flood in %v", 100*batches, time.Since(began))
	// Several hundred on a small machine.
	if batches < 20 {
		t.Errorf("got %d batches through beside the flood, want more", batches)
	}
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	waitRefusals(t, e, []Refusal{{
		Account: "shop", User: "flooder", Reason: ReasonPublish, Count: flood, Example: fmt.Sprintf("secret.%d", flood-1),
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
