// SPDX-License-Identifier: Apache-2.0

package bootstrap

import (
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

// Outcome is how an action ended.
type Outcome string

const (
	// Done is an action that reached its goal, or had nothing to do.
	Done Outcome = "done"
	// Skipped is an action that was not tried; the reason says why.
	Skipped Outcome = "skipped"
	// Failed is an action that was tried and has an error.
	Failed Outcome = "failed"
)

// Report is what became of a plan: one result per action, in the plan's order.
type Report struct {
	Results []Result `json:"results"`
}

// Result is what became of one action.
type Result struct {
	Action  Action  `json:"action"`
	Outcome Outcome `json:"outcome"`
	Reason  string  `json:"reason,omitempty"`
	// Refused is true when it failed, and for certain changed nothing.
	Refused bool  `json:"refused,omitempty"`
	Err     error `json:"-"`
}

// changed is true for a result after which something may be another than before.
func (r Result) changed() bool {
	return r.Action.Op.Changes() && r.Outcome != Skipped && !r.Refused
}

// Converged is true when everything declared exists and nothing is half done. What
// differs, is blocked or unmanaged needs a person and does not make a node unready.
func (r Report) Converged() bool { return !slices.ContainsFunc(r.Results, Result.Lacking) }

// Lacking is true for a result that keeps a node from being ready and is worth
// another try: something declared does not exist, could not be read, or is half made
// anew, which is when publishers are refused.
func (r Result) Lacking() bool {
	switch r.Action.Op {
	case Unknown:
		return true
	case Create:
		return r.Outcome != Done && r.Action.Stream != ""
	case Recreate:
		return r.Outcome == Failed || r.Outcome == Skipped && r.Action.Consent == NoConsent
	}
	return false
}

// Remaining is what is left to do after the report's plan.
func (r Report) Remaining() Plan {
	var p Plan
	for _, res := range r.Results {
		if res.Action.stands() && res.Outcome != Done || len(res.Action.Adopted) > 0 {
			p.Actions = append(p.Actions, res.Action)
		}
	}
	return p
}

// Settled are those of the declared objects, as Topology.Objects names them, that
// are now what the file says, and as in before, those of which nothing was changed.
func (r Report) Settled(objects, before map[string]string) map[string]string {
	settled := maps.Clone(objects)
	for _, res := range r.Results {
		// What somebody changed on the server was as declared before, and stays known.
		if res.Outcome == Done || res.Action.Drift {
			continue
		}
		path := res.Action.Path()
		delete(settled, path)
		if was := before[path]; was != "" {
			settled[path] = was
		}
	}
	for _, res := range r.Results {
		// Where only some of it was done, it is neither.
		if path := res.Action.Path(); res.changed() && settled[path] != objects[path] {
			delete(settled, path)
		}
	}
	return settled
}

// Retry is true when something failed that needs nobody's consent: it may work later,
// or once something else is out of its way.
func (r Report) Retry() bool {
	return slices.ContainsFunc(r.Results, func(res Result) bool {
		return res.Lacking() || res.Outcome == Failed && res.Action.Consent == NoConsent
	})
}

// Unchanged is true when nothing was done, and nothing tried that may have been.
func (r Report) Unchanged() bool { return !slices.ContainsFunc(r.Results, Result.changed) }

// Alters is true when something was done, or may have been, that another configuration
// could undo: streams and consumers that were made stay, whatever a file says.
func (r Report) Alters() bool {
	return slices.ContainsFunc(r.Results, func(res Result) bool { return res.changed() && res.Action.undoes() })
}

// Did is true when something was done.
func (r Report) Did() bool {
	return slices.ContainsFunc(r.Results, func(res Result) bool { return res.changed() && res.Outcome == Done })
}

// Whole is true when all that the file asks for is as it says, but for what somebody
// changed on the server.
func (r Report) Whole() bool {
	return !slices.ContainsFunc(r.Results, func(res Result) bool {
		return res.Outcome != Done && !res.Action.Drift && res.Action.Op != Unmanaged
	})
}

// Done counts in words what was done and what failed; "" when there was nothing.
func (r Report) Done() string {
	parts := r.counts(Create, "created")
	parts = append(parts, r.counts(Update, "updated")...)
	parts = append(parts, r.counts(Drop, "updated as allowed")...)
	parts = append(parts, r.counts(OneWay, "changed for good")...)
	parts = append(parts, r.counts(Recreate, "made anew")...)
	parts = append(parts, r.counts(Remove, "removed")...)
	if n := r.Count(Failed); n > 0 {
		parts = append(parts, humanize.Comma(int64(n))+" failed")
	}
	return strings.Join(parts, ", ")
}

func (r Report) counts(op Op, word string) []string {
	n := len(r.Made(op))
	if n == 0 {
		return nil
	}
	return []string{humanize.Comma(int64(n)) + " " + word}
}

// Summary is Done and what is left.
func (r Report) Summary() string {
	var parts []string
	if done := r.Done(); done != "" {
		parts = append(parts, done)
	}
	if n := r.Count(Skipped); n > 0 {
		parts = append(parts, humanize.Comma(int64(n))+" left")
	}
	return cmp.Or(strings.Join(parts, ", "), "nothing to change")
}

// Made returns the results of one kind of work that was done.
func (r Report) Made(op Op) []Result {
	var out []Result
	for _, res := range r.Results {
		if res.Action.Op == op && res.Outcome == Done {
			out = append(out, res)
		}
	}
	return out
}

// Moved is true when what was begun earlier was brought to its end: a comparison may find
// something new then, for until then nothing else was compared.
func (r Report) Moved() bool {
	return len(r.Made(Recreate)) > 0 || slices.ContainsFunc(r.Made(Update), func(res Result) bool { return res.Action.Reason == reasonWidened })
}

// Count returns the number of actions that ended so and changed something.
func (r Report) Count(o Outcome) int {
	n := 0
	for _, res := range r.Results {
		if res.Outcome == o && res.Action.Op.Changes() {
			n++
		}
	}
	return n
}

// Err joins the errors of all failed actions.
func (r Report) Err() error {
	var errs []error
	for _, res := range r.Results {
		if res.Err != nil {
			errs = append(errs, res.Err)
		}
	}
	return errors.Join(errs...)
}

// MarshalJSON adds the error's text, code and hint.
func (r Result) MarshalJSON() ([]byte, error) {
	type plain Result
	out := struct {
		plain
		Error string    `json:"error,omitempty"`
		Code  diag.Code `json:"code,omitempty"`
		Hint  string    `json:"hint,omitempty"`
	}{plain: plain(r)}
	if r.Err != nil {
		out.Error, out.Code, out.Hint = r.Err.Error(), diag.CodeOf(r.Err), diag.Hint(r.Err)
	}
	return json.Marshal(out)
}

// UnmarshalJSON reads what MarshalJSON wrote: the error comes back as a fault.
func (r *Result) UnmarshalJSON(b []byte) error {
	type plain Result
	in := struct {
		*plain
		Error string    `json:"error"`
		Code  diag.Code `json:"code"`
		Hint  string    `json:"hint"`
	}{plain: (*plain)(r)}
	d := json.NewDecoder(strings.NewReader(string(b)))
	d.UseNumber() // sequences and sizes need all 64 bits
	if err := d.Decode(&in); err != nil {
		return err
	}
	if in.Error != "" {
		r.Err = diag.Fail(in.Code, errors.New(in.Error), in.Hint)
	}
	return nil
}
