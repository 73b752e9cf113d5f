// SPDX-License-Identifier: Apache-2.0

package load

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"
)

const (
	redisGroup = "workers"
	redisField = "body"
	// redisBlock is how long, in milliseconds, a worker waits for something to do.
	redisBlock = "100"
)

// redisServer is a stream with a consumer group.
type redisServer struct {
	spec Spec
	conn *resp
}

func openRedis(ctx context.Context, s Spec) (backend, error) {
	c, err := dialRedis(ctx, s.Address)
	if err != nil {
		return nil, err
	}
	return &redisServer{s, c}, nil
}

func (s *redisServer) ping(context.Context) error {
	_, err := s.conn.do("PING")
	return err
}

func (s *redisServer) declare(context.Context) error {
	_, err := s.conn.do("XGROUP", "CREATE", s.spec.Queue, redisGroup, "0", "MKSTREAM")
	return err
}

// removed is what the workers counted: they wait for the answer to each removal.
func (s *redisServer) removed(_ context.Context, counted int64) (int64, error) { return counted, nil }

func (s *redisServer) close() { s.conn.close() }

type redisPublisher struct {
	*resp
	queue string
}

func (s *redisServer) publisher(ctx context.Context) (publisher, error) {
	c, err := dialRedis(ctx, s.spec.Address)
	if err != nil {
		return nil, err
	}
	return &redisPublisher{c, s.spec.Queue}, nil
}

func (p *redisPublisher) publish(ctx context.Context, body []byte) error {
	wait, err := p.send(ctx, body)
	if err == nil {
		err = p.flush()
	}
	if err != nil {
		return err
	}
	return wait(ctx)
}

func (p *redisPublisher) send(_ context.Context, body []byte) (func(context.Context) error, error) {
	p.write("XADD", p.queue, "*", redisField, string(body))
	return func(context.Context) error {
		_, err := p.read()
		return err
	}, nil
}

type redisWorker struct {
	*resp
	queue, name string
}

func (s *redisServer) worker(ctx context.Context) (worker, error) {
	c, err := dialRedis(ctx, s.spec.Address)
	if err != nil {
		return nil, err
	}
	return &redisWorker{c, s.spec.Queue, c.conn.LocalAddr().String()}, nil
}

// work acknowledges and deletes each message on its own, like the others, and all
// that came together in one write.
func (w *redisWorker) work(ctx context.Context, t *tally) error {
	for ctx.Err() == nil {
		got, err := w.do("XREADGROUP", "GROUP", redisGroup, w.name, "COUNT", strconv.Itoa(prefetch), "BLOCK", redisBlock, "STREAMS", w.queue, ">")
		if err != nil {
			return err
		}
		ids, bodies, err := entries(got)
		if err != nil {
			return err
		}
		for i, id := range ids {
			t.delivered([]byte(bodies[i]))
			w.write("XACK", w.queue, redisGroup, id)
			w.write("XDEL", w.queue, id)
		}
		if err := w.flush(); err != nil {
			return err
		}
		for range ids {
			for range 2 {
				if _, err := w.read(); err != nil {
					return err
				}
			}
			t.acked.Add(1)
		}
	}
	return nil
}

// entries reads [[stream, [[id, [field, value]], …]]], or nil when there is nothing.
func entries(reply any) (ids, bodies []string, err error) {
	at := func(v any, i int) any {
		if list, ok := v.([]any); ok && i < len(list) {
			return list[i]
		}
		return nil
	}
	list, _ := at(at(reply, 0), 1).([]any)
	for _, e := range list {
		id, ok := at(e, 0).(string)
		body, okToo := at(at(e, 1), 1).(string)
		if !ok || !okToo {
			return nil, nil, fmt.Errorf("read entry: got %v, want an id and one field", e)
		}
		ids, bodies = append(ids, id), append(bodies, body)
	}
	return ids, bodies, nil
}

// resp speaks the protocol of Redis over one connection. One goroutine writes, one
// reads. It is all that is needed here, so there is no dependency for it.
type resp struct {
	conn net.Conn
	r    *bufio.Reader
	w    *bufio.Writer
}

func dialRedis(ctx context.Context, address string) (*resp, error) {
	d := net.Dialer{Timeout: dialLimit}
	c, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	return &resp{c, bufio.NewReaderSize(c, 64<<10), bufio.NewWriterSize(c, 64<<10)}, nil
}

func (c *resp) close() { c.conn.Close() }

// do asks and reads the answer.
func (c *resp) do(args ...string) (any, error) {
	c.write(args...)
	if err := c.flush(); err != nil {
		return nil, err
	}
	reply, err := c.read()
	if err != nil {
		err = fmt.Errorf("ask %s: %w", args[0], err)
	}
	return reply, err
}

// write keeps a command until the next flush, which reports its error, too.
func (c *resp) write(args ...string) {
	fmt.Fprintf(c.w, "*%d\r\n", len(args))
	for _, a := range args {
		// Without fmt: this is most of what a publisher does.
		_, _ = c.w.WriteString("$" + strconv.Itoa(len(a)) + "\r\n")
		_, _ = c.w.WriteString(a)
		_, _ = c.w.WriteString("\r\n")
	}
}

func (c *resp) flush() error {
	if err := c.conn.SetDeadline(time.Now().Add(dialLimit)); err != nil {
		return err
	}
	return c.w.Flush()
}

// read returns a string, a number, a list of them, or nil.
func (c *resp) read() (any, error) {
	line, err := c.r.ReadString('\n')
	if err != nil {
		return nil, fmt.Errorf("read reply: %w", err)
	}
	if len(line) < 3 {
		return nil, fmt.Errorf("read reply: got %q", line)
	}
	text := line[1 : len(line)-2]
	switch line[0] {
	case '+':
		return text, nil
	case '-':
		return nil, errors.New(text)
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return nil, fmt.Errorf("read reply: %w", err)
	}
	switch line[0] {
	case ':':
		return n, nil
	case '$':
		if n < 0 {
			return nil, nil
		}
		b := make([]byte, n+2)
		if _, err := io.ReadFull(c.r, b); err != nil {
			return nil, fmt.Errorf("read reply: %w", err)
		}
		return string(b[:n]), nil
	case '*':
		var list []any
		for range n {
			v, err := c.read()
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		return list, nil
	}
	return nil, fmt.Errorf("read reply: got %q", line)
}
