// SPDX-License-Identifier: Apache-2.0

package bootstrap

import (
	"slices"
	"strings"
)

// group is the changes of one object that one action makes.
type group struct {
	op      Op
	changes []FieldChange
}

// opOf is the action for a class of change, and severity its place: a change that
// the server takes only together with another one goes into the later action.
var (
	opOf     = map[Class]Op{InPlace: Update, OnlyOnce: OneWay, Drops: Drop, Anew: Recreate, Never: Blocked}
	severity = []Op{Update, OneWay, Drop, Recreate, Blocked}
)

// sortOut puts the changes of an object into actions, in the order in which they
// can be made.
func sortOut(k Kind, changes []FieldChange, o object) []group {
	want := Merged(o.have, settings(o.set, changes))
	changes = append(changes, entailed(k, changes, o.have, want)...)
	ops := make([]Op, len(changes))
	for i, c := range changes {
		class, why := classify(k, c, o.have, want, o.stream)
		if class == Anew && k == KindStream && o.sourcedBy != "" {
			class, why = Never, why+", and stream "+o.sourcedBy+" has it as a source and would copy everything a second time: declare a stream of another name"
		}
		ops[i], changes[i].Why = opOf[class], why
	}
	for again := true; again; {
		again = false
		for i, c := range changes {
			for j, other := range changes {
				goes := slices.Contains(needs[c.key()], other.key()) || slices.Contains(follows[c.key()], other.key())
				if goes && later(ops[j], ops[i]) {
					ops[i], again = ops[j], true
					changes[i].Why = "goes together with " + other.Field
				}
			}
		}
	}
	var groups []group
	for _, op := range severity {
		g := group{op: op}
		for i, c := range changes {
			if ops[i] == op {
				g.changes = append(g.changes, c)
			}
		}
		if len(g.changes) > 0 {
			groups = append(groups, g.split()...)
		}
	}
	return groups
}

// split takes out what the server refuses in the same request as the rest.
func (g group) split() []group {
	first, second := group{op: g.op}, group{op: g.op}
	for _, c := range g.changes {
		conflicts := func(other FieldChange) bool { return slices.Contains(apart[c.key()], other.key()) }
		if slices.ContainsFunc(g.changes, conflicts) {
			second.changes = append(second.changes, c)
		} else {
			first.changes = append(first.changes, c)
		}
	}
	if len(second.changes) == 0 {
		return []group{first}
	}
	return []group{first, second}
}

func later(a, b Op) bool { return slices.Index(severity, a) > slices.Index(severity, b) }

// loss is what an action removes, as far as the state says it.
func loss(a Action, o object) *Loss {
	if a.Kind != KindStream {
		return nil
	}
	var l Loss
	var notes []string
	for _, c := range a.Changes {
		limit, ok := number(c.Want)
		switch {
		case !ok && c.Field == "retention" && text(c.Want) == "interest" && o.state.Consumers == 0:
			l.Messages, l.Bytes = o.state.Messages, o.state.Bytes
			notes = append(notes, "everything: nobody consumes it")
		case !ok && c.Field == "retention" && text(c.Want) != "limits":
			notes = append(notes, "what is acknowledged already")
		case !ok || !limit.IsInt() || limit.Sign() <= 0:
		case c.Field == "max_msgs":
			l.Messages = max(l.Messages, over(o.state.Messages, limit.Num().Uint64()))
		case c.Field == "max_bytes":
			l.Bytes = max(l.Bytes, over(o.state.Bytes, limit.Num().Uint64()))
		case c.Field == "max_age":
			notes = append(notes, "messages older than "+shown(c.Field, c.Want))
		case c.Field == "max_msgs_per_subject":
			notes = append(notes, "all but the newest "+shown(c.Field, c.Want)+" of each subject")
		}
	}
	switch {
	case o.state.Messages == 0:
		return &Loss{Note: "nothing, the stream is empty"}
	case a.Op == Recreate && l == (Loss{}) && len(notes) == 0:
		return nil // all of it is carried over
	}
	l.Note = strings.Join(notes, "; ")
	return &l
}

func over(have, limit uint64) uint64 {
	if have <= limit {
		return 0
	}
	return have - limit
}
