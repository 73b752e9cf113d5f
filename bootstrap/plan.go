// SPDX-License-Identifier: Apache-2.0

package bootstrap

import (
	"fmt"
	"strings"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

// Op is what a plan does with one object.
type Op string

const (
	// Create makes what the file declares and the server does not have.
	Create Op = "create"
	// Keep leaves what is as declared.
	Keep Op = "keep"
	// Differs leaves what exists with another value than the file sets.
	Differs Op = "differs"
	// Unmanaged leaves what exists and is not in the file.
	Unmanaged Op = "unmanaged"
	// Unknown leaves what could not be read.
	Unknown Op = "unknown"
)

// Kind is the kind of object an action is about.
type Kind string

const (
	// KindStream is a stream.
	KindStream Kind = "stream"
	// KindConsumer is a consumer of a stream.
	KindConsumer Kind = "consumer"
)

// Plan is what there is to do, by account and stream, a stream before its
// consumers and after the streams it copies.
type Plan struct {
	Actions []Action `json:"actions"`
}

// Action is what happens to one object.
type Action struct {
	Op       Op     `json:"op"`
	Kind     Kind   `json:"kind"`
	Account  string `json:"account"`
	Stream   string `json:"stream"`
	Consumer string `json:"consumer,omitempty"`
	// Spec is the whole configuration of a Create.
	Spec    map[string]any `json:"spec,omitempty"`
	Changes []FieldChange  `json:"changes,omitempty"`
	Reason  string         `json:"reason,omitempty"`
	// Stamped is true for an Unmanaged object that Holdfast once made.
	Stamped bool     `json:"stamped,omitempty"`
	Pos     diag.Pos `json:"pos,omitzero"`
}

// FieldChange is one field that the server has another value for. Field is
// dotted; Have is nil when the server has none.
type FieldChange struct {
	Field string   `json:"field"`
	Have  any      `json:"have"`
	Want  any      `json:"want"`
	Pos   diag.Pos `json:"pos,omitzero"`
}

// Path names the object: ACCOUNT/STREAM or ACCOUNT/STREAM/CONSUMER.
func (a Action) Path() string {
	if a.Kind == KindConsumer {
		return a.Account + "/" + a.Stream + "/" + a.Consumer
	}
	return a.Account + "/" + a.Stream
}

// key is the object's place in the configuration.
func (a Action) key(field string) string {
	parts := []string{"accounts", a.Account, "streams", a.Stream}
	if a.Kind == KindConsumer {
		parts = append(parts, "consumers", a.Consumer)
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

// Warnings returns one problem per difference, per object that could not be
// read, and per object that Holdfast made and the file no longer declares. What
// clients made for themselves is no problem; the plan's text lists it.
func (p Plan) Warnings() diag.List {
	var l diag.List
	for _, a := range p.Actions {
		switch {
		case a.Op == Differs:
			for _, c := range a.Changes {
				l = append(l, a.differs(c))
			}
		case a.Op == Unmanaged && a.Stamped:
			l = append(l, diag.Problem{
				Severity: diag.Warning, Code: diag.CodeUnmanaged, Pos: a.Pos, Path: a.key(""),
				What: fmt.Sprintf("the %s is on the server and not in the file", a.Kind),
				Fix:  fmt.Sprintf("declare it again, or delete it and what it holds: `holdfast nats %s rm %s`", a.Kind, a.names()),
			})
		case a.Op == Unknown:
			l = append(l, diag.Problem{
				Severity: diag.Warning, Code: diag.CodeObserve, Pos: a.Pos, Path: a.key(""),
				What: fmt.Sprintf("the %s was not compared: %s", a.Kind, a.Reason),
				Fix:  "it is compared again by itself; if it stays, `holdfast status` says more",
			})
		}
	}
	return l
}

func (a Action) differs(c FieldChange) diag.Problem {
	return diag.Problem{
		Severity: diag.Warning, Code: diag.CodeDiffers, Pos: c.Pos, Path: a.key(c.Field),
		What: c.values(),
		Fix: fmt.Sprintf("this version changes nothing that exists: put the server's value in the file, or change the %s with `holdfast nats %s edit %s`",
			a.Kind, a.Kind, a.names()),
	}
}

// names are the arguments a nats command takes for the object.
func (a Action) names() string {
	if a.Kind == KindConsumer {
		return a.Stream + " " + a.Consumer
	}
	return a.Stream
}
