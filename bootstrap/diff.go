// SPDX-License-Identifier: Apache-2.0

package bootstrap

import (
	"fmt"
	"maps"
	"slices"

	"github.com/dustin/go-humanize"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

const (
	reasonRemoved  = "was made by Holdfast, is not in the file any more"
	reasonForeign  = "was not made by Holdfast"
	reasonNoStream = "its stream could not be read: "
	reasonResumed  = "was begun and cut short; its messages are in a copy"
	reasonWidened  = "was begun and cut short; the stream keeps what is acknowledged until all of its copies are there"
	reasonDeleted  = "was deleted since the file was applied"
	reasonHeld     = "the server refuses it while stream %s has one of the subjects"
	noteWidens     = "until the copies are there the stream keeps what is acknowledged, and refuses publishers when it is full"
)

// Diff says what to do so that the server has what the file declares. applied
// holds the objects of the latest revision, as Topology.Objects names them: where
// the file says the same as then, a difference is somebody's work on the server.
// The same input gives the same plan.
func Diff(want Topology, have Observed, applied map[string]string) Plan {
	declared := make(map[string]Account, len(want.Accounts))
	for _, a := range want.Accounts {
		declared[a.Name] = a
	}
	d := differ{applied: applied, objects: want.Objects()}
	for _, name := range union(declared, have.Accounts) {
		account := declared[name]
		account.Name = name
		d.account(account, have.Accounts[name])
	}
	return Plan{Actions: d.actions}
}

type differ struct {
	applied, objects map[string]string
	actions          []Action
}

func (d *differ) account(want Account, have ObservedAccount) {
	declared := make(map[string]Stream, len(want.Streams))
	for _, s := range want.Streams {
		declared[s.Name] = s
	}
	streams, copied := withoutCopies(have.Streams)
	sourced := sourcedBy(have.Streams)
	first := len(d.actions)
	for _, name := range inOrder(union(declared, streams), declared, streams) {
		s, isDeclared := declared[name]
		seen, exists := streams[name]
		at := Action{Kind: KindStream, Account: want.Name, Stream: name, Pos: s.Pos}
		cutShort, consumers := Interrupted(seen.Config)
		if copied[name] || cutShort || len(consumers) > 0 {
			// Whatever the file says by now, what was begun is brought to its end
			// first: until then nobody knows what the stream will be.
			d.resume(at, copied[name] || cutShort, consumers)
			continue
		}
		if Widening(seen.Config) {
			at.Op, at.Reason = Update, reasonWidened
			d.actions = append(d.actions, at)
			continue
		}
		if !isDeclared {
			if !Scratch(seen.Config) {
				d.actions = append(d.actions, unmanaged(at, seen.Config))
			}
			continue
		}
		if have.Unavailable != "" {
			seen, exists = ObservedStream{Unavailable: have.Unavailable}, true
		}
		d.decide(at, object{
			set: s.Set, fields: s.Fields, exists: exists, have: seen.Config, unavailable: seen.Unavailable, silent: seen.Silent,
			stream: seen.Config, state: seen.State, defaults: s.Defaults,
			sourcedBy: sourced[name],
		}, s.spec)
		d.consumers(at, s, seen)
	}
	foresee(d.actions[first:], streams)
}

// resume finishes what was begun on a stream, or on consumers of it.
func (d *differ) resume(at Action, stream bool, consumers []string) {
	at.Op, at.Reason = Recreate, reasonResumed
	if stream {
		d.actions = append(d.actions, at)
		return
	}
	at.Kind = KindConsumer
	for _, at.Consumer = range consumers {
		d.actions = append(d.actions, at)
	}
}

func (d *differ) consumers(at Action, s Stream, have ObservedStream) {
	declared := make(map[string]Consumer, len(s.Consumers))
	for _, c := range s.Consumers {
		declared[c.Name] = c
	}
	at.Kind = KindConsumer
	for _, name := range union(declared, have.Consumers) {
		c, isDeclared := declared[name]
		seen, exists := have.Consumers[name]
		at.Consumer, at.Pos = name, c.Pos
		if !isDeclared {
			// Without a durable name it comes and goes with the client that made it.
			if text(seen.Config["durable_name"]) != "" {
				d.actions = append(d.actions, unmanaged(at, seen.Config))
			}
			continue
		}
		if have.Unavailable != "" {
			seen, exists = ObservedConsumer{Unavailable: reasonNoStream + have.Unavailable, Silent: have.Silent}, true
		}
		d.decide(at, object{
			set: c.Set, fields: c.Fields, exists: exists, have: seen.Config, unavailable: seen.Unavailable, silent: seen.Silent,
			stream: have.Config, state: have.State, defaults: c.Defaults, consumer: seen.State,
		}, c.spec)
	}
}

// object is one declared stream or consumer and what the server has for it.
type object struct {
	set         map[string]any
	fields      map[string]diag.Pos
	exists      bool
	have        map[string]any
	unavailable string
	silent      bool // nobody who keeps it answered
	// stream and state are the server's of the stream itself, or of the consumer's.
	stream map[string]any
	state  StreamState
	// consumer is the state of the consumer itself.
	consumer ConsumerState
	// defaults are what Holdfast would have made it with.
	defaults map[string]any
	// sourcedBy is a stream of the account that copies from this one; "" for none.
	sourcedBy string
}

func (d *differ) decide(a Action, o object, spec func() map[string]any) {
	known := d.applied[a.Path()]
	same := known != "" && known == d.objects[a.Path()]
	switch {
	case !o.exists:
		a.Op, a.Spec, a.Drift = Create, spec(), same
		if a.Drift {
			a.Reason = reasonDeleted
		}
	case o.unavailable != "":
		a.Op, a.Reason, a.Silent = Unknown, o.unavailable, o.silent
	default:
		d.change(a, o, same)
		return
	}
	d.actions = append(d.actions, a)
}

// change adds an action for each kind of consent that the differences need.
func (d *differ) change(a Action, o object, drift bool) {
	changes := compare(a.Kind, o.set, o.have)
	if !stamped(o.have) {
		a.Adopted = compare(a.Kind, without(o.defaults, o.set), o.have)
	}
	if len(changes) == 0 {
		a.Op = Keep
		d.actions = append(d.actions, a)
		return
	}
	for i := range changes {
		changes[i].Pos = position(changes[i].Field, o.fields, a.Pos)
	}
	for _, g := range sortOut(a.Kind, changes, o) {
		b := a
		a.Adopted = nil // said once
		b.Op, b.Consent, b.Changes, b.Drift = g.op, consentFor(g.op), g.changes, drift
		if b.Op != Blocked {
			b.Spec = settings(o.set, g.changes)
		}
		if drift && b.Op == Update {
			b.Consent = Confirmed
		}
		if b.Op == Drop || b.Op == Recreate {
			b.Loss = loss(b, o)
		}
		switch {
		case b.Op == Recreate:
			b.Note = o.note(b.Kind)
		case b.Op == Update && o.widens(b):
			b.Note = noteWidens
		}
		d.actions = append(d.actions, b)
	}
}

func consentFor(op Op) Consent {
	switch op {
	case OneWay:
		return Confirmed
	case Drop, Recreate:
		return Allowed
	}
	return NoConsent
}

// settings are the fields of an update: whole keys of the API, so that an object
// in which one key differs is set with all that the file says of it.
func settings(set map[string]any, changes []FieldChange) map[string]any {
	out := make(map[string]any, len(changes))
	for _, c := range changes {
		switch c.Field {
		case "filter_subject", "filter_subjects":
			// The server takes one of the two.
			out["filter_subject"], out["filter_subjects"] = nil, nil
		}
		if c.Unset {
			out[c.Field] = nil
			continue
		}
		if _, ok := set[c.key()]; !ok {
			out[c.Field] = c.Want // the server needs it changed with another one
			continue
		}
		out[c.key()] = set[c.key()]
	}
	return out
}

// widens reports whether an update gives a stream with retention interest more copies.
func (o object) widens(a Action) bool {
	return a.Kind == KindStream && text(o.have["retention"]) == "interest" && slices.ContainsFunc(a.Changes, func(c FieldChange) bool {
		return c.Field == "num_replicas" && lowered(c.Want, c.Have)
	})
}

// note says what being made anew means for whoever uses the object.
func (o object) note(k Kind) string {
	switch {
	case k == KindStream && o.state.Messages > 0:
		return fmt.Sprintf("publishers to it get no answer while %s messages, %s, are copied twice, each synced to disk",
			humanize.Comma(int64(o.state.Messages)), humanize.IBytes(o.state.Bytes))
	case k == KindStream:
		return "publishers to it get no answer meanwhile"
	case o.consumer.NumAckPending > 0 || o.consumer.Delivered.Stream > o.consumer.AckFloor.Stream:
		return "what was delivered after the oldest unacknowledged message is delivered again, also where it is acknowledged, and deliveries are counted anew"
	}
	return ""
}

func unmanaged(a Action, have map[string]any) Action {
	a.Op, a.Reason = Unmanaged, reasonForeign
	if stamped(have) {
		a.Stamped, a.Reason = true, reasonRemoved
	}
	return a
}

func stamped(have map[string]any) bool {
	metadata, _ := have["metadata"].(map[string]any)
	return text(metadata[stampManaged]) == "true"
}

// without returns the defaults of the fields that the file does not set.
func without(defaults, set map[string]any) map[string]any {
	out := maps.Clone(defaults)
	for field := range set {
		delete(out, field)
	}
	return out
}

// sourcedBy names, for a stream, one of the same account that has it as a source.
func sourcedBy(have map[string]ObservedStream) map[string]string {
	out := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(have)) {
		sources, _ := have[name].Config["sources"].([]any)
		for _, s := range sources {
			if source, ok := s.(map[string]any); ok && isLocal(source) {
				out[text(source["name"])] = name
			}
		}
	}
	return out
}

// withoutCopies takes out the copies that recreations keep messages in, and names
// the streams these belong to, which stay in the result whether they exist or not.
func withoutCopies(have map[string]ObservedStream) (streams map[string]ObservedStream, copied map[string]bool) {
	streams, copied = make(map[string]ObservedStream, len(have)), map[string]bool{}
	for name, s := range have {
		if of, ok := CopyOf(s.Config); ok {
			copied[of] = true
			continue
		}
		streams[name] = s
	}
	for of := range copied {
		if _, ok := streams[of]; !ok {
			streams[of] = ObservedStream{}
		}
	}
	return streams, copied
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
