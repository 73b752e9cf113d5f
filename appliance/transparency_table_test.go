// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// batchPart is message n of a client's own atomic batch.
func batchPart(to, want, id string, n int) step {
	return pub(to, want).with(fmt.Sprintf("Nats-Batch-Id: own-%s\nNats-Batch-Sequence: %d", id, n))
}

func (s step) commit() step { return s.and("Nats-Batch-Commit: 1") }

// and adds a line to the header.
func (s step) and(line string) step {
	s.header += "\n" + line
	return s
}

// wholeBatch is a batch of three.
func wholeBatch(id string) []step {
	return []step{batchPart("a", "staged", id, 1), batchPart("b", "none", id, 2).noReply(false), batchPart("c", "ok*3", id, 3).commit()}
}

// times repeats a step.
func times(n int, s step) []step {
	var out []step
	for range n {
		out = append(out, s)
	}
	return out
}

func script(parts ...any) []step {
	var out []step
	for _, p := range parts {
		switch p := p.(type) {
		case step:
			out = append(out, p)
		case []step:
			out = append(out, p...)
		}
	}
	return out
}

// update changes fields of the stream.
func update(fields map[string]any) step {
	return step{do: func(nc *nats.Conn, stream string) error {
		var info, done struct {
			Config map[string]any `json:"config"`
			Error  *struct {
				Description string `json:"description"`
			} `json:"error"`
		}
		if err := call(nc, "STREAM.INFO."+stream, nil, &info); err != nil {
			return err
		}
		for k, v := range fields {
			info.Config[k] = v
		}
		config, err := json.Marshal(info.Config)
		if err != nil {
			return err
		}
		config = bytes.ReplaceAll(config, []byte("{s}"), []byte(strings.ToLower(stream)))
		if err := call(nc, "STREAM.UPDATE."+stream, json.RawMessage(config), &done); err != nil {
			return err
		}
		if done.Error != nil {
			return fmt.Errorf("update %s: %s", stream, done.Error.Description)
		}
		return nil
	}}
}

// responder answers core requests on a subject of the stream, beside it.
func responder(to string) step {
	return step{do: func(nc *nats.Conn, stream string) error {
		_, err := nc.Subscribe(strings.ToLower(stream)+"."+to, func(m *nats.Msg) { _ = m.Respond([]byte("from a service")) })
		if err != nil {
			return err
		}
		return nc.Flush()
	}}
}

func pause(d time.Duration) step {
	return step{do: func(*nats.Conn, string) error { <-time.After(d); return nil }}
}

const refuseNew = "discard: new"

func behaviours() []behaviour {
	big := strings.Repeat("x", 1<<20)
	return slicesOf(plainRows(big), dedupRows(), expectRows(), limitRows(big), featureRows(), batchRows(), subjectRows(), lifeRows())
}

func slicesOf(groups ...[]behaviour) []behaviour {
	var out []behaviour
	for _, g := range groups {
		out = append(out, g...)
	}
	return out
}

