// SPDX-License-Identifier: Apache-2.0

package bootstrap

import (
	"slices"
	"strings"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

// Op is what a plan does with one object.
type Op string

const (
	// Create makes what the file declares and the server does not have.
	Create Op = "create"
	// Update changes what exists in place; nothing stored is touched.
	Update Op = "update"
	// Drop changes what exists in place, which removes stored messages now or
	// later: a lower limit, retention interest.
	Drop Op = "drop"
	// OneWay changes what exists in a way that the server never takes back.
	OneWay Op = "one-way"
	// Recreate makes the object anew, because the server refuses to change it; its
	// messages and positions are carried over.
	Recreate Op = "recreate"
	// Remove takes access from a user that is not in the file any more.
	Remove Op = "remove"
	// Keep leaves what is as declared.
	Keep Op = "keep"
	// Blocked leaves what can't become what the file says.
	Blocked Op = "blocked"
	// Unmanaged leaves what exists and is not in the file.
	Unmanaged Op = "unmanaged"
	// Unknown leaves what could not be read.
	Unknown Op = "unknown"
)

// Consent is what an action needs before it is done.
type Consent string

const (
	// NoConsent is for what a start and a reload do by themselves.
	NoConsent Consent = ""
	// Confirmed is for what `holdfast apply` does once somebody agreed to the plan.
	Confirmed Consent = "confirm"
	// Allowed is for what also needs --allow-destructive ACCOUNT/STREAM.
	Allowed Consent = "allow-destructive"
)

// Kind is the kind of object an action is about.
type Kind string

const (
	// KindAccount is an account: its limits.
	KindAccount Kind = "account"
	// KindUser is a user of an account: its key and permissions.
	KindUser Kind = "user"
	// KindStream is a stream.
	KindStream Kind = "stream"
	// KindConsumer is a consumer of a stream.
	KindConsumer Kind = "consumer"
)

// Plan is what there is to do: accounts and users first, then by account and
// stream, a stream before its consumers and after the streams it copies.
type Plan struct {
	Actions []Action `json:"actions"`
}

// Action is what happens to one object. An object whose changes need different
// consent has one action for each.
type Action struct {
	Op       Op     `json:"op"`
	Kind     Kind   `json:"kind"`
	Account  string `json:"account"`
	User     string `json:"user,omitempty"`
	Stream   string `json:"stream,omitempty"`
	Consumer string `json:"consumer,omitempty"`
	// Consent is what it takes to do it.
	Consent Consent `json:"consent,omitempty"`
	// Drift is true when the server was changed since the file was last applied,
	// and the file was not: no start and no reload undoes what somebody did.
	Drift bool `json:"drift,omitempty"`
	// Spec is the whole configuration of a Create; of an Update, Drop, OneWay or
	// Recreate it holds the fields to set, objects to be merged key by key and nil
	// to unset.
	Spec    map[string]any `json:"spec,omitempty"`
	Changes []FieldChange  `json:"changes,omitempty"`
	// Loss is what a Drop or Recreate removes, as far as it is known beforehand.
	Loss   *Loss  `json:"loss,omitempty"`
	Reason string `json:"reason,omitempty"`
	// Note says what else happens while it is done, with the numbers of now.
	Note string `json:"note,omitempty"`
	// Adopted are the fields in which an object that Holdfast did not make differs from
	// what Holdfast makes, and that the file does not set: they stay.
	Adopted []FieldChange `json:"adopted,omitempty"`
	// Silent is true for an Unknown object of which none of those answered that keep it.
	Silent bool `json:"silent,omitempty"`
	// Stamped is true for an Unmanaged object that Holdfast once made.
	Stamped bool     `json:"stamped,omitempty"`
	Pos     diag.Pos `json:"pos,omitzero"`
}

// Loss is what an action removes from a stream. Messages and Bytes are what is
// over the new limits now, 0 when nothing is; Note says it in words.
type Loss struct {
	Messages uint64 `json:"messages"`
	Bytes    uint64 `json:"bytes"`
	Note     string `json:"note,omitempty"`
}

// FieldChange is one field that the server has another value for. Field is
// dotted; Have is nil when the server has none.
type FieldChange struct {
	Field string `json:"field"`
	Have  any    `json:"have"`
	Want  any    `json:"want"`
	// Unset is true where the file says that there is to be none: an empty object.
	Unset bool `json:"unset,omitempty"`
	// Why says what the change does, or why it can't be done; "" for nothing special.
	Why string   `json:"why,omitempty"`
	Pos diag.Pos `json:"pos,omitzero"`
}

// key is the field of the API that the change is in.
func (c FieldChange) key() string {
	key, _, _ := strings.Cut(c.Field, ".")
	return key
}

// Path names the object: ACCOUNT, ACCOUNT/USER, ACCOUNT/STREAM or
// ACCOUNT/STREAM/CONSUMER.
func (a Action) Path() string {
	parts := []string{a.Account, a.User, a.Stream, a.Consumer}
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), "/")
}

