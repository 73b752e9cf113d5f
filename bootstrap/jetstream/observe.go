// SPDX-License-Identifier: Apache-2.0

package jetstream

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-mq/holdfast/appliance/diag"
	"github.com/holdfast-mq/holdfast/bootstrap"
)

const (
	codeNotEnabledForAccount = 10039

	reasonSilent = "its leader did not answer"
)

// Observe reads the streams and consumers of the accounts. When an account or
// one of its objects can't be read, the rest is: what is missing is marked
// Unavailable, which Diff leaves alone, and the error names every account that
// could not be read. The engine has to be ready: while a server recovers its
// streams it lists only those it has reached.
func (c *Client) Observe(ctx context.Context, accounts []string) (bootstrap.Observed, error) {
	have := bootstrap.Observed{Accounts: make(map[string]bootstrap.ObservedAccount, len(accounts))}
	found, errs := make([]bootstrap.ObservedAccount, len(accounts)), make([]error, len(accounts))
	parallel(len(accounts), func(i int) {
		streams, err := c.observeAccount(ctx, accounts[i])
		if err != nil {
			found[i].Unavailable = err.Error()
			errs[i] = diag.Fail(diag.CodeObserve, fmt.Errorf("read account %q: %w", accounts[i], err), observeHint(err))
			return
		}
		found[i].Streams = streams
	})
	for i, account := range accounts {
		have.Accounts[account] = found[i]
	}
	return have, errors.Join(errs...)
}

// atOnce bounds how many questions are asked at the same time.
const atOnce = 16

// parallel calls f with 0 to n-1, several at a time, and waits: in a cluster a list with
// something in it whose leader does not answer takes the server 4 s.
func parallel(n int, f func(i int)) {
	slots := make(chan struct{}, atOnce)
	var all sync.WaitGroup
	for i := range n {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			f(i)
		})
	}
	all.Wait()
}

func observeHint(err error) string {
	if errors.Is(err, errNoJetStream) || errors.Is(err, context.DeadlineExceeded) {
		return "JetStream is starting, or was stopped after a disk error: `holdfast status` and the log say which"
	}
	return "it is tried again by itself; if it stays, see the log of the node for what the server says"
}

func (c *Client) observeAccount(ctx context.Context, account string) (map[string]bootstrap.ObservedStream, error) {
	streams := make(map[string]bootstrap.ObservedStream)
	err := c.pages(ctx, account, "STREAM.LIST", func(p page) int {
		for _, s := range p.Streams {
			name, _ := s.Config["name"].(string)
			streams[name] = bootstrap.ObservedStream{Config: s.Config, State: s.State, Created: s.Created, Placement: s.Cluster}
		}
		// A stream can stand in both: with a configuration the meta leader knows,
		// and no state because nobody who has it is there.
		for name, why := range p.gone() {
			streams[name] = bootstrap.ObservedStream{Unavailable: why, Silent: why == reasonSilent, Placement: streams[name].Placement}
		}
		return len(streams)
	})
	if code(err) == codeNotEnabledForAccount {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list streams: %w", err)
	}
	var asked []string
	for name, s := range streams {
		// Most streams of a large node have no consumer: that saves a request each.
		if s.State.Consumers > 0 && s.Unavailable == "" {
			asked = append(asked, name)
		}
	}
	found, errs := make([]map[string]bootstrap.ObservedConsumer, len(asked)), make([]error, len(asked))
	parallel(len(asked), func(i int) {
		found[i], errs[i] = c.observeConsumers(ctx, account, asked[i], streams[asked[i]].Config["retention"] == "workqueue")
	})
	for i, name := range asked {
		s := streams[name]
		s.Consumers = found[i]
		if err := errs[i]; err != nil {
			if ctx.Err() != nil || errors.Is(err, errNoJetStream) {
				return nil, fmt.Errorf("list consumers of stream %q: %w", name, err)
			}
			s.Unavailable = "list consumers: " + err.Error()
		}
		streams[name] = s
	}
	return streams, nil
}

func (c *Client) observeConsumers(ctx context.Context, account, stream string, workQueue bool) (map[string]bootstrap.ObservedConsumer, error) {
	consumers := make(map[string]bootstrap.ObservedConsumer)
	err := c.pages(ctx, account, "CONSUMER.LIST."+stream, func(p page) int {
		for _, s := range p.Consumers {
			consumers[s.Name] = bootstrap.ObservedConsumer{
				Config: s.Config, State: s.ConsumerState, Created: s.Created, WorkQueue: workQueue, Placement: s.Cluster,
			}
		}
		for name, why := range p.gone() {
			consumers[name] = bootstrap.ObservedConsumer{Unavailable: why, Silent: why == reasonSilent, Placement: consumers[name].Placement}
		}
		return len(consumers)
	})
	return consumers, err
}

// page is one answer of STREAM.LIST or CONSUMER.LIST.
type page struct {
	Total   int `json:"total"`
	Streams []struct {
		Config  map[string]any        `json:"config"`
		State   bootstrap.StreamState `json:"state"`
		Created time.Time             `json:"created"`
		Cluster bootstrap.Placement   `json:"cluster"`
	} `json:"streams"`
	Consumers []struct {
		Name    string              `json:"name"`
		Config  map[string]any      `json:"config"`
		Created time.Time           `json:"created"`
		Cluster bootstrap.Placement `json:"cluster"`
		bootstrap.ConsumerState
	} `json:"consumers"`
	Missing []string          `json:"missing"`
	Offline map[string]string `json:"offline"`
}

// gone is what the page names and does not hold, with the reason.
func (p page) gone() map[string]string {
	gone := make(map[string]string, len(p.Missing))
	for _, name := range p.Missing {
		gone[name] = reasonSilent
		if why := p.Offline[name]; why != "" {
			gone[name] = why
		}
	}
	return gone
}

// pages asks for one page after the other. add takes a page and returns how many
// objects there are so far, which is where the next page starts.
func (c *Client) pages(ctx context.Context, account, subject string, add func(page) int) error {
	for offset := 0; ; {
		var p page
		if err := c.request(ctx, account, subject, map[string]any{"offset": offset}, &p); err != nil {
			return err
		}
		next := add(p)
		if next >= p.Total || next == offset {
			return nil
		}
		offset = next
	}
}

func unmarshal(data []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	return d.Decode(into)
}