func plainRows(big string) []behaviour {
	return []behaviour{
		{name: "plain messages", steps: script(pub("a", "ok"), pub("b", "ok"), pub("a.b.c", "ok"))},
		{name: "without a reply subject", steps: script(pub("a", "").noReply(true), pub("b", "ok"))},
		{name: "empty payload", steps: script(pub("a", "ok").body(""))},
		{name: "header and no payload", steps: script(pub("a", "ok").with("X: y").body(""))},
		{name: "header block without a line", steps: script(pub("a", "ok").with("=NATS/1.0\r\n\r\n"))},
		{name: "headers as they are", steps: script(pub("a", "ok").with("x-lower: 1\nX-Twice: 1\nX-Twice: 2\nX-Empty:\nX-Space:   much  \nnats-msg-id: not mine"))},
		{name: "header without a colon", steps: script(pub("a", "ok").with("=NATS/1.0\r\nnonsense\r\n\r\n"))},
		{name: "header block of another kind", steps: script(pub("a", "ok").with("=HTTP/1.1 nonsense\r\n\r\n"))},
		{name: "status in the header", steps: script(pub("a", "ok").with("=NATS/1.0 503\r\nX: y\r\n\r\n"))},
		{name: "binary payload", steps: script(pub("a", "ok").body("\x00\r\n\xff+OK\r\n"))},
		{name: "largest payload of the server", config: "max_bytes: 64MiB", steps: script(pub("a", "ok").body(big), pub("a", "ok"))},
		{name: "largest payload with a header", config: "max_bytes: 64MiB", steps: script(pub("a", "ok").with("X: y").body(big[:len(big)-len("NATS/1.0\r\nX: y\r\n\r\n")]))},
		{name: "header of 60 KiB", steps: script(pub("a", "ok").with("X: "+big[:60<<10]), pub("a", "ok"))},
		{name: "header that a group would make too large", steps: script(pub("a", "ok").with("X: "+big[:65535-len("NATS/1.0\r\nX: \r\n\r\n")]), pub("a", "ok"))},
		{name: "header beyond 64 KiB", steps: script(pub("a", "10097").with("X: "+big[:65536]), pub("a", "ok"))},
		{name: "long subject", steps: script(pub(strings.Repeat("long.", 40)+"end", "ok"))},
		{name: "headers of the server", steps: script(pub("a", "ok").with("Nats-Stream: X\nNats-Sequence: 9\nNats-Subject: b\nNats-Time-Stamp: 0\nNats-Num-Pending: 3"))},
		{name: "header of a sourced message", steps: script(pub("a", "10227").with("Nats-Stream-Source: X 1 > >"), pub("a", "ok"))},
		{name: "required level that the server has", steps: script(pub("a", "ok").with("Nats-Required-Api-Level: 1"))},
		{name: "required level that nobody has", steps: script(pub("a", "ok").with("Nats-Required-Api-Level: 99"))},
		{name: "two hundred in a row", exact: true, sparse: true, steps: times(200, pub("a", "ok"))},
		{name: "a service on the same subject", hears: true, steps: script(responder("svc"), pub("svc", "any"), pub("a", "ok"))},
		{name: "memory", config: "storage: memory", refused: true, ungrouped: "nothing is to be synced", steps: script(pub("a", "ok"), pub("a", "ok"))},
	}
}

func dedupRows() []behaviour {
	id := func(to, want, id string) step { return pub(to, want).with("Nats-Msg-Id: " + id) }
	return []behaviour{
		{name: "a new Nats-Msg-Id", steps: script(id("a", "ok", "1"), id("a", "ok", "2"))},
		{name: "a repeated Nats-Msg-Id", steps: script(id("a", "ok", "1"), id("a", "dup", "1"), pub("a", "ok"))},
		{name: "a repeated Nats-Msg-Id on another subject", steps: script(id("a", "ok", "1"), id("b", "dup", "1"))},
		{name: "a Nats-Msg-Id three times", steps: script(id("a", "ok", "1"), id("a", "dup", "1"), id("a", "dup", "1"), id("a", "ok", "2"), id("a", "dup", "2"), id("a", "dup", "1"))},
		{name: "a repeated Nats-Msg-Id without a reply subject", steps: script(id("a", "ok", "1"), id("a", "", "1").noReply(false), id("a", "dup", "1"))},
		{name: "an empty Nats-Msg-Id", steps: script(id("a", "ok", ""), id("a", "ok", ""))},
		{name: "a Nats-Msg-Id after the window", config: "duplicate_window: 100ms", steps: script(id("a", "ok", "1"), pause(400*time.Millisecond), id("a", "ok", "1"))},
		{name: "a Nats-Msg-Id after a purge", exact: true, steps: script(id("a", "ok", "1"), api("STREAM.PURGE", nil), id("a", "dup", "1"))},
		{name: "a Nats-Msg-Id of a refused message", steps: script(pub("a", "10060").with("Nats-Msg-Id: 1\nNats-Expected-Stream: OTHER"), id("a", "ok", "1"))},
		{name: "Expected-Last-Msg-Id that is right", exact: true, filler: "Nats-Msg-Id: {last}f{own}", steps: script(id("a", "ok", "1"))},
		{name: "Expected-Last-Msg-Id that is wrong", steps: script(pub("a", "10070").with("Nats-Expected-Last-Msg-Id: never"), pub("a", "ok"))},
	}
}

