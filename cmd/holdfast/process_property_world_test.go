// SPDX-License-Identifier: Apache-2.0

//go:build process && linux

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/holdfast-mq/holdfast/appliance/config"
)

// world is what a file says of accounts. Values are those of the JetStream API, but
// for times, which are text.
type world map[string]*worldAccount

type worldAccount struct {
	Limits  map[string]any          `json:"limits,omitempty"`
	Streams map[string]*worldStream `json:"streams,omitempty"`
	Users   map[string]any          `json:"users,omitempty"`
}

type worldStream struct {
	fields    map[string]any
	consumers map[string]map[string]any
}

func (s *worldStream) MarshalJSON() ([]byte, error) {
	all := maps.Clone(s.fields)
	if len(s.consumers) > 0 {
		all["consumers"] = s.consumers
	}
	return json.Marshal(all)
}

func (s *worldStream) UnmarshalJSON(b []byte) error {
	s.consumers = map[string]map[string]any{}
	if err := json.Unmarshal(b, &s.fields); err != nil {
		return err
	}
	if all, ok := s.fields["consumers"].(map[string]any); ok {
		for name, c := range all {
			s.consumers[name], _ = c.(map[string]any)
		}
	}
	delete(s.fields, "consumers")
	return nil
}

// accounts is the world as JSON, which YAML contains.
func (w world) accounts() string {
	b, err := json.Marshal(w)
	if err != nil {
		return err.Error()
	}
	return strings.ReplaceAll(string(b), `\u003e`, ">") + "\n"
}

func (w world) text() string { return listening + "accounts: " + w.accounts() }

func (w world) clone() world {
	var c world
	if err := json.Unmarshal([]byte(w.accounts()), &c); err != nil {
		return nil
	}
	return c
}

// check says what `holdfast check` would refuse.
func (w world) check() error {
	_, problems := config.Load(config.Options{File: "holdfast.yaml", Texts: []config.Text{{Name: "holdfast.yaml", Data: []byte(w.text())}}})
	return problems.Err()
}

// choice is a set of fields, each with the values that it can have; a nil value
// takes the field out of the file.
type choice map[string][]any

func one(v any) []any { return []any{v} }

// streamChoices are changes of a stream; # stands for its first subject token.
func streamChoices() []choice {
	onOff := []any{true, false}
	return []choice{
		{"description": {"one", "two"}}, {"metadata": {map[string]any{"a": "1"}, map[string]any{"a": "2", "b": "x"}, map[string]any{}}},
		{"subjects": {[]any{"#.>"}, []any{"#.>", "more-#.>"}}},
		{"max_age": {"1h", "24h", "0s", nil}}, {"max_msg_size": {64 << 10, 128 << 10, nil}}, {"max_consumers": {10, 20}},
		{"duplicate_window": {"1m", "30m"}}, {"compression": {"none", "s2"}}, {"first_seq": {7, nil}},
		{"allow_direct": onOff}, {"allow_atomic": onOff}, {"allow_batched": onOff}, {"allow_msg_ttl": onOff},
		{"allow_rollup_hdrs": onOff}, {"deny_purge": onOff}, {"deny_delete": onOff}, {"allow_msg_counter": onOff},
		{"deny_purge": one(true), "allow_rollup_hdrs": one(false)}, {"subject_delete_marker_ttl": {"10m", "0s"}},
		{"discard": one("old"), "allow_msg_schedules": one(true), "sources": one(nil)}, {"sealed": onOff},
		{"consumer_limits": {map[string]any{"max_ack_pending": 2000}, map[string]any{}}},
		{"subject_transform": {map[string]any{"src": "#.>", "dest": "t.#.>"}, map[string]any{}}},
		{"republish": {map[string]any{"src": "#.>", "dest": "out.#.>"}, map[string]any{}}},
		{"mirror": one(map[string]any{"name": "S1"}), "subjects": one(nil)}, {"mirror": one(map[string]any{})},
		{"sources": {[]any{map[string]any{"name": "S1"}}, []any{}}},
	}
}