// Allowance is what --allow-destructive has to name for the action.
func (a Action) Allowance() string { return a.Account + "/" + a.Stream }

// key is the object's place in the configuration.
func (a Action) key(field string) string {
	parts := []string{"accounts", a.Account}
	for _, p := range []struct{ key, name string }{{"users", a.User}, {"streams", a.Stream}, {"consumers", a.Consumer}} {
		if p.name != "" {
			parts = append(parts, p.key, p.name)
		}
	}
	if field != "" {
		parts = append(parts, field)
	}
	return strings.Join(parts, ".")
}

// Count returns the number of actions of one kind of work.
func (p Plan) Count(op Op) int {
	n := 0
	for _, a := range p.Actions {
		if a.Op == op {
			n++
		}
	}
	return n
}

// Ops are all of them, in the order in which a plan's text has them.
func Ops() []Op {
	return []Op{Drop, Recreate, OneWay, Remove, Update, Create, Blocked, Unmanaged, Unknown, Keep}
}

// Changes is true for an action that changes something when it is done.
func (o Op) Changes() bool {
	return o != Keep && o != Blocked && o != Unmanaged && o != Unknown
}

// Empty is true when there is nothing to change. What is blocked, unmanaged or
// could not be read is not in a plan's power.
func (p Plan) Empty() bool {
	return !slices.ContainsFunc(p.Actions, func(a Action) bool { return a.Op.Changes() })
}

// Covered counts the actions that change something and that the consents reach.
func (p Plan) Covered(c Consents) int {
	n := 0
	for _, a := range p.Actions {
		if a.Op.Changes() && c.Cover(a) {
			n++
		}
	}
	return n
}

// Undoes is true when the plan takes back something that another configuration may
// have done, or can't tell. What somebody changed on the server is not taken back
// unasked.
func (p Plan) Undoes() bool {
	return slices.ContainsFunc(p.Actions, func(a Action) bool {
		return a.Op == Unknown || a.Op.Changes() && !a.Drift && a.undoes()
	})
}

// undoes is true for an action that can take something back: no configuration removes
// streams and consumers, so that none can have removed what is made anew.
func (a Action) undoes() bool { return a.Op != Create || a.Stream == "" }

// Split takes accounts and users apart from what lives in them.
func (p Plan) Split() (who, what Plan) {
	for _, a := range p.Actions {
		if a.Kind == KindAccount || a.Kind == KindUser {
			who.Actions = append(who.Actions, a)
		} else {
			what.Actions = append(what.Actions, a)
		}
	}
	return who, what
}

// Untouched is the report of a plan of which nothing was done.
func (p Plan) Untouched(why string) *Report {
	r := Report{Results: make([]Result, len(p.Actions))}
	for i, a := range p.Actions {
		r.Results[i] = Result{Action: a, Outcome: Skipped, Reason: why}
		if a.Op == Keep {
			r.Results[i] = Result{Action: a, Outcome: Done}
		}
	}
	return &r
}

// Standing is the plan without what is as declared.
func (p Plan) Standing() Plan {
	return Plan{Actions: slices.DeleteFunc(slices.Clone(p.Actions), func(a Action) bool { return !a.stands() })}
}

// stands is true for an action that a person may want to know of.
func (a Action) stands() bool { return a.Op != Keep || len(a.Adopted) > 0 }

// Digest identifies what the plan changes, so that what is applied is what was
// shown: the state of streams, which moves all the time, is not in it.
func (p Plan) Digest() string {
	var changing []Action
	for _, a := range p.Actions {
		if a.Op.Changes() {
			a.Loss, a.Note = nil, ""
			changing = append(changing, a)
		}
	}
	return digest(changing)
}

// names are the arguments a nats command takes for the object.
func (a Action) names() string {
	if a.Kind == KindConsumer {
		return a.Stream + " " + a.Consumer
	}
	return a.Stream
}