func expectRows() []behaviour {
	return []behaviour{
		{name: "Expected-Stream that is right", steps: script(pub("a", "ok").with("Nats-Expected-Stream: {S}"))},
		{name: "Expected-Stream that is wrong", steps: script(pub("a", "10060").with("Nats-Expected-Stream: OTHER"), pub("a", "ok"))},
		{name: "Expected-Last-Sequence that is right", exact: true, steps: script(pub("a", "ok").with("Nats-Expected-Last-Sequence: {last}"), pub("a", "ok").with("Nats-Expected-Last-Sequence: {last}"))},
		{name: "Expected-Last-Sequence that is wrong", steps: script(pub("a", "10071").with("Nats-Expected-Last-Sequence: 999999"), pub("a", "ok"))},
		{name: "Expected-Last-Sequence right after a wrong one", exact: true, steps: script(pub("a", "10071").with("Nats-Expected-Last-Sequence: 999999"), pub("a", "ok").with("Nats-Expected-Last-Sequence: {last}"), pub("a", "10071").with("Nats-Expected-Last-Sequence: 0"))},
		{name: "Expected-Last-Sequence that is no number", exact: true, steps: script(pub("a", "ok"), pub("a", "any").with("Nats-Expected-Last-Sequence: many"))},
		{name: "Expected-Last-Subject-Sequence of a new subject", steps: script(pub("new", "ok").with("Nats-Expected-Last-Subject-Sequence: 0"), pub("new", "10071").with("Nats-Expected-Last-Subject-Sequence: 0"))},
		{name: "Expected-Last-Subject-Sequence that is right", steps: script(pub("a", "ok"), pub("a", "ok").with("Nats-Expected-Last-Subject-Sequence: {own}"), pub("a", "ok").with("Nats-Expected-Last-Subject-Sequence: {own}"))},
		{name: "Expected-Last-Subject-Sequence that is wrong", steps: script(pub("a", "ok"), pub("a", "10071").with("Nats-Expected-Last-Subject-Sequence: 777777"), pub("a", "ok"))},
		{name: "Expected-Last-Subject-Sequence of another subject", steps: script(pub("b", "ok"), pub("a", "ok").with("Nats-Expected-Last-Subject-Sequence: {own}\nNats-Expected-Last-Subject-Sequence-Subject: {s}.b"),
			pub("a", "10071").with("Nats-Expected-Last-Subject-Sequence: 777777\nNats-Expected-Last-Subject-Sequence-Subject: {s}.*"))},
		{name: "Expected-Last-Subject-Sequence-Subject alone", steps: script(pub("a", "10193").with("Nats-Expected-Last-Subject-Sequence-Subject: {s}.b"), pub("a", "ok"))},
		{name: "expectation and Nats-Msg-Id together", steps: script(pub("a", "ok").with("Nats-Msg-Id: 1\nNats-Expected-Last-Subject-Sequence: 0"), pub("a", "10071").with("Nats-Msg-Id: 1\nNats-Expected-Last-Subject-Sequence: 0"),
			pub("a", "dup").with("Nats-Msg-Id: 1\nNats-Expected-Last-Subject-Sequence: {own}"))},
		{name: "expectation without a reply subject", steps: script(pub("a", "").with("Nats-Expected-Stream: OTHER").noReply(false), pub("a", "").with("Nats-Expected-Stream: {S}").noReply(true), pub("a", "ok"))},
	}
}

