// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

// Verifier reads everything that is stored and mends what is damaged; the appliance is
// one.
type Verifier interface {
	// Verify calls progress now and then, and ends early when ctx does.
	Verify(ctx context.Context, r VerifyRequest, progress func(VerifyProgress)) (Verified, error)
	// Mend closes all streams for a moment, and mends those named.
	Mend(ctx context.Context, r MendRequest) (MendAnswer, error)
}

// VerifyRequest says what to read, and how fast.
type VerifyRequest struct {
	// Streams are ACCOUNT/STREAM; none means all.
	Streams []string `json:"streams,omitempty"`
	// Rate is in bytes per second; 0 for no bound.
	Rate int64 `json:"rate_bytes_per_second"`
}

// VerifyProgress is how far a pass is.
type VerifyProgress struct {
	StreamsDone  int    `json:"streams_done"`
	StreamsTotal int    `json:"streams_total"`
	BytesDone    int64  `json:"bytes_done"`
	BytesTotal   int64  `json:"bytes_total"`
	Current      string `json:"current,omitempty"` // ACCOUNT/STREAM
	Damaged      int    `json:"damaged"`
}

// Verified is what a pass found.
type Verified struct {
	Begun    time.Time `json:"begun"`
	Ended    time.Time `json:"ended"`
	Streams  int       `json:"streams"`
	Blocks   int       `json:"blocks"`
	Messages int       `json:"messages"`
	Bytes    int64     `json:"bytes"`
	// Hidden are blocks whose messages can't be seen from outside the server: they are
	// compressed, or encrypted. They were not verified.
	Hidden int      `json:"hidden_blocks"`
	Damage []Damage `json:"damage"`
	// Problems say what could not be read, or kept.
	Problems []string `json:"problems,omitempty"`
}

// VerifyStatus is what is known of passes.
type VerifyStatus struct {
	// Every is how often all is read by itself; 0 is never.
	Every float64 `json:"every_seconds"`
	// Last is the latest pass over all streams; absent before the first.
	Last *VerifiedLast `json:"last,omitempty"`
	// Running is the pass that is under way.
	Running *VerifyProgress `json:"running,omitempty"`
}

// VerifiedLast is a pass over all streams, as it is remembered.
type VerifiedLast struct {
	Begun    time.Time `json:"begun"`
	Ended    time.Time `json:"ended"`
	Streams  int       `json:"streams"`
	Blocks   int       `json:"blocks"`
	Messages int       `json:"messages"`
	Bytes    int64     `json:"bytes"`
	Hidden   int       `json:"hidden_blocks"`
	Damaged  int       `json:"damaged"`
	Problems int       `json:"problems"`
}

// MendRequest names streams, as ACCOUNT/STREAM.
type MendRequest struct {
	Streams []string `json:"streams"`
}

// MendAnswer is what was mended.
type MendAnswer struct {
	Damage []Damage `json:"damage"`
	// ClosedSeconds is how long no stream answered.
	ClosedSeconds float64 `json:"closed_seconds"`
}

// verifyLine is one line of the answer to a pass: progress, then an end.
type verifyLine struct {
	Progress *VerifyProgress `json:"progress,omitempty"`
	Answer   *Verified       `json:"answer,omitempty"`
	Failure  *failure        `json:"failure,omitempty"`
}

func handleVerify(mux *http.ServeMux, v Verifier) {
	mux.HandleFunc("POST /v1/verify", func(w http.ResponseWriter, r *http.Request) {
		var req VerifyRequest
		if err := read(w, r, &req); err != nil {
			answer(w, nil, err)
			return
		}
		w.Header().Set("Content-Type", "application/jsonl")
		enc, flush := json.NewEncoder(w), http.NewResponseController(w)
		say := func(l verifyLine) {
			// Whoever went away ends the context.
			_ = enc.Encode(l)
			_ = flush.Flush()
		}
		out, err := v.Verify(r.Context(), req, func(p VerifyProgress) { say(verifyLine{Progress: &p}) })
		if err != nil {
			f := failed(err)
			say(verifyLine{Failure: &f})
			return
		}
		say(verifyLine{Answer: &out})
	})
	mux.HandleFunc("POST /v1/mend", func(w http.ResponseWriter, r *http.Request) {
		var req MendRequest
		err := read(w, r, &req)
		var a MendAnswer
		if err == nil {
			// What was begun is brought to its end.
			a, err = v.Mend(context.WithoutCancel(r.Context()), req)
		}
		answer(w, a, err)
	})
}

// Verify has the node read what it has stored, and calls progress now and then. The pass
// ends when ctx does.
func (c *Client) Verify(ctx context.Context, r VerifyRequest, progress func(VerifyProgress)) (Verified, error) {
	var out Verified
	err := c.post(ctx, "/v1/verify", r, func(body io.Reader) error {
		for dec := json.NewDecoder(body); ; {
			var l verifyLine
			if err := dec.Decode(&l); err != nil {
				return diag.Fail(diag.CodeNotReady, fmt.Errorf("follow the pass: the node went away: %w", err), "run it again when the node is up")
			}
			switch {
			case l.Progress != nil:
				progress(*l.Progress)
			case l.Failure != nil:
				return l.Failure.error()
			case l.Answer != nil:
				out = *l.Answer
				return nil
			}
		}
	})
	return out, err
}

// Mend has the node mend streams.
func (c *Client) Mend(ctx context.Context, r MendRequest) (MendAnswer, error) {
	var a MendAnswer
	err := c.post(ctx, "/v1/mend", r, func(body io.Reader) error {
		if err := json.NewDecoder(body).Decode(&a); err != nil {
			return fmt.Errorf("read the node's answer: %w", err)
		}
		return nil
	})
	return a, err
}
