// SPDX-License-Identifier: Apache-2.0

package jetstream

import (
	"context"
	"fmt"
)

// HandOver has the node that leads a stream, or a consumer of it when that is not "", hand
// over to another one. Publishers and workers wait for about a second.
func (c *Client) HandOver(ctx context.Context, account, stream, consumer string) error {
	subject := "STREAM.LEADER.STEPDOWN." + stream
	if consumer != "" {
		subject = "CONSUMER.LEADER.STEPDOWN." + stream + "." + consumer
	}
	if err := c.request(ctx, account, subject, struct{}{}, &struct{}{}); err != nil {
		return fmt.Errorf("hand over %s: %w", object{account: account, stream: stream, consumer: consumer}, err)
	}
	return nil
}