func limitRows(big string) []behaviour {
	return []behaviour{
		{name: "max_msgs and discard new", exact: true, config: refuseNew + ", max_msgs: 20", steps: times(24, pub("a", "any"))},
		{name: "max_msgs and discard old", exact: true, config: "discard: old, max_msgs: 5", steps: times(9, pub("a", "ok"))},
		{name: "room after a purge", exact: true, config: refuseNew + ", max_msgs: 40", steps: script(times(4, pub("a", "any")), api("STREAM.PURGE", nil), times(4, pub("a", "any")))},
		{name: "max_bytes and discard new", weighed: true, config: refuseNew + ", max_bytes: 8KiB", steps: times(12, pub("a", "any").body(big[:1000]))},
		{name: "max_bytes and a smaller message that fits", weighed: true, config: refuseNew + ", max_bytes: 8KiB", steps: script(times(9, pub("a", "any").body(big[:1000])), times(3, pub("a", "any").body("x")))},
		{name: "max_bytes and discard old", weighed: true, config: "discard: old, max_bytes: 8KiB", steps: times(12, pub("a", "ok").body(big[:1000]))},
		{name: "max_msg_size", config: "max_msg_size: 200", steps: script(pub("a", "ok").body(big[:200]), pub("a", "10054").body(big[:201]), pub("a", "ok"))},
		{name: "max_msg_size with a header", config: "max_msg_size: 200", steps: script(pub("a", "ok").with("X: y").body(big[:182]), pub("a", "10054").with("X: y").body(big[:183]), pub("a", "ok"))},
		{name: "max_msg_size that only a group would exceed", ungrouped: "all are too large for it", config: "max_msg_size: 20", steps: times(4, pub("a", "ok").body(big[:20]))},
		{name: "larger than max_bytes", weighed: true, config: refuseNew + ", max_bytes: 8KiB", steps: script(pub("a", "any").body(big[:10000]), pub("a", "any"))},
		{name: "max_msgs_per_subject", config: "max_msgs_per_subject: 2, discard: old", exact: true, steps: times(5, pub("a", "ok"))},
		{name: "discard_new_per_subject", config: refuseNew + ", max_msgs_per_subject: 3, discard_new_per_subject: true", exact: true, steps: script(times(5, pub("a", "any")), pub("b", "ok"))},
		{name: "discard_new_per_subject among others", config: refuseNew + ", max_msgs_per_subject: 100000, discard_new_per_subject: true", steps: script(times(3, pub("a", "ok")))},
		{name: "max_age", config: "max_age: 150ms, duplicate_window: 100ms", exact: true, steps: script(pub("a", "ok"), pause(500*time.Millisecond), pub("a", "ok"), pause(500*time.Millisecond))},
		{name: "work queue", config: "retention: workqueue", steps: script(pub("a", "ok"), pub("b", "ok"))},
		{name: "work queue that is full", exact: true, config: "retention: workqueue, max_msgs: 10, " + refuseNew, steps: times(14, pub("a", "any"))},
		{name: "interest with a consumer", config: "retention: interest, consumers: {c: {}}", steps: script(pub("a", "ok"), pub("b", "ok"))},
		{name: "interest with a consumer of some subjects", config: "retention: interest, consumers: {c: {filter_subjects: ['{s}.a', '{s}.fill.>']}}", steps: script(pub("a", "ok"), pub("b", "ok"), pub("a", "ok"))},
		{name: "interest of nobody", config: "retention: interest", ungrouped: "nothing is kept", steps: script(pub("a", "ok"), pub("b", "ok").with("Nats-Msg-Id: 1"), pub("b", "dup").with("Nats-Msg-Id: 1"))},
		{name: "no_ack", config: "no_ack: true", refused: true, ungrouped: "the server does not say what it kept", steps: script(pub("a", "none"), pub("b", "none"))},
		{name: "compression", config: "compression: s2", steps: script(pub("a", "ok").body(big[:5000]))},
	}
}
