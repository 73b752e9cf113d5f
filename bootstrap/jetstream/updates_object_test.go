// SPDX-License-Identifier: Apache-2.0

package jetstream_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// subject is the object of one case on a real server.
type subject struct {
	*testing.T
	updateCase
	site           *site
	nc             *nats.Conn
	name, replicas string
}

func (s *subject) streamConfig() map[string]any {
	base := map[string]any{"name": s.name, "subjects": []any{"t.*"}}
	if s.replicas != "" {
		base["num_replicas"] = json.Number(s.replicas)
	}
	if s.Kind == "consumer" {
		return laid(base, s.Stream)
	}
	return laid(base, s.Have)
}

// create makes the object, with messages in the stream.
func (s *subject) create() {
	s.Helper()
	config := s.streamConfig()
	s.must("STREAM.CREATE."+s.name, config)
	s.Cleanup(func() {
		if _, err := api(s.nc, "STREAM.DELETE."+s.name, nil); err != nil {
			s.Errorf("delete: %v", err)
		}
	})
	consumer := map[string]any{"name": "c", "durable_name": "c", "ack_policy": "explicit"}
	switch {
	case s.Kind == "consumer":
		consumer = laid(consumer, s.Have)
	case s.Consumer != nil:
		consumer = laid(consumer, s.Consumer)
	default:
		consumer = nil
	}
	if consumer != nil {
		s.must("CONSUMER.CREATE."+s.name+".c", map[string]any{"stream_name": s.name, "config": consumer})
		s.site.consumed(s.T, s.nc, s.name, cmp.Or(count(consumer["num_replicas"]), count(config["num_replicas"]), 1))
	}
	s.fill(config)
	acked := s.Acked
	if s.Kind == "consumer" && readable(consumer) {
		acked = 1
	}
	s.ack(acked, config["retention"])
	if s.Prepare != nil {
		if err := s.update(laid(s.info()["config"].(map[string]any), s.Prepare)); err != nil {
			s.Fatalf("prepare: %v", err)
		}
	}
	if s.Listen != "" {
		s.site.listen(s.T, s.nc, s.Listen)
	}
}

// must sends a request that the server may not refuse.
func (s *subject) must(what string, body any) {
	s.Helper()
	var refused *refusal
	settle(s.T, func() error {
		if _, err := api(s.nc, what, body); err != nil && !errors.As(err, &refused) {
			return err
		}
		return nil
	})
	if refused != nil {
		s.Fatalf("%s: %v", what, refused)
	}
}

// readable reports whether a plain pull request gets the first message.
func readable(c map[string]any) bool {
	return c["deliver_subject"] == nil && c["pause_until"] == nil && c["priority_policy"] == nil &&
		(c["deliver_policy"] == nil || c["deliver_policy"] == "all") && c["ack_policy"] != "none"
}

func (s *subject) fill(config map[string]any) {
	s.Helper()
	copied := s.Copied
	if mirror, ok := config["mirror"].(map[string]any); ok && mirror["name"] == "ORIGIN" {
		copied = 3
	}
	switch {
	case copied > 0:
		s.until(copied)
	case s.Messages == nil:
		publishThree(s.T, s.nc, s.name, "t", config)
		stored := cmp.Or(s.Stored, 3)
		settle(s.T, func() error {
			if got := s.messages(); got != stored {
				// Without acknowledgements nobody knows whether the server that has the
				// stream was reached: the same messages again.
				publishThree(s.T, s.nc, s.name, "t", config)
				return fmt.Errorf("stream %s: got %d messages, want %d", s.name, got, stored)
			}
			return nil
		})
	}
}

// publishThree stores two messages of one subject and one of another. The id
// makes a repeat harmless when an answer was late.
func publishThree(t *testing.T, nc *nats.Conn, stream, prefix string, config map[string]any) {
	t.Helper()
	for i, last := range []string{"a", "a", "b"} {
		publishOne(t, nc, stream, prefix+"."+last, prefix+strconv.Itoa(i), config)
	}
}

