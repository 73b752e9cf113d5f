// SPDX-License-Identifier: Apache-2.0

package jetstream

import "context"

// RecreateStream gives the tests what Execute calls.
func (c *Client) RecreateStream(ctx context.Context, account, stream string, set map[string]any, step func(string)) error {
	return c.recreateStream(ctx, account, stream, set, Order{Step: step})
}

// RecreateConsumer gives the tests what Execute calls.
func (c *Client) RecreateConsumer(ctx context.Context, account, stream, consumer string, set map[string]any, step func(string)) error {
	return c.recreateConsumer(ctx, account, stream, consumer, set, Order{Step: step})
}