// heavyChoices are those changes of a stream that can cost messages.
func heavyChoices() []choice {
	return []choice{
		{"retention": {"limits", "interest", "workqueue"}}, {"retention": {"limits", "interest", "workqueue"}},
		{"storage": {"file", "memory"}}, {"persist_mode": {"default", "async"}},
		{"max_bytes": {8 << 10, 1 << 20, 2 << 20}}, {"max_msgs": {8, 20, 1000, "unlimited", nil}},
		{"max_msgs_per_subject": {3, 100, "unlimited", nil}}, {"discard": {"new", "old"}}, {"discard_new_per_subject": {true, false}},
		{"discard": one("new"), "discard_new_per_subject": one(true), "max_msgs_per_subject": {3, 10}},
	}
}

// consumerChoices are changes of a consumer.
func consumerChoices() []choice {
	onOff := []any{true, false}
	return []choice{
		{"description": {"one", "two"}}, {"metadata": {map[string]any{"a": "1"}, map[string]any{"a": "2"}}},
		{"ack_wait": {"5s", "30s"}, "backoff": one(nil)}, {"max_deliver": {5, 9, "unlimited"}},
		{"backoff": {[]any{"5s", "30s"}, []any{"6s"}}, "max_deliver": {5, 9}, "ack_wait": one(nil)},
		{"filter_subject": {"#.0", "#.>", nil}, "filter_subjects": one(nil)},
		{"filter_subjects": {[]any{"#.0", "#.1"}, []any{"#.>"}, nil}, "filter_subject": one(nil)},
		// Not mem_storage: such a consumer is gone with the process, and with it what a
		// stream with retention interest kept for it alone.
		{"max_ack_pending": {100, 500}}, {"headers_only": onOff}, {"sample_freq": {"10%", "20%"}},
		{"max_waiting": {64, 128}}, {"max_batch": {10, 20}}, {"max_expires": {"1m", "2m"}}, {"max_bytes": {1 << 20, 2 << 20}},
		{"ack_policy": {"explicit", "all", "none"}}, {"replay_policy": {"instant", "original"}},
		{"deliver_policy": {"all", "new", "last"}, "opt_start_seq": one(nil)},
		{"deliver_policy": one("by_start_sequence"), "opt_start_seq": {3, 9}},
		{"deliver_policy": one("last_per_subject"), "filter_subject": one("#.>"), "filter_subjects": one(nil), "opt_start_seq": one(nil)},
		{"deliver_subject": {"push.a", "push.b"}, "max_waiting": one(nil), "max_batch": one(nil), "max_expires": one(nil), "max_bytes": one(nil), "priority_policy": one(nil), "priority_groups": one(nil), "deliver_group": {"g", nil}},
		{"deliver_subject": one("push.c"), "flow_control": onOff, "idle_heartbeat": one("5s"), "max_waiting": one(nil), "max_batch": one(nil), "max_expires": one(nil), "max_bytes": one(nil), "priority_policy": one(nil), "priority_groups": one(nil)},
		{"priority_policy": {"overflow", "pinned_client"}, "priority_groups": one([]any{"main"})},
	}
}

// generator makes worlds and changes them; the same seed does the same.
type generator struct{ *rand.Rand }

func newGenerator(n uint64) generator { return generator{rand.New(rand.NewPCG(n, 0x401df457))} }

func pick[T any](g generator, from []T) T { return from[g.IntN(len(from))] }

func pickKey[T any](g generator, from map[string]T) string {
	return pick(g, slices.Sorted(maps.Keys(from)))
}

func (g generator) chance(percent int) bool { return g.IntN(100) < percent }

