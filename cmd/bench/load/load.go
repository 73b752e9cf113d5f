// SPDX-License-Identifier: Apache-2.0

package load

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// The protocols.
const (
	NATS   = "nats"
	Redis  = "redis"
	Rabbit = "rabbitmq"
)

// Spec is one measurement.
type Spec struct {
	Protocol string `json:"protocol"`
	Address  string `json:"address"` // host:port
	// Others are the addresses of more nodes of one cluster: clients are spread over all,
	// and the queue has Copies, when that is not 0.
	Others []string `json:"others,omitempty"`
	Copies int      `json:"copies,omitempty"`
	Creds  string   `json:"creds"`  // file, for NATS only
	Queue  string   `json:"queue"`  // its name
	Exists bool     `json:"exists"` // the server has declared the queue
	// Publishers wait for each acknowledgement, or keep up to Window messages
	// unacknowledged when Window is not 0. Workers fetch and acknowledge.
	Publishers int           `json:"publishers"`
	Window     int           `json:"window"`
	Workers    int           `json:"workers"`
	Bytes      int           `json:"bytes"` // of a message
	Warm       time.Duration `json:"warm"`
	Measure    time.Duration `json:"measure"`
}

// Result is what one measurement saw. A message counts when it is acknowledged to its
// publisher; with workers, when it is gone from the queue. Latency is from the begin of
// the publish to that acknowledgement; with workers, to the delivery.
type Result struct {
	PerSecond float64       `json:"per_second"`
	P50       time.Duration `json:"p50"`
	P99       time.Duration `json:"p99"`
}

// node is the same with one of the addresses, the next one for each client.
func (s Spec) node(client int) Spec {
	all := append([]string{s.Address}, s.Others...)
	s.Address = all[client%len(all)]
	return s
}

// backend is a queue as one of the clients sees it.
type backend interface {
	// declare makes the empty queue.
	declare(ctx context.Context) error
	publisher(ctx context.Context) (publisher, error)
	worker(ctx context.Context) (worker, error)
	// removed is how many messages are gone from the queue; counted is how many
	// acknowledgements the workers have sent, for a server that can't say it.
	removed(ctx context.Context, counted int64) (int64, error)
	close()
}

type publisher interface {
	// publish returns when the message is acknowledged.
	publish(ctx context.Context, body []byte) error
	// send returns what waits for the acknowledgement. Waits are called in the
	// order of the sends, by another goroutine. body is not kept.
	send(ctx context.Context, body []byte) (wait func(context.Context) error, err error)
	// flush sends what send has kept back.
	flush() error
	close()
}

type worker interface {
	// work tells the tally of every message, acknowledges it, and tells of that, until
	// ctx ends. What it returns then has no meaning.
	work(ctx context.Context, t *tally) error
	close()
}

func (s Spec) open(ctx context.Context) (backend, error) {
	switch s.Protocol {
	case NATS:
		return openNATS(s)
	case Redis:
		return openRedis(ctx, s)
	case Rabbit:
		return openRabbit(s)
	}
	return nil, fmt.Errorf("open server: unknown protocol %q", s.Protocol)
}

// Ping returns nil when the server takes a client.
func (s Spec) Ping(ctx context.Context) error {
	srv, err := s.open(ctx)
	if err != nil {
		return err
	}
	defer srv.close()
	if p, ok := srv.(interface{ ping(context.Context) error }); ok {
		return p.ping(ctx)
	}
	return nil
}

// Run puts the load on the server.
func (s Spec) Run(ctx context.Context) (_ Result, err error) {
	srv, err := s.open(ctx)
	if err != nil {
		return Result{}, err
	}
	defer srv.close()
	if !s.Exists {
		if err := srv.declare(ctx); err != nil {
			return Result{}, err
		}
	}
	r := &run{spec: s, server: srv}
	defer r.close()
	if err := r.connect(ctx); err != nil {
		return Result{}, err
	}
	return r.measure(ctx)
}

// run is a measurement under way.
type run struct {
	spec       Spec
	server     backend
	publishers []publisher
	workers    []worker
	clock      clock
	tallies    []*tally

	mu  sync.Mutex
	err error
}

