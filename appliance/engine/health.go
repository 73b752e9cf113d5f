// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

// Health reports whether the process should go on: nothing fatal was recorded
// and the server's listeners are up. It does not depend on peers, quorum or the
// disk, so that nobody restarts a node for what a restart can not heal; nor is a
// node ill that recovers its streams, however long, or sends its clients away.
func (e *Engine) Health() error {
	if err := e.failure(); err != nil {
		return err
	}
	switch e.recovery.at() {
	case PhaseRecovering, PhaseStopping:
		return nil
	case PhaseStopped:
		return notReady(errors.New("the engine has stopped"))
	}
	return e.healthz(server.HealthzOptions{JSServerOnly: true})
}

// JetStreamReady reports whether JetStream takes requests. On a single node every
// stream in the store must have been recovered and be writable; in a cluster a
// leader must be known.
func (e *Engine) JetStreamReady() error {
	if err := e.failure(); err != nil {
		return err
	}
	if e.stopping.Load() {
		return notReady(errors.New("the engine is stopping"))
	}
	return e.healthz(server.HealthzOptions{JSMetaOnly: true})
}

func (e *Engine) healthz(opts server.HealthzOptions) error {
	h := settle(
		func() *server.HealthStatus { return e.server.Healthz(&opts) },
		func() bool { return e.server.ReadyForConnections(100 * time.Millisecond) },
	)
	if h.StatusCode == http.StatusOK {
		return nil
	}
	return notReady(errors.New(e.log.names.translate(cmp.Or(h.Error, h.Status))))
}

// settle asks again when the server says that it does not listen: it gives itself
// one millisecond to find out, which on a busy machine is over before it has
// looked (7 in 290,000 with eight busy goroutines to a core).
func settle(ask func() *server.HealthStatus, listening func() bool) *server.HealthStatus {
	h := ask()
	for try := 0; try < 5 && h.StatusCode == http.StatusInternalServerError && listening(); try++ {
		h = ask()
	}
	return h
}

func notReady(err error) error {
	return diag.Fail(diag.CodeNotReady, fmt.Errorf("check the engine: %w", err), "`holdfast status` shows how far it is")
}

// Stats is what the server counts about itself. Sizes are bytes.
type Stats struct {
	Started time.Time

	StoreUsed, StoreReserved, StoreLimit    int64
	MemoryUsed, MemoryReserved, MemoryLimit int64

	APIRequests, APIErrors, APIInFlight uint64

	Accounts         int // with JetStream
	Connections      int
	ConnectionsTotal uint64
	Subscriptions    uint32
	// SlowConsumers counts the clients that were cut off because they did not
	// read fast enough.
	SlowConsumers int64

	InMessages, OutMessages int64
	InBytes, OutBytes       int64
}

// Stats returns the counters as they are now.
func (e *Engine) Stats() (Stats, error) {
	v, err := e.server.Varz(nil)
	if err != nil {
		return Stats{}, fmt.Errorf("read the counters of the engine: %w", err)
	}
	s := Stats{
		Started:          v.Start,
		Connections:      v.Connections,
		ConnectionsTotal: v.TotalConnections,
		Subscriptions:    v.Subscriptions,
		SlowConsumers:    v.SlowConsumers,
		InMessages:       v.InMsgs,
		OutMessages:      v.OutMsgs,
		InBytes:          v.InBytes,
		OutBytes:         v.OutBytes,
	}
	if c := v.JetStream.Config; c != nil {
		s.StoreLimit, s.MemoryLimit = c.MaxStore, c.MaxMemory
	}
	if j := v.JetStream.Stats; j != nil {
		s.StoreUsed, s.StoreReserved = int64(j.Store), int64(j.ReservedStore)
		s.MemoryUsed, s.MemoryReserved = int64(j.Memory), int64(j.ReservedMemory)
		s.APIRequests, s.APIErrors, s.APIInFlight = j.API.Total, j.API.Errors, j.API.Inflight
		s.Accounts = j.Accounts
	}
	return s, nil
}

// WriteErrors counts the streams that the server has given up since the start because
// they could not be written; once more after each Reopen.
func (e *Engine) WriteErrors() uint64 { return e.log.writeErrors.Load() }

// Stuck are the streams that could not be written once and take nothing any more, as
// account/stream. Reopen ends that.
func (e *Engine) Stuck() []string {
	if e.recovery.at() != PhaseRunning {
		return nil
	}
	if e.closing() {
		return nil
	}
	if !e.server.JetStreamEnabled() {
		return []string{allStreams}
	}
	var out []string
	for _, h := range e.server.Healthz(&server.HealthzOptions{Details: true}).Errors {
		if h.Type == server.HealthzErrorStream && strings.Contains(h.Error, writeError) {
			out = append(out, e.log.names.name(h.Account)+"/"+h.Stream)
		}
	}
	return out
}

const (
	// writeError is in the server's text of a stream with one; that it is, is pinned by a
	// test with a full volume.
	writeError = " write error: "
	// allStreams is what is stuck when the server has switched JetStream off: it does so
	// when it is not allowed to write, and in a cluster when a volume is full.
	allStreams = "all"
)
