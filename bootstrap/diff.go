// SPDX-License-Identifier: Apache-2.0

package bootstrap

import (
	"maps"
	"slices"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

const (
	reasonRemoved  = "was made by Holdfast, is not in the file any more"
	reasonForeign  = "was not made by Holdfast"
	reasonNoStream = "its stream could not be read: "
)

// Diff says what to do so that the server has what the file declares. The same
// input gives the same plan.
func Diff(want Topology, have Observed) Plan {
	declared := make(map[string]Account, len(want.Accounts))
	for _, a := range want.Accounts {
		declared[a.Name] = a
	}
	var p Plan
	for _, name := range union(declared, have.Accounts) {
		account := declared[name]
		account.Name = name
		p.Actions = append(p.Actions, diffAccount(account, have.Accounts[name])...)
	}
	return p
}

func diffAccount(want Account, have ObservedAccount) []Action {
	declared := make(map[string]Stream, len(want.Streams))
	for _, s := range want.Streams {
		declared[s.Name] = s
	}
	var actions []Action
	for _, name := range originsFirst(union(declared, have.Streams), declared) {
		s, isDeclared := declared[name]
		seen, exists := have.Streams[name]
		at := Action{Kind: KindStream, Account: want.Name, Stream: name, Pos: s.Pos}
		if !isDeclared {
			actions = append(actions, unmanaged(at, seen.Config))
			continue
		}
		if have.Unavailable != "" {
			seen, exists = ObservedStream{Unavailable: have.Unavailable}, true
		}
		actions = append(actions, decide(at, object{s.Set, s.Fields, exists, seen.Config, seen.Unavailable}, s.spec))
		actions = append(actions, diffConsumers(at, s, seen)...)
	}
	return actions
}

func diffConsumers(at Action, s Stream, have ObservedStream) []Action {
	declared := make(map[string]Consumer, len(s.Consumers))
	for _, c := range s.Consumers {
		declared[c.Name] = c
	}
	at.Kind = KindConsumer
	var actions []Action
	for _, name := range union(declared, have.Consumers) {
		c, isDeclared := declared[name]
		seen, exists := have.Consumers[name]
		at.Consumer, at.Pos = name, c.Pos
		if !isDeclared {
			// Without a durable name it comes and goes with the client that made it.
			if text(seen.Config["durable_name"]) != "" {
				actions = append(actions, unmanaged(at, seen.Config))
			}
			continue
		}
		if have.Unavailable != "" {
			seen, exists = ObservedConsumer{Unavailable: reasonNoStream + have.Unavailable}, true
		}
		actions = append(actions, decide(at, object{c.Set, c.Fields, exists, seen.Config, seen.Unavailable}, c.spec))
	}
	return actions
}

// object is one declared stream or consumer and what the server has for it.
type object struct {
	set         map[string]any
	fields      map[string]diag.Pos
	exists      bool
	have        map[string]any
	unavailable string
}

func decide(a Action, o object, spec func() map[string]any) Action {
	switch {
	case !o.exists:
		a.Op, a.Spec = Create, spec()
		return a
	case o.unavailable != "":
		a.Op, a.Reason = Unknown, o.unavailable
		return a
	}
	a.Op = Keep
	a.Changes = compare(a.Kind, o.set, o.have)
	if len(a.Changes) > 0 {
		a.Op = Differs
	}
	for i := range a.Changes {
		a.Changes[i].Pos = position(a.Changes[i].Field, o.fields, a.Pos)
	}
	return a
}

func unmanaged(a Action, have map[string]any) Action {
	a.Op, a.Reason = Unmanaged, reasonForeign
	if metadata, ok := have["metadata"].(map[string]any); ok && text(metadata[stampManaged]) == "true" {
		a.Stamped, a.Reason = true, reasonRemoved
	}
	return a
}

// union returns the sorted names that stand in either map.
func union[A, B any](a map[string]A, b map[string]B) []string {
	names := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.Sort(names)
	return slices.Compact(names)
}

// text returns a string value, or nothing.
func text(v any) string {
	s, _ := v.(string)
	return s
}
