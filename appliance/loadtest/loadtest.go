// SPDX-License-Identifier: Apache-2.0

package loadtest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Longest is what a whole run may take. It is below staleAfter, so that no run takes
// another one that still works for a left-over.
const Longest = 8 * time.Minute

const (
	// removeLimit bounds the cleaning up, which a cancelled run does, too.
	removeLimit = 15 * time.Second
	// stampSize is what each message begins with: when it was sent, and which one it is.
	stampSize = 16
	// MinSize is the smallest message.
	MinSize = stampSize
	// overhead is what a stored message takes besides payload and subject, with the
	// headers that a server adds to a batch.
	overhead = 190
)

// The names of the phases.
const (
	PhasePublish  = "publish"
	PhaseConsume  = "consume"
	PhaseEndToEnd = "end-to-end"
)

// Load is what is put on a node.
type Load struct {
	Publishers int // each waits for an acknowledgement before its next message
	Workers    int
	Size       int           // of a payload, MinSize at least
	For        time.Duration // how long is published, in each phase that does
	Space      int64         // what the scratch stream may take, in bytes
	WorkQueue  bool          // work queue retention instead of limits
	// PublishOnly leaves out the other phases.
	PublishOnly bool
}

// most is how many messages fit into the space.
func (l Load) most(subject string) int64 {
	return l.Space / 10 * 9 / int64(l.Size+len(subject)+overhead)
}

// Result is what a run found.
type Result struct {
	Phases []Phase
	Counts Counts
}

// Phase is a part of a run. Its time ends when the last acknowledgement has come and,
// with workers, when the last of theirs has taken effect.
type Phase struct {
	Name     string
	Messages int
	Took     time.Duration
	// Full is true when the phase ended early, because the scratch stream had no more room.
	Full     bool
	Ack      *Latency // from a publish to its acknowledgement
	Delivery *Latency // from a publish to a worker
}

// Rate is the messages per second.
func (p Phase) Rate() float64 { return float64(p.Messages) / p.Took.Seconds() }

// Observer is told of each phase when it begins: how long it is to take, 0 where
// nobody knows, and how to ask for the messages so far. It returns what to call when
// the phase is over, with nil when it failed.
type Observer func(name string, length time.Duration, messages func() int) (ended func(*Phase))

// run is one run under way.
type run struct {
	target Target
	load   Load
	place  Place
	watch  Observer
	js     jetstream.JetStream // for questions; publishers and workers have their own
	begun  time.Time           // what the times in messages count from
	block  []byte              // what messages are filled with
	ledger ledger
	result Result
}

// Run puts a load on the target and proves the counts. It makes the scratch stream and
// removes it, also after an error and when ctx ends. With CodeMiscount the result is
// complete.
func Run(ctx context.Context, t Target, s Scratch, l Load, watch Observer) (_ Result, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, Longest, fmt.Errorf("the run takes longer than %v", Longest))
	defer cancel()
	place, err := s.Make(ctx, Wish{WorkQueue: l.WorkQueue, MaxBytes: l.Space})
	if err != nil {
		return Result{}, err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeLimit)
		defer cancel()
		err = errors.Join(err, s.Remove(ctx, place))
	}()
	nc, js, err := t.connect()
	if err != nil {
		return Result{}, err
	}
	defer nc.Close()
	r := &run{target: t, load: l, place: place, watch: watch, js: js, begun: time.Now(), block: filling(l.Size)}
	return r.all(ctx)
}

// all runs the phases, each on what the one before has left.
func (r *run) all(ctx context.Context) (Result, error) {
	phases := []func(context.Context) error{r.publish, r.consume, r.endToEnd}
	if r.load.PublishOnly {
		phases = phases[:1]
	}
	for _, phase := range phases {
		if err := phase(ctx); err != nil {
			return r.result, err
		}
	}
	r.result.Counts.add(r.ledger.judge())
	return r.result, r.result.Counts.err(r.load.PublishOnly)
}

