// SPDX-License-Identifier: Apache-2.0

package load

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	// Worker is the durable consumer of a NATS queue.
	Worker = "worker"
	// MaxAckPending is what the workers may hold, together: more than they prefetch.
	MaxAckPending = 20000
	// QueueBytes is what a NATS queue may hold; then it refuses.
	QueueBytes = 2 << 30
	// dialLimit bounds the opening of a connection.
	dialLimit = 10 * time.Second
)

// natsServer is a stream with one durable consumer.
type natsServer struct {
	spec Spec
	nc   *nats.Conn
	js   jetstream.JetStream
	n    int // clients
}

func openNATS(s Spec) (backend, error) {
	nc, js, err := dialNATS(s)
	if err != nil {
		return nil, err
	}
	return &natsServer{spec: s, nc: nc, js: js}, nil
}

func dialNATS(s Spec) (*nats.Conn, jetstream.JetStream, error) {
	opts := []nats.Option{nats.NoReconnect(), nats.Timeout(dialLimit)}
	if s.Creds != "" {
		opts = append(opts, nats.UserCredentials(s.Creds))
	}
	nc, err := nats.Connect("nats://"+s.Address, opts...)
	if err != nil {
		return nil, nil, fmt.Errorf("connect: %w", err)
	}
	// The window is bounded by its owner; this is only not to be in the way.
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(2*s.Window+1))
	if err != nil {
		nc.Close()
		return nil, nil, fmt.Errorf("use JetStream: %w", err)
	}
	return nc, js, nil
}

// Subjects are those of a NATS queue.
func (s Spec) Subjects() string { return strings.ToLower(s.Queue) + ".>" }

func (s *natsServer) ping(ctx context.Context) error {
	if _, err := s.js.AccountInfo(ctx); err != nil {
		return fmt.Errorf("ask JetStream: %w", err)
	}
	return nil
}

// declare makes what a stock server has to be told.
func (s *natsServer) declare(ctx context.Context) error {
	c := jetstream.StreamConfig{Name: s.spec.Queue, Subjects: []string{s.spec.Subjects()}, MaxBytes: QueueBytes, Discard: jetstream.DiscardNew, Replicas: s.spec.Copies}
	if s.spec.Workers > 0 {
		c.Retention = jetstream.WorkQueuePolicy
	}
	if _, err := s.js.CreateStream(ctx, c); err != nil {
		return fmt.Errorf("create stream %q: %w", s.spec.Queue, err)
	}
	if s.spec.Workers == 0 {
		return nil
	}
	_, err := s.js.CreateConsumer(ctx, s.spec.Queue, jetstream.ConsumerConfig{
		Durable: Worker, AckPolicy: jetstream.AckExplicitPolicy, MaxAckPending: MaxAckPending,
	})
	if err != nil {
		return fmt.Errorf("create consumer %q: %w", Worker, err)
	}
	return nil
}

func (s *natsServer) removed(ctx context.Context, _ int64) (int64, error) {
	stream, err := s.js.Stream(ctx, s.spec.Queue)
	if err != nil {
		return 0, fmt.Errorf("read stream %q: %w", s.spec.Queue, err)
	}
	state := stream.CachedInfo().State
	return int64(state.LastSeq - state.Msgs), nil
}

func (s *natsServer) close() { s.nc.Close() }

type natsPublisher struct {
	nc      *nats.Conn
	js      jetstream.JetStream
	subject string
}

func (s *natsServer) publisher(context.Context) (publisher, error) {
	s.n++
	nc, js, err := dialNATS(s.spec.node(s.n))
	if err != nil {
		return nil, err
	}
	return &natsPublisher{nc, js, strings.ToLower(s.spec.Queue) + ".new"}, nil
}

func (p *natsPublisher) publish(ctx context.Context, body []byte) error {
	_, err := p.js.PublishMsg(ctx, &nats.Msg{Subject: p.subject, Data: body})
	return err
}

func (p *natsPublisher) send(_ context.Context, body []byte) (func(context.Context) error, error) {
	f, err := p.js.PublishMsgAsync(&nats.Msg{Subject: p.subject, Data: body})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		select {
		case <-f.Ok():
			return nil
		case err := <-f.Err():
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}, nil
}

// flush has nothing to do: the client has a goroutine for it.
func (p *natsPublisher) flush() error { return nil }

func (p *natsPublisher) close() { p.nc.Close() }

type natsWorker struct {
	nc       *nats.Conn
	consumer jetstream.Consumer
}

func (s *natsServer) worker(ctx context.Context) (worker, error) {
	s.n++
	nc, js, err := dialNATS(s.spec.node(s.n))
	if err != nil {
		return nil, err
	}
	c, err := js.Consumer(ctx, s.spec.Queue, Worker)
	if err != nil {
		nc.Close()
		return nil, fmt.Errorf("find consumer %q: %w", Worker, err)
	}
	return &natsWorker{nc, c}, nil
}

func (w *natsWorker) work(ctx context.Context, t *tally) error {
	failed := make(chan error, 1)
	fail := func(err error) {
		select {
		case failed <- err:
		default:
		}
	}
	c, err := w.consumer.Consume(func(m jetstream.Msg) {
		t.delivered(m.Data())
		if err := m.Ack(); err != nil && ctx.Err() == nil {
			fail(err)
		}
		t.acked.Add(1)
	}, jetstream.PullMaxMessages(prefetch), jetstream.ConsumeErrHandler(func(_ jetstream.ConsumeContext, err error) {
		// Nothing there, for a while, is no failure.
		if !errors.Is(err, jetstream.ErrNoHeartbeat) {
			fail(err)
		}
	}))
	if err != nil {
		return fmt.Errorf("consume: %w", err)
	}
	defer c.Stop()
	select {
	case <-ctx.Done():
		return nil
	case err := <-failed:
		return err
	}
}

func (w *natsWorker) close() { w.nc.Close() }
