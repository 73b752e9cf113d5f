// SPDX-License-Identifier: Apache-2.0

package load

import (
	"context"
	"errors"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"
)

// prefetch is how many messages a worker of any kind is given ahead.
const prefetch = 500

// rabbitServer is a quorum queue: the one whose confirms mean a synced disk.
type rabbitServer struct {
	spec Spec
	conn *amqp.Connection
	n    int // clients
}

func openRabbit(s Spec) (backend, error) {
	c, err := amqp.DialConfig("amqp://guest:guest@"+s.Address+"/", amqp.Config{Dial: amqp.DefaultDial(dialLimit)})
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	return &rabbitServer{spec: s, conn: c}, nil
}

func (s *rabbitServer) declare(context.Context) error {
	ch, err := s.conn.Channel()
	if err != nil {
		return fmt.Errorf("open channel: %w", err)
	}
	args := amqp.Table{amqp.QueueTypeArg: amqp.QueueTypeQuorum}
	if s.spec.Copies > 0 {
		args["x-quorum-initial-group-size"] = s.spec.Copies
	}
	if _, err := ch.QueueDeclare(s.spec.Queue, true, false, false, false, args); err != nil {
		return fmt.Errorf("declare queue %q: %w", s.spec.Queue, err)
	}
	return ch.Close()
}

// ping fails until the other nodes are in one cluster with this: a queue that is made on
// one of them is known here.
func (s *rabbitServer) ping(context.Context) error {
	for i := range s.spec.Others {
		other, err := openRabbit(s.spec.node(i + 1))
		if err != nil {
			return err
		}
		err = s.knows(other.(*rabbitServer), fmt.Sprintf("ping-%d", i))
		other.close()
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *rabbitServer) knows(other *rabbitServer, queue string) error {
	there, err := other.conn.Channel()
	if err != nil {
		return fmt.Errorf("open channel: %w", err)
	}
	if _, err := there.QueueDeclare(queue, true, false, false, false, nil); err != nil {
		return fmt.Errorf("declare queue %q: %w", queue, err)
	}
	here, err := s.conn.Channel()
	if err != nil {
		return fmt.Errorf("open channel: %w", err)
	}
	_, err = here.QueueDeclarePassive(queue, true, false, false, false, nil)
	_, gone := there.QueueDelete(queue, false, false, false)
	return errors.Join(err, gone)
}

// removed is what the workers have sent: the server has no count of it. What is on its
// way is part of it, at both ends of the window.
func (s *rabbitServer) removed(_ context.Context, counted int64) (int64, error) { return counted, nil }

func (s *rabbitServer) close() { _ = s.conn.Close() } // its end is not measured

type rabbitClient struct {
	conn  *amqp.Connection
	ch    *amqp.Channel
	queue string
}

func (s *rabbitServer) client() (*rabbitClient, error) {
	s.n++
	other, err := openRabbit(s.spec.node(s.n))
	if err != nil {
		return nil, err
	}
	conn := other.(*rabbitServer).conn
	ch, err := conn.Channel()
	if err != nil {
		other.close()
		return nil, fmt.Errorf("open channel: %w", err)
	}
	return &rabbitClient{conn, ch, s.spec.Queue}, nil
}

func (c *rabbitClient) close() { _ = c.conn.Close() } // its end is not measured

func (s *rabbitServer) publisher(context.Context) (publisher, error) {
	c, err := s.client()
	if err != nil {
		return nil, err
	}
	if err := c.ch.Confirm(false); err != nil {
		c.close()
		return nil, fmt.Errorf("ask for confirms: %w", err)
	}
	return c, nil
}

func (c *rabbitClient) publish(ctx context.Context, body []byte) error {
	wait, err := c.send(ctx, body)
	if err != nil {
		return err
	}
	return wait(ctx)
}

func (c *rabbitClient) send(ctx context.Context, body []byte) (func(context.Context) error, error) {
	confirm, err := c.ch.PublishWithDeferredConfirmWithContext(ctx, "", c.queue, false, false,
		amqp.Publishing{DeliveryMode: amqp.Persistent, Body: body})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		acked, err := confirm.WaitContext(ctx)
		if err == nil && !acked {
			err = errors.New("publish: refused")
		}
		return err
	}, nil
}

// flush has nothing to do: the client writes each message at once.
func (c *rabbitClient) flush() error { return nil }

func (s *rabbitServer) worker(context.Context) (worker, error) {
	c, err := s.client()
	if err != nil {
		return nil, err
	}
	if err := c.ch.Qos(prefetch, 0, false); err != nil {
		c.close()
		return nil, fmt.Errorf("set prefetch: %w", err)
	}
	return c, nil
}

func (c *rabbitClient) work(ctx context.Context, t *tally) error {
	deliveries, err := c.ch.ConsumeWithContext(ctx, c.queue, "", false, false, false, false, nil)
	if err != nil {
		return fmt.Errorf("consume: %w", err)
	}
	for d := range deliveries {
		t.delivered(d.Body)
		if err := d.Ack(false); err != nil {
			return fmt.Errorf("acknowledge: %w", err)
		}
		t.acked.Add(1)
	}
	// The end of ctx is one, too; the caller knows.
	return errors.New("consume: no more deliveries")
}
