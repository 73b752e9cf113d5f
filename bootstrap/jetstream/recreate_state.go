// SPDX-License-Identifier: Apache-2.0

package jetstream

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/holdfast-mq/holdfast/bootstrap"
)

const codeConsumerNotFound = 10014

// parkedSubject is where a stream listens while it takes no messages, and
// copySubject what its copy listens to: a stream without subjects would listen
// to its own name.
func parkedSubject(stream string) string { return "_holdfast.parked." + stream }
func copySubject(stream string) string   { return "_holdfast.copy." + stream }

// existing is a stream as the server has it.
type existing struct {
	Config map[string]any        `json:"config"`
	State  bootstrap.StreamState `json:"state"`
}

// lookup returns nil when there is no such stream.
func (c *Client) lookup(ctx context.Context, account, stream string) (*existing, error) {
	var s existing
	err := c.request(ctx, account, "STREAM.INFO."+stream, map[string]any{}, &s)
	if code(err) == codeStreamNotFound {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read stream %q: %w", stream, err)
	}
	s.Config = bootstrap.WithoutServers(s.Config)
	return &s, nil
}

// present is lookup of the stream that is made anew, which has to be there.
func (r *recreation) present(ctx context.Context) (*existing, error) {
	s, err := r.c.lookup(ctx, r.account, r.stream)
	if err == nil && s == nil {
		err = refuse("it is made by the next start or `holdfast apply`; run that again", "there is no such stream: somebody deleted it")
	}
	return s, err
}

// mark returns one entry of the metadata.
func mark(config map[string]any, key string) (string, bool) {
	metadata, _ := config["metadata"].(map[string]any)
	value, ok := metadata[key].(string)
	return value, ok
}

// withMark returns the configuration with an entry of the metadata, or without it
// when the value is empty.
func withMark(config map[string]any, key, value string) map[string]any {
	out := maps.Clone(config)
	metadata, _ := config["metadata"].(map[string]any)
	metadata = maps.Clone(metadata)
	if metadata == nil {
		metadata = map[string]any{}
	}
	if metadata[key] = value; value == "" {
		delete(metadata, key)
	}
	out["metadata"] = metadata
	return out
}

// holds reports whether a configuration has all that is set. It may say no of
// something that means the same, never yes of something that differs.
func holds(config, set map[string]any) bool {
	for k, want := range set {
		have := config[k]
		if object, ok := want.(map[string]any); ok {
			below, _ := have.(map[string]any)
			if !holds(below, object) {
				return false
			}
			continue
		}
		if empty(want) && empty(have) {
			continue
		}
		w, errW := json.Marshal(want)
		h, errH := json.Marshal(have)
		if errW != nil || errH != nil || string(w) != string(h) {
			return false
		}
	}
	return true
}

// empty reports a value that the server leaves out of its answers.
func empty(v any) bool {
	text, err := json.Marshal(v)
	return err == nil && slices.Contains([]string{"null", "false", "0", `""`, "[]", "{}"}, string(text))
}

// reconfigure sends a whole configuration.
func (c *Client) reconfigure(ctx context.Context, account string, config map[string]any) error {
	name, _ := config["name"].(string)
	return c.request(ctx, account, "STREAM.UPDATE."+name, config, &struct{}{})
}

// deleteStream deletes a stream, if there is one.
func (c *Client) deleteStream(ctx context.Context, account, stream string) (deleted bool, err error) {
	nc, err := c.conn(account)
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	// The request has to be empty.
	msg, err := nc.RequestWithContext(ctx, "$JS.API.STREAM.DELETE."+stream, nil)
	if err != nil {
		return false, err
	}
	err = decode(msg.Data, &struct{}{})
	if code(err) == codeStreamNotFound {
		return false, nil
	}
	return err == nil, err
}

// listed is a consumer as the server has it.
type listed struct {
	Name   string
	Config map[string]any
	State  bootstrap.ConsumerState
}

// consumers lists the consumers of a stream, sorted by name.
func (c *Client) consumers(ctx context.Context, account, stream string) ([]listed, error) {
	found := map[string]listed{}
	var silent []string
	err := c.pages(ctx, account, "CONSUMER.LIST."+stream, func(p page) int {
		for _, s := range p.Consumers {
			found[s.Name] = listed{s.Name, bootstrap.WithoutServers(s.Config), s.ConsumerState}
		}
		for name := range p.gone() {
			silent = append(silent, name)
		}
		return len(found) + len(silent)
	})
	if err != nil {
		return nil, fmt.Errorf("list consumers of stream %q: %w", stream, err)
	}
	if len(silent) > 0 {
		return nil, fmt.Errorf("consumers of stream %q do not answer: %s", stream, strings.Join(silent, ", "))
	}
	return slices.SortedFunc(maps.Values(found), func(a, b listed) int { return strings.Compare(a.Name, b.Name) }), nil
}

// setPause pauses a consumer until a time, or resumes it when that is empty.
func (c *Client) setPause(ctx context.Context, account, stream, consumer, until string) error {
	req := map[string]any{}
	if until != "" {
		req["pause_until"] = until
	}
	err := c.request(ctx, account, "CONSUMER.PAUSE."+stream+"."+consumer, req, &struct{}{})
	if code(err) == codeConsumerNotFound {
		return nil
	}
	return err
}

// createConsumer makes a consumer, or changes it in place.
func (c *Client) createConsumer(ctx context.Context, account, stream, name string, config map[string]any) error {
	req := map[string]any{"stream_name": stream, "config": config}
	return c.request(ctx, account, "CONSUMER.CREATE."+stream+"."+name, req, &struct{}{})
}

// deleteConsumer deletes a consumer, if there is one.
func (r *recreation) deleteConsumer(ctx context.Context, name string) error {
	nc, err := r.c.conn(r.account)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	// The request has to be empty.
	msg, err := nc.RequestWithContext(ctx, "$JS.API.CONSUMER.DELETE."+r.stream+"."+name, nil)
	if err != nil {
		return err
	}
	err = decode(msg.Data, &struct{}{})
	if code(err) == codeConsumerNotFound {
		return nil
	}
	return err
}