func publishOne(t *testing.T, nc *nats.Conn, stream, to, id string, config map[string]any) {
	t.Helper()
	msg := nats.NewMsg(to)
	msg.Header.Set("Nats-Msg-Id", id)
	msg.Data = make([]byte, 1000)
	if config["allow_msg_counter"] == true {
		msg.Header.Set("Nats-Incr", "+1")
		msg.Data = nil
	}
	if config["no_ack"] == true {
		if err := nc.PublishMsg(msg); err != nil {
			t.Fatal(err)
		}
		return
	}
	settle(t, func() error {
		answer, err := nc.RequestMsg(msg, 5*time.Second)
		if err != nil {
			return fmt.Errorf("publish to stream %s: %w", stream, err)
		}
		if strings.Contains(string(answer.Data), `"error":`) {
			return fmt.Errorf("publish to stream %s: %s", stream, answer.Data)
		}
		return nil
	})
}

// ack takes and acknowledges the next messages.
func (s *subject) ack(n int, retention any) {
	s.Helper()
	for range n {
		before := s.messages()
		settle(s.T, func() error {
			msg, err := s.nc.Request("$JS.API.CONSUMER.MSG.NEXT."+s.name+".c", []byte(`{"batch":1,"no_wait":true}`), 5*time.Second)
			if err != nil {
				return err
			}
			if msg.Reply == "" {
				return fmt.Errorf("next message: %s", msg.Header.Get("Status"))
			}
			_, err = s.nc.Request(msg.Reply, []byte("+ACK"), 5*time.Second)
			return err
		})
		if retention == "interest" || retention == "workqueue" {
			s.until(before - 1)
		}
	}
}

// info is what the server says about the object.
func (s *subject) info() map[string]any {
	s.Helper()
	if s.Kind == "consumer" {
		return s.ask("CONSUMER.INFO." + s.name + ".c")
	}
	return s.streamInfo()
}

func (s *subject) streamInfo() map[string]any { return s.ask("STREAM.INFO." + s.name) }

func (s *subject) ask(what string) map[string]any {
	s.Helper()
	var out map[string]any
	settle(s.T, func() (err error) {
		out, err = api(s.nc, what, nil)
		return err
	})
	return out
}

func (s *subject) messages() uint64 {
	s.Helper()
	state, _ := s.streamInfo()["state"].(map[string]any)
	return count(state["messages"])
}

func count(v any) uint64 {
	n, _ := v.(json.Number)
	u, _ := strconv.ParseUint(n.String(), 10, 64)
	return u
}

func (s *subject) until(messages uint64) {
	s.Helper()
	settle(s.T, func() error {
		if got := s.messages(); got != messages {
			return fmt.Errorf("stream %s: got %d messages, want %d", s.name, got, messages)
		}
		return nil
	})
}

// update sends the whole configuration, as a client does. What is refused only
// because another change is under way is sent again.
func (s *subject) update(config map[string]any) *refusal {
	s.Helper()
	target, body := "STREAM.UPDATE."+s.name, any(config)
	if s.Kind == "consumer" {
		target = "CONSUMER.CREATE." + s.name + ".c"
		body = map[string]any{"stream_name": s.name, "config": config, "action": "update"}
	}
	if s.API == "pause" {
		target = "CONSUMER.PAUSE." + s.name + ".c"
		body = map[string]any{"pause_until": config["pause_until"]}
	}
	var refused *refusal
	settle(s.T, func() error {
		refused = nil
		_, err := api(s.nc, target, body)
		if err != nil && (!errors.As(err, &refused) || strings.Contains(refused.Description, "in progress")) {
			return err
		}
		return nil
	})
	return refused
}

// converged waits until as many servers as configured have the stream.
func (s *subject) converged() {
	s.Helper()
	settle(s.T, func() error {
		info := s.streamInfo()
		cluster, ok := info["cluster"].(map[string]any)
		if !ok {
			return nil
		}
		config, _ := info["config"].(map[string]any)
		replicas, _ := cluster["replicas"].([]any)
		if got, want := uint64(len(replicas)+1), count(config["num_replicas"]); got != want || cluster["leader"] == nil {
			return fmt.Errorf("stream %s: got %d copies, leader %v, want %d", s.name, got, cluster["leader"], want)
		}
		if slices.ContainsFunc(replicas, func(r any) bool { return r.(map[string]any)["current"] != true }) {
			return fmt.Errorf("stream %s: a copy is behind", s.name)
		}
		return nil
	})
}
