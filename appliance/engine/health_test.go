// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"net/http"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
)

func TestSettleAsksAgainOnlyWhileTheServerListens(t *testing.T) {
	const ok, busy, ill = http.StatusOK, http.StatusInternalServerError, http.StatusServiceUnavailable
	for name, c := range map[string]struct {
		answers    []int
		listening  bool
		want, asks int
	}{
		"healthy":       {[]int{ok}, true, ok, 1},
		"fooled twice":  {[]int{busy, busy, ok}, true, ok, 3},
		"not listening": {[]int{busy, ok}, false, busy, 1},
		"really ill":    {[]int{ill, ok}, true, ill, 1},
		"never settles": {[]int{busy, busy, busy, busy, busy, busy, busy}, true, busy, 6},
	} {
		t.Run(name, func(t *testing.T) {
			asks := 0
			h := settle(func() *server.HealthStatus {
				asks++
				return &server.HealthStatus{StatusCode: c.answers[asks-1]}
			}, func() bool { return c.listening })
			if h.StatusCode != c.want || asks != c.asks {
				t.Errorf("got %d after %d questions, want %d after %d", h.StatusCode, asks, c.want, c.asks)
			}
		})
	}
}

func TestStatsCountWhatHappened(t *testing.T) {
	r := newRealm(t, "shop")
	s := r.settings(t)
	e := started(t, r, s, nil)
	fill(t, r, e, "shop", 2, 5)
	connect(t, r, e, "shop")
	got, err := e.Stats()
	if err != nil {
		t.Fatal(err)
	}
	if got.StoreUsed < 10*100 || got.StoreLimit != s.MaxStoreBytes || got.MemoryLimit != s.MaxMemoryBytes {
		t.Errorf("got storage %d of %d and memory limit %d", got.StoreUsed, got.StoreLimit, got.MemoryLimit)
	}
	if got.Accounts != 1 || got.APIRequests < 2 || got.APIErrors != 0 {
		t.Errorf("got %d accounts, %d API requests, %d errors", got.Accounts, got.APIRequests, got.APIErrors)
	}
	if got.Connections < 1 || got.ConnectionsTotal != 2 || got.InMessages < 10 || got.InBytes < 1000 || got.Started.IsZero() {
		t.Errorf("got %+v", got)
	}
}
