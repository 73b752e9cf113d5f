// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// Bencher has a scratch stream treated as a declared one, for a measurement; the
// appliance is one.
type Bencher interface {
	// Bench leads the messages of the stream through group commit, calls led, and
	// returns when ctx has ended and they are not led there any more. It returns why,
	// when that is not possible, or came to an end before.
	Bench(ctx context.Context, r BenchRequest, led func()) error
}

// BenchRequest names the stream of `holdfast bench`.
type BenchRequest struct {
	Account  string `json:"account"`
	Stream   string `json:"stream"`
	Subject  string `json:"subject"`  // the only one that it takes
	Consumer string `json:"consumer"` // the only one that it has
}

// benchLine is one line of the answer: led, and nothing more until the asking side ends
// it, or why it ended before.
type benchLine struct {
	Led     bool     `json:"led,omitempty"`
	Failure *failure `json:"failure,omitempty"`
}

func handleBench(mux *http.ServeMux, b Bencher) {
	mux.HandleFunc("POST /v1/bench", func(w http.ResponseWriter, r *http.Request) {
		var req BenchRequest
		if err := read(w, r, &req); err != nil {
			answer(w, nil, err)
			return
		}
		led := false
		say := func(l benchLine) {
			// Whoever went away ends the context.
			_ = json.NewEncoder(w).Encode(l)
			_ = http.NewResponseController(w).Flush()
		}
		err := b.Bench(r.Context(), req, func() {
			led = true
			w.Header().Set("Content-Type", "application/jsonl")
			say(benchLine{Led: true})
		})
		switch {
		case err != nil && led:
			f := failed(err)
			say(benchLine{Failure: &f})
		case err != nil:
			answer(w, nil, err)
		}
	})
}

// errNotLed means that the node was gone before it said that messages are led through.
var errNotLed = errors.New("the node went away")

// Bench has the messages of a scratch stream led through group commit until end is
// called or ctx is done, also when this process is killed. end returns an error when
// the node ended it before; it is called once.
func (c *Client) Bench(ctx context.Context, r BenchRequest) (end func() error, err error) {
	ctx, cancel := context.WithCancel(ctx)
	led, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- c.post(ctx, "/v1/bench", r, func(body io.Reader) error { return follow(body, func() { close(led) }) })
	}()
	select {
	case <-led:
	case err := <-ended:
		cancel()
		return nil, err
	}
	return func() error {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			return err
		}
		return nil
	}, nil
}

// follow reads the answer to its end, which is always an error.
func follow(body io.Reader, led func()) error {
	dec := json.NewDecoder(body)
	var l benchLine
	if err := dec.Decode(&l); err != nil || !l.Led {
		return errors.Join(errNotLed, err)
	}
	led()
	l = benchLine{}
	if err := dec.Decode(&l); err != nil {
		return fmt.Errorf("%w: %w", errNotLed, err)
	}
	if l.Failure == nil {
		return errNotLed
	}
	return l.Failure.error()
}
