// SPDX-License-Identifier: Apache-2.0

package load

import (
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

func TestNATSQueueTakesEveryLoad(t *testing.T) {
	srv, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: t.TempDir(), NoLog: true, NoSigs: true})
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	t.Cleanup(func() { srv.Shutdown(); srv.WaitForShutdown() })
	if !srv.ReadyForConnections(10 * time.Second) {
		t.Fatal("server: not ready after 10s")
	}
	for name, s := range map[string]Spec{
		"SYNC": {Publishers: 4}, "ASYNC": {Publishers: 1, Window: 64}, "WORK": {Publishers: 4, Workers: 4},
	} {
		s.Protocol, s.Address, s.Queue, s.Bytes = NATS, srv.Addr().String(), name, 256
		s.Warm, s.Measure = 50*time.Millisecond, 300*time.Millisecond
		if err := s.Ping(t.Context()); err != nil {
			t.Fatal(err)
		}
		got, err := s.Run(t.Context())
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got.PerSecond <= 0 || got.P50 <= 0 || got.P99 < got.P50 || got.P99 > s.Warm+s.Measure+dialLimit {
			t.Errorf("%s: got %+v, want a rate and latencies that can be", name, got)
		}
	}
}