// publish has nobody consume.
func (r *run) publish(ctx context.Context) error {
	c := newCrew(ctx)
	p, err := r.newPublishers(c)
	if err != nil {
		return err
	}
	defer p.close()
	return r.phase(c, PhasePublish, r.load.For, p.messages, func(begun time.Time) (Phase, error) {
		p.start(begun)
		if err := c.wait(); err != nil {
			return Phase{}, err
		}
		out := Phase{Took: time.Since(begun), Messages: p.messages(), Full: p.full(), Ack: latencyOf(p.latencies())}
		r.ledger.acknowledged = append(r.ledger.acknowledged, p.receipts()...)
		return out, r.count(ctx, out.Messages)
	})
}

// consume empties what publish has stored.
func (r *run) consume(ctx context.Context) error {
	c := newCrew(ctx)
	w, err := r.newWorkers(c)
	if err != nil {
		return err
	}
	defer w.close()
	want := len(r.ledger.acknowledged)
	return r.phase(c, PhaseConsume, 0, w.messages, func(begun time.Time) (Phase, error) {
		w.start()
		if err := w.settle(c, want); err != nil {
			return Phase{}, err
		}
		out := Phase{Took: time.Since(begun), Messages: want}
		r.ledger.delivered = append(r.ledger.delivered, w.receipts()...)
		return out, r.clear(ctx)
	})
}

// endToEnd publishes and consumes at the same time.
func (r *run) endToEnd(ctx context.Context) error {
	working := newCrew(ctx)
	// When a worker fails there is nothing to publish for.
	publishing := newCrew(working.ctx)
	w, err := r.newWorkers(working)
	if err != nil {
		return err
	}
	defer w.close()
	p, err := r.newPublishers(publishing)
	if err != nil {
		return err
	}
	defer p.close()
	return r.phase(working, PhaseEndToEnd, r.load.For, w.messages, func(begun time.Time) (Phase, error) {
		w.start()
		p.start(begun)
		if err := publishing.wait(); err != nil {
			return Phase{}, err
		}
		want := p.messages()
		if err := w.settle(working, want); err != nil {
			return Phase{}, err
		}
		out := Phase{Took: time.Since(begun), Messages: want, Full: p.full(), Ack: latencyOf(p.latencies()), Delivery: latencyOf(w.latencies())}
		r.ledger.acknowledged = append(r.ledger.acknowledged, p.receipts()...)
		r.ledger.delivered = append(r.ledger.delivered, w.receipts()...)
		return out, r.countSequences(ctx)
	})
}

// phase tells the observer of a phase and keeps what it returns. The crew has ended
// when it returns.
func (r *run) phase(c *crew, name string, length time.Duration, messages func() int, do func(begun time.Time) (Phase, error)) error {
	ended := r.watch(name, length, messages)
	out, err := do(time.Now())
	c.stop()
	if err != nil {
		ended(nil)
		return fmt.Errorf("%s: %w", name, err)
	}
	out.Name = name
	r.result.Phases = append(r.result.Phases, out)
	ended(&out)
	return nil
}

// count adds what the stream holds to what is stored.
func (r *run) count(ctx context.Context, want int) error {
	state, err := r.state(ctx)
	r.result.Counts.Stored += int(state.Msgs)
	if err == nil && int(state.Msgs) != want {
		// Nothing to consume would come to an end.
		r.result.Counts.add(r.ledger.judge())
		err = r.result.Counts.err(true)
	}
	return err
}

// countSequences adds what the stream has stored since it was first counted, by its
// sequences: a work queue holds none of it any more.
func (r *run) countSequences(ctx context.Context) error {
	state, err := r.state(ctx)
	r.result.Counts.Stored = int(state.LastSeq)
	return err
}

// clear removes what stayed in the stream.
func (r *run) clear(ctx context.Context) error {
	if r.load.WorkQueue {
		return nil // the acknowledgements did
	}
	s, err := r.js.Stream(ctx, r.place.Stream)
	if err == nil {
		err = s.Purge(ctx)
	}
	if err != nil {
		return fmt.Errorf("empty stream %q: %w", r.place.Stream, err)
	}
	return nil
}

func (r *run) state(ctx context.Context) (jetstream.StreamState, error) {
	s, err := r.js.Stream(ctx, r.place.Stream)
	if err != nil {
		return jetstream.StreamState{}, fmt.Errorf("read stream %q: %w", r.place.Stream, err)
	}
	return s.CachedInfo().State, nil
}
