// SPDX-License-Identifier: Apache-2.0

package jetstream

import (
	"context"
	"fmt"

	"github.com/holdfast-mq/holdfast/bootstrap"
)

// object is a stream, or a consumer of it, in the requests of the API.
type object struct{ account, stream, consumer string }

func target(a bootstrap.Action) object {
	return object{account: a.Account, stream: a.Stream, consumer: a.Consumer}
}

func (o object) String() string {
	if o.consumer != "" {
		return fmt.Sprintf("consumer %q of stream %q in account %q", o.consumer, o.stream, o.account)
	}
	return fmt.Sprintf("stream %q in account %q", o.stream, o.account)
}

func (o object) kind() bootstrap.Kind {
	if o.consumer != "" {
		return bootstrap.KindConsumer
	}
	return bootstrap.KindStream
}

// subject is that of a request about the object. A consumer is updated by the
// request that creates it.
func (o object) subject(verb string) string {
	if o.consumer == "" {
		return "STREAM." + verb + "." + o.stream
	}
	if verb == "UPDATE" {
		verb = "CREATE"
	}
	return "CONSUMER." + verb + "." + o.stream + "." + o.consumer
}

// creation is the body of a request that creates or updates. Without the action an
// existing consumer would be changed by a creation, and a missing one be created by
// an update.
func (o object) creation(config map[string]any, action string) any {
	if o.consumer == "" {
		return config
	}
	return map[string]any{"stream_name": o.stream, "config": config, "action": action}
}

// config reads the object's present configuration.
func (c *Client) config(ctx context.Context, o object) (map[string]any, error) {
	var info struct {
		Config map[string]any `json:"config"`
	}
	if err := c.request(ctx, o.account, o.subject("INFO"), struct{}{}, &info); err != nil {
		return nil, fmt.Errorf("read its configuration: %w", err)
	}
	return info.Config, nil
}