// apply sets fields as a choice says, with the values that fall.
func (g generator) apply(c choice, fields map[string]any, token string) {
	for _, field := range slices.Sorted(maps.Keys(c)) {
		v := pick(g, c[field])
		if v == nil {
			delete(fields, field)
			continue
		}
		text, err := json.Marshal(v)
		if err != nil {
			continue
		}
		if err := json.Unmarshal(bytes.ReplaceAll(text, []byte("#"), []byte(token)), &v); err == nil {
			fields[field] = v
		}
	}
}

// world is a first version. Every account has an administrator, for the test.
func (g generator) world() world {
	w := world{}
	for i := range 1 + g.IntN(3) {
		w[fmt.Sprintf("acct%d", i+1)] = g.account()
	}
	for range 10 {
		w = g.edit(w, nil)
	}
	return w
}

func (g generator) account() *worldAccount {
	a := &worldAccount{Streams: map[string]*worldStream{}, Users: map[string]any{"admin": map[string]any{"role": "admin"}}}
	for range 1 + g.IntN(4) {
		g.addStream(a)
	}
	return a
}

func (g generator) addStream(a *worldAccount) {
	if a.Streams == nil {
		a.Streams = map[string]*worldStream{}
	}
	// A name of its own: what was taken out of the file is on the server still.
	name := fmt.Sprintf("S%d", g.IntN(1000))
	if len(a.Streams) == 0 {
		name = "S1"
	}
	s := &worldStream{consumers: map[string]map[string]any{}, fields: map[string]any{
		"subjects": []any{strings.ToLower(name) + ".>"}, "max_bytes": 1 << 20, "retention": pick(g, []string{"limits", "limits", "interest", "workqueue"}),
	}}
	s.consumers["work"] = map[string]any{"ack_wait": "5s"}
	if s.fields["retention"] != "workqueue" && g.chance(80) {
		s.consumers["keep"] = map[string]any{}
	}
	a.Streams[name] = s
}

// edit makes one change that `holdfast check` takes. Only what exists can be sealed.
func (g generator) edit(w, exists world) world {
	for {
		c := w.clone()
		g.change(c, exists)
		if c.accounts() != w.accounts() && c.check() == nil {
			return c
		}
	}
}

func (g generator) change(w, exists world) {
	if n := g.IntN(100); n < 3 && len(w) < 3 {
		w[fmt.Sprintf("acct%d", g.IntN(1000))] = g.account()
		return
	} else if n < 5 && len(w) > 1 {
		delete(w, pickKey(g, w))
		return
	}
	account := pickKey(g, w)
	a := w[account]
	switch n := g.IntN(100); {
	case n < 5:
		a.Users[fmt.Sprintf("user%d", g.IntN(3))] = map[string]any{"role": pick(g, []string{"observer", "admin"})}
	case n < 8:
		delete(a.Users, fmt.Sprintf("user%d", g.IntN(3)))
	case n < 11:
		a.Limits = map[string]any{"connections": 50 + g.IntN(50), "streams": 50 + g.IntN(10)}
	case n < 17 || len(a.Streams) == 0:
		g.addStream(a)
	case n < 20 && len(a.Streams) > 1:
		delete(a.Streams, pickKey(g, a.Streams))
	default:
		name := pickKey(g, a.Streams)
		known := exists[account] != nil && exists[account].Streams[name] != nil
		g.changeStream(a.Streams[name], strings.ToLower(name), known)
	}
}

func (g generator) changeStream(s *worldStream, token string, exists bool) {
	switch n := g.IntN(100); {
	case n < 6:
		s.consumers[fmt.Sprintf("more%d", g.IntN(1000))] = map[string]any{}
	case n < 9 && len(s.consumers) > 0:
		delete(s.consumers, pickKey(g, s.consumers))
	case n < 40 && len(s.consumers) > 0:
		g.apply(pick(g, consumerChoices()), s.consumers[pickKey(g, s.consumers)], token)
	case n < 65:
		g.apply(pick(g, heavyChoices()), s.fields, token)
	default:
		c := pick(g, streamChoices())
		if _, is := c["sealed"]; !is || exists {
			g.apply(c, s.fields, token)
		}
	}
}
