// SPDX-License-Identifier: Apache-2.0

package bootstrap

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"

	"github.com/holdfast-mq/holdfast/appliance/config"
	"github.com/holdfast-mq/holdfast/appliance/diag"
)

// FromConfig returns what a checked configuration asks for. nodes is the
// number of nodes, which num_replicas: auto depends on.
func FromConfig(cfg *config.Config, nodes int) Topology {
	var t Topology
	for _, name := range slices.Sorted(maps.Keys(cfg.Accounts)) {
		acc := Account{Name: name, Pos: cfg.At("accounts", name)}
		streams := cfg.Accounts[name].Streams
		for _, s := range slices.Sorted(maps.Keys(streams)) {
			acc.Streams = append(acc.Streams, streamFrom(cfg, name, s, streams[s], nodes))
		}
		t.Accounts = append(t.Accounts, acc)
	}
	return t
}

func streamFrom(cfg *config.Config, account, name string, declared config.Stream, nodes int) Stream {
	at := []string{"accounts", account, "streams", name}
	s := Stream{
		Name: name,
		Pos:  cfg.At(at...),
		Set:  config.APIValues(declared),
		// The server's own default, discard old, deletes messages that nobody
		// has read yet; a publisher that gets an error still has its message.
		Defaults: map[string]any{"storage": "file", "discard": "new", "num_replicas": autoReplicas(nodes)},
	}
	replace(s.Set, "num_replicas", nodes)
	mode, _ := cfg.GroupCommit(account, name)
	switch {
	case mode != config.GroupOff && !cfg.Copied(account, name):
		s.Set["allow_atomic"] = true // how messages are handed over together
	case declared.AllowAtomic == nil && (s.Set["persist_mode"] == "async" || declared.IsMirror() || cfg.Cluster != nil):
		// What an earlier edition had for that is in the way of these; and in a cluster the
		// server would take batches of clients that the file does not allow.
		s.Set["allow_atomic"] = false
	}
	s.Fields = positions(cfg, at, s.Set)
	for _, c := range slices.Sorted(maps.Keys(declared.Consumers)) {
		s.Consumers = append(s.Consumers, consumerFrom(cfg, append(at, "consumers", c), c, declared.Consumers[c], nodes))
	}
	return s
}

func consumerFrom(cfg *config.Config, at []string, name string, declared config.Consumer, nodes int) Consumer {
	c := Consumer{
		Name: name,
		Pos:  cfg.At(at...),
		Set:  config.APIValues(declared),
		// The raw API's default, ack_policy none, forgets a message once it is sent.
		Defaults: map[string]any{"ack_policy": "explicit", "deliver_policy": "all", "replay_policy": "instant"},
	}
	if isAuto(c.Set["num_replicas"]) || nodes == 1 {
		delete(c.Set, "num_replicas") // as the stream
	}
	c.Fields = positions(cfg, at, c.Set)
	return c
}

// replace gives auto its number, and what only a cluster can have that of a single node:
// a file that names a cluster is in force before the others are there.
func replace(set map[string]any, field string, nodes int) {
	n, _ := set[field].(json.Number)
	if asked, _ := n.Int64(); isAuto(set[field]) || asked > 1 && nodes == 1 {
		set[field] = autoReplicas(nodes)
	}
}

func isAuto(v any) bool { return v == json.Number("0") }

// autoReplicas is 3 where three nodes can hold them, else 1.
func autoReplicas(nodes int) json.Number {
	if nodes >= 3 {
		return "3"
	}
	return "1"
}

// positions finds where each set field, and each field in it, stands.
func positions(cfg *config.Config, at []string, set map[string]any) map[string]diag.Pos {
	out := map[string]diag.Pos{}
	var add func(prefix string, at []string, v any)
	add = func(prefix string, at []string, v any) {
		out[prefix] = cfg.At(at...)
		switch v := v.(type) {
		case map[string]any:
			for k, e := range v {
				add(prefix+"."+k, append(slices.Clone(at), k), e)
			}
		case []any:
			for i, e := range v {
				if m, ok := e.(map[string]any); ok {
					n := strconv.Itoa(i)
					add(prefix+"."+n, append(slices.Clone(at), n), m)
				}
			}
		}
	}
	for k, v := range set {
		add(k, append(slices.Clone(at), k), v)
	}
	return out
}
