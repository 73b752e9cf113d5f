// SPDX-License-Identifier: Apache-2.0

package load

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// still is a server that takes a fixed time for a message, and half of it for a delivery.
type still struct {
	takes time.Duration
	open  atomic.Int64 // sent and not acknowledged
	most  atomic.Int64
	fails error
	gone  atomic.Int64
}

func (s *still) declare(context.Context) error                 { return nil }
func (s *still) publisher(context.Context) (publisher, error)  { return stillClient{s}, nil }
func (s *still) worker(context.Context) (worker, error)        { return stillClient{s}, nil }
func (s *still) removed(context.Context, int64) (int64, error) { return s.gone.Load(), nil }
func (s *still) close()                                        {}

type stillClient struct{ *still }

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c stillClient) publish(ctx context.Context, _ []byte) error {
	return errors.Join(pause(ctx, c.takes), c.fails)
}

func (c stillClient) send(context.Context, []byte) (func(context.Context) error, error) {
	if n := c.open.Add(1); n > c.most.Load() {
		c.most.Store(n)
	}
	return func(ctx context.Context) error {
		defer c.open.Add(-1)
		return errors.Join(pause(ctx, c.takes), c.fails)
	}, nil
}

func (c stillClient) flush() error { return nil }

func (c stillClient) work(ctx context.Context, t *tally) error {
	for ctx.Err() == nil {
		m := message{t.clock, make([]byte, stampBytes)}
		m.stamp()
		if pause(ctx, c.takes/2) == nil {
			t.delivered(m.body)
			t.acked.Add(1)
			c.gone.Add(1)
		}
	}
	return nil
}

func measureStill(t *testing.T, s Spec, srv *still) (Result, error) {
	t.Helper()
	r := &run{spec: s, server: srv}
	if err := r.connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	return r.measure(t.Context())
}

func near(got, want float64) bool { return got > want*0.98 && got < want*1.02 }

func TestRateAndLatencyAreThoseOfTheServer(t *testing.T) {
	for _, c := range []struct {
		name      string
		spec      Spec
		perSecond float64
	}{
		{"each waits for its own", Spec{Publishers: 4}, 400},
		// One is waited for at a time: the server acknowledges one each 10 ms.
		{"a window", Spec{Publishers: 1, Window: 8}, 100},
		{"what the workers removed", Spec{Publishers: 8, Workers: 2}, 400},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := c.spec
				s.Bytes, s.Warm, s.Measure = 256, 105*time.Millisecond, time.Second
				got, err := measureStill(t, s, &still{takes: 10 * time.Millisecond})
				if err != nil {
					t.Fatal(err)
				}
				if !near(got.PerSecond, c.perSecond) {
					t.Errorf("got %v messages per second, want %v", got.PerSecond, c.perSecond)
				}
				latency := 10 * time.Millisecond
				if s.Window > 0 {
					latency *= time.Duration(s.Window)
				}
				if s.Workers > 0 {
					latency /= 2 // to the delivery, not to the acknowledgement
				}
				if got.P50 != latency || got.P99 != latency {
					t.Errorf("got p50 %s and p99 %s, want %s", got.P50, got.P99, latency)
				}
			})
		})
	}
}

func TestWindowIsUsedAndNotExceeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := &still{takes: time.Millisecond}
		if _, err := measureStill(t, Spec{Publishers: 1, Window: 16, Measure: time.Second}, srv); err != nil {
			t.Fatal(err)
		}
		if got := srv.most.Load(); got != 16 {
			t.Errorf("got at most %d unacknowledged messages, want 16", got)
		}
	})
}

func TestOneFailureFailsTheMeasurement(t *testing.T) {
	refused := errors.New("refused")
	for _, window := range []int{0, 16} {
		synctest.Test(t, func(t *testing.T) {
			_, err := measureStill(t, Spec{Publishers: 3, Window: window, Measure: time.Second}, &still{takes: time.Millisecond, fails: refused})
			if !errors.Is(err, refused) {
				t.Errorf("window %d: got %v, want %v", window, err, refused)
			}
		})
	}
}

func TestQuantileIsAValueThatWasSeen(t *testing.T) {
	sorted := make([]time.Duration, 200)
	for i := range sorted {
		sorted[i] = time.Duration(i)
	}
	for share, want := range map[float64]time.Duration{0: 0, 0.5: 100, 0.99: 198, 1: 199} {
		if got := quantile(sorted, share); got != want {
			t.Errorf("%v of 0…199: got %d, want %d", share, got, want)
		}
	}
	if got := quantile(nil, 0.5); got != 0 {
		t.Errorf("nothing: got %d, want 0", got)
	}
}
