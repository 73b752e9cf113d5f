// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"github.com/holdfast-mq/holdfast/appliance/config"
	"github.com/holdfast-mq/holdfast/appliance/diag"
	"github.com/holdfast-mq/holdfast/bootstrap"
)

// maxPlanRequest bounds the body of a request to plan or apply: the largest
// configuration, in JSON.
const maxPlanRequest = 256 << 20

// Planner compares a configuration with what the node has, and applies it; the
// appliance is one.
type Planner interface {
	Plan(ctx context.Context, r PlanRequest) (PlanAnswer, error)
	// Apply calls progress now and then, if it takes long.
	Apply(ctx context.Context, r ApplyRequest, progress func(Progress)) (ApplyAnswer, error)
}

// PlanRequest names a configuration. Without Texts, and when File is the node's
// own, the node reads its own files.
type PlanRequest struct {
	File  string        `json:"file,omitempty"` // absolute
	Texts []config.Text `json:"texts,omitempty"`
}

// PlanAnswer is what applying the configuration would do.
type PlanAnswer struct {
	// Own is true when the configuration is what the node reads at its next start.
	Own  bool           `json:"own"`
	Plan bootstrap.Plan `json:"plan"`
	// Digest identifies what the plan changes.
	Digest   string    `json:"digest"`
	Problems []Problem `json:"problems,omitempty"`
	// NeedRestart names changed parts of the configuration that a running node
	// does not take over.
	NeedRestart []string `json:"need_restart,omitempty"`
	// Revisions are the latest that were applied, oldest first, without Objects.
	Revisions bootstrap.History `json:"revisions,omitempty"`
	// Stale is the revision that the configuration was, when a newer one has been
	// applied since: it is not applied unless somebody goes back on purpose.
	Stale *bootstrap.Revision `json:"stale,omitempty"`
}

// ApplyRequest is a configuration and what was agreed to.
type ApplyRequest struct {
	PlanRequest
	// Digest is that of the plan which was shown; another one is refused.
	Digest   string             `json:"digest"`
	Consents bootstrap.Consents `json:"consents"`
	// Rollback applies a configuration although a newer one was applied.
	Rollback bool `json:"rollback,omitempty"`
	// By is who asked, as the node's system knows them; the server fills it.
	By string `json:"-"`
}

// Progress is how far an apply is.
type Progress struct {
	Done  int `json:"done"`
	Total int `json:"total"`
	// Now says how far a long action is.
	Now string `json:"now,omitempty"`
}

// ApplyAnswer is what became of it.
type ApplyAnswer struct {
	Own         bool             `json:"own"`
	Report      bootstrap.Report `json:"report"`
	Revision    uint64           `json:"revision,omitempty"`
	NeedRestart []string         `json:"need_restart,omitempty"`
}

// line is one line of the answer to an apply: progress, then an end.
type line struct {
	Progress *Progress    `json:"progress,omitempty"`
	Answer   *ApplyAnswer `json:"answer,omitempty"`
	Failure  *failure     `json:"failure,omitempty"`
}

func handlePlans(mux *http.ServeMux, p Planner) {
	mux.HandleFunc("POST /v1/plan", func(w http.ResponseWriter, r *http.Request) {
		var req PlanRequest
		err := read(w, r, &req)
		var a PlanAnswer
		if err == nil {
			a, err = p.Plan(r.Context(), req)
		}
		answer(w, a, err)
	})
	mux.HandleFunc("POST /v1/apply", func(w http.ResponseWriter, r *http.Request) {
		var req ApplyRequest
		if err := read(w, r, &req); err != nil {
			answer(w, nil, err)
			return
		}
		req.By = peerOf(r.Context())
		w.Header().Set("Content-Type", "application/jsonl")
		enc := json.NewEncoder(w)
		flush := http.NewResponseController(w)
		say := func(l line) {
			// Whoever asked may have gone away; what was begun is brought to its end.
			_ = enc.Encode(l)
			_ = flush.Flush()
		}
		// From here on a client that loses the node knows that something may have begun.
		_ = flush.Flush()
		a, err := p.Apply(context.WithoutCancel(r.Context()), req, func(p Progress) { say(line{Progress: &p}) })
		if err != nil {
			f := failed(err)
			say(line{Failure: &f})
			return
		}
		say(line{Answer: &a})
	})
}

func read(w http.ResponseWriter, r *http.Request, into any) error {
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxPlanRequest)).Decode(into); err != nil {
		return diag.Fail(diag.CodeUsage, fmt.Errorf("read the request: %w", err), "ask with a `holdfast` of the node's version")
	}
	return nil
}

// Plan asks what applying a configuration would do.
func (c *Client) Plan(ctx context.Context, r PlanRequest) (PlanAnswer, error) {
	var a PlanAnswer
	err := c.post(ctx, "/v1/plan", r, func(body io.Reader) error {
		dec := json.NewDecoder(body)
		dec.UseNumber() // sequences and sizes need all 64 bits
		if err := dec.Decode(&a); err != nil {
			return fmt.Errorf("read the node's answer: %w", err)
		}
		return nil
	})
	return a, err
}

// Apply applies a configuration and calls progress now and then.
func (c *Client) Apply(ctx context.Context, r ApplyRequest, progress func(Progress)) (ApplyAnswer, error) {
	var a ApplyAnswer
	err := c.post(ctx, "/v1/apply", r, func(body io.Reader) error {
		for dec := json.NewDecoder(body); ; {
			var l line
			if err := dec.Decode(&l); err != nil {
				return diag.Fail(diag.CodeNotReady, fmt.Errorf("follow the apply: the node went away: %w", err),
					"what was begun is brought to its end at the node's next start; `holdfast plan` shows what is left")
			}
			switch {
			case l.Progress != nil:
				progress(*l.Progress)
			case l.Failure != nil:
				return l.Failure.error()
			case l.Answer != nil:
				a = *l.Answer
				return nil
			}
		}
	})
	return a, err
}