// connect opens all connections before the clock starts.
func (r *run) connect(ctx context.Context) error {
	for range r.spec.Workers {
		w, err := r.server.worker(ctx)
		if err != nil {
			return fmt.Errorf("open worker: %w", err)
		}
		r.workers = append(r.workers, w)
	}
	for range r.spec.Publishers {
		p, err := r.server.publisher(ctx)
		if err != nil {
			return fmt.Errorf("open publisher: %w", err)
		}
		r.publishers = append(r.publishers, p)
	}
	return nil
}

func (r *run) close() {
	for _, p := range r.publishers {
		p.close()
	}
	for _, w := range r.workers {
		w.close()
	}
}

// fail ends the measurement: a load that is not the same is no measurement.
func (r *run) fail(what string, err error, stop func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		r.err = fmt.Errorf("%s: %w", what, err)
	}
	stop()
}

func (r *run) tally() *tally {
	t := &tally{clock: r.clock, latencies: make([]time.Duration, 0, 1<<14)}
	r.tallies = append(r.tallies, t)
	return t
}

func (r *run) measure(ctx context.Context) (Result, error) {
	working, dismiss := context.WithCancel(ctx)
	defer dismiss()
	begun := time.Now()
	r.clock = clock{zero: begun, from: begun.Add(r.spec.Warm), until: begun.Add(r.spec.Warm + r.spec.Measure)}
	var publishing, consuming sync.WaitGroup
	for i, w := range r.workers {
		t := r.tally()
		consuming.Go(func() {
			if err := w.work(working, t); err != nil && working.Err() == nil {
				r.fail(fmt.Sprintf("worker %d", i), err, dismiss)
			}
		})
	}
	for i, p := range r.publishers {
		t := r.tally()
		// The delivery is timed, where there is one.
		t.mute = len(r.workers) > 0
		publish := r.publish
		if r.spec.Window > 0 {
			publish = r.stream
		}
		publishing.Go(func() {
			if err := publish(working, p, t); err != nil && working.Err() == nil {
				r.fail(fmt.Sprintf("publisher %d", i), err, dismiss)
			}
		})
	}
	took, gone, err := r.removals(working)
	publishing.Wait()
	dismiss()
	consuming.Wait()
	if err := errors.Join(r.err, ctx.Err(), err); err != nil {
		return Result{}, err
	}
	return r.result(took, gone), nil
}

// removals counts what went out of the queue between the two ends of the window. The
// server is asked: an acknowledgement that is on its way has removed nothing.
func (r *run) removals(ctx context.Context) (took time.Duration, gone int64, err error) {
	if len(r.workers) == 0 {
		return 0, 0, nil
	}
	var at [2]time.Time
	var n [2]int64
	for i, end := range []time.Time{r.clock.from, r.clock.until} {
		timer := time.NewTimer(time.Until(end))
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return 0, 0, ctx.Err()
		}
		var counted int64
		for _, t := range r.tallies {
			counted += t.acked.Load()
		}
		if n[i], err = r.server.removed(ctx, counted); err != nil {
			return 0, 0, fmt.Errorf("count removed messages: %w", err)
		}
		at[i] = time.Now()
	}
	return at[1].Sub(at[0]), n[1] - n[0], nil
}

func (r *run) result(took time.Duration, gone int64) Result {
	var all []time.Duration
	begun, ended := r.clock.zero, r.clock.from
	for _, t := range r.tallies {
		all = append(all, t.latencies...)
		begun, ended = latest(begun, t.before), latest(ended, t.last)
	}
	slices.Sort(all)
	res := Result{P50: quantile(all, 0.50), P99: quantile(all, 0.99)}
	if len(r.workers) > 0 {
		res.PerSecond = float64(gone) / took.Seconds()
	} else if len(all) > 0 {
		// From one acknowledgement to another: they come in heaps, of up to a window,
		// and the ends of the clock cut through one.
		res.PerSecond = float64(len(all)) / ended.Sub(begun).Seconds()
	}
	return res
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// quantile returns the value that a share of the sorted values does not exceed.
func quantile(sorted []time.Duration, share float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, int(share*float64(len(sorted))))]
}
