// SPDX-License-Identifier: Apache-2.0

package bootstrap

import (
	"encoding/json"
	"errors"

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
	Err     error   `json:"-"`
}

// Converged is true when everything declared exists. What differs or is
// unmanaged needs a person and does not make a node unready.
func (r Report) Converged() bool {
	for _, res := range r.Results {
		if res.Action.Op == Unknown || res.Action.Op == Create && res.Outcome != Done {
			return false
		}
	}
	return true
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
	if err := json.Unmarshal(b, &in); err != nil {
		return err
	}
	if in.Error != "" {
		r.Err = diag.Fail(in.Code, errors.New(in.Error), in.Hint)
	}
	return nil
}
