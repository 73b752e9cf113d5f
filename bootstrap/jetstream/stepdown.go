// SPDX-License-Identifier: Apache-2.0

package jetstream

import (
	"context"
	"fmt"
)

// StepDown has the node that leads a stream, or a consumer of it when that is not "", hand
// over to another one. Publishers and workers wait for the election.
func (c *Client) StepDown(ctx context.Context, account, stream, consumer string) error {
	subject := "STREAM.LEADER.STEPDOWN." + stream
	if consumer != "" {
		subject = "CONSUMER.LEADER.STEPDOWN." + stream + "." + consumer
	}
	if err := c.request(ctx, account, subject, struct{}{}, &struct{}{}); err != nil {
		return fmt.Errorf("have the leader of %s step down: %w", object{account: account, stream: stream, consumer: consumer}, err)
	}
	return nil
}

// StepDownMeta has another node decide on streams and consumers. system is the name of the
// system account.
func (c *Client) StepDownMeta(ctx context.Context, system string) error {
	if err := c.request(ctx, system, "META.LEADER.STEPDOWN", struct{}{}, &struct{}{}); err != nil {
		return fmt.Errorf("hand over the lead: %w", err)
	}
	return nil
}
